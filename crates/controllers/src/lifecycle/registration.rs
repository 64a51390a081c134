//! The machine's Node joins, and is made the claim's.

use aerostat_api::{NodeClaim, labels};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};

use super::Work;
use crate::context::{Context, Error};
use crate::recorder::Note;

/// Registers the claim's Node, if it has joined.
pub(super) async fn register(context: &Context, work: &mut Work) -> Result<(), Error> {
    let Some(provider_id) = work.status.provider_id.clone() else { return Ok(()) };
    let nodes = context.index().nodes_of(&provider_id);
    let node = match nodes.as_slice() {
        [] => {
            let message = "Node not registered with cluster";
            work.conditions.set("Registered", "Unknown", "NodeNotFound", message);
            return Ok(());
        }
        [node] => node,
        _ => {
            let message = "Invariant violated, matched multiple nodes";
            work.conditions.set("Registered", "False", "MultipleNodesFound", message);
            return Ok(());
        }
    };
    let unregistered = |taint: &Taint| taint.key == labels::UNREGISTERED_TAINT;
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let registered = node.labels().get(labels::REGISTERED).is_some_and(|value| value == "true");
    if !registered && !taints.iter().any(unregistered) {
        let message = "Missing karpenter.sh/unregistered taint which prevents registration \
                       related race conditions on Karpenter-managed nodes";
        let note = Note::warning("UnregisteredTaintMissing", message);
        context.recorder.publish(work.claim.object_ref(&()), note).await;
    }
    let wanted = synced(&work.claim, node);
    if wanted != **node {
        let api = Api::<Node>::all(context.client.clone());
        let node = api.replace(&node.name_any(), &PostParams::default(), &wanted).await?;
        context.index().nodes.learn(node);
    }
    work.status.node_name = Some(node.name_any());
    work.conditions.set_true("Registered");
    Ok(())
}

/// The Node with everything that the claim gives it.
fn synced(claim: &NodeClaim, node: &Node) -> Node {
    let mut node = node.clone();
    let finalizers = node.finalizers_mut();
    if !finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER) {
        finalizers.push(labels::TERMINATION_FINALIZER.to_owned());
    }
    let owner = OwnerReference {
        api_version: NodeClaim::api_version(&()).into_owned(),
        kind: NodeClaim::kind(&()).into_owned(),
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    let owners = node.owner_references_mut();
    if !owners.iter().any(|other| other.uid == owner.uid) {
        owners.push(owner);
    }
    node.labels_mut().extend(claim.labels().clone());
    node.labels_mut().insert(labels::REGISTERED.to_owned(), "true".to_owned());
    node.annotations_mut().extend(claim.annotations().clone());
    let sync = node.labels().get(labels::DO_NOT_SYNC_TAINTS).is_none_or(|value| value != "true");
    let spec = node.spec.get_or_insert_default();
    let taints = spec.taints.get_or_insert_default();
    if sync {
        let mine = claim.spec.taints.iter().chain(&claim.spec.startup_taints).flatten();
        for taint in mine {
            let same = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
            if !taints.iter().any(same) {
                taints.push(taint.clone());
            }
        }
    }
    taints.retain(|taint| taint.key != labels::UNREGISTERED_TAINT);
    if taints.is_empty() {
        spec.taints = None;
    }
    node
}
