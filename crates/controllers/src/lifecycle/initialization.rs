//! The Node is ready for the pods that it was launched for.

use aerostat_api::{NodeClaim, labels};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Work;
use crate::context::{Context, Error};
use crate::snapshot::is_ephemeral;

/// Marks claim and Node as initialized, or says what is missing.
pub(super) async fn initialize(context: &Context, work: &mut Work) -> Result<(), Error> {
    if !work.conditions.is_true("Registered") {
        return Ok(());
    }
    let Some(name) = work.status.node_name.clone() else { return Ok(()) };
    let Some(node) = context.index().nodes.get(&name) else {
        let message = "Node not registered with cluster";
        work.conditions.set("Initialized", "Unknown", "NodeNotFound", message);
        return Ok(());
    };
    if let Some((reason, message)) = missing(&work.claim, &node) {
        work.conditions.set("Initialized", "Unknown", reason, &message);
        return Ok(());
    }
    let patch = Patch::Merge(json!({"metadata": {"labels": {labels::INITIALIZED: "true"}}}));
    let api = Api::<Node>::all(context.client.clone());
    let node = api.patch(&name, &PatchParams::default(), &patch).await?;
    context.index().nodes.learn(node);
    work.conditions.set_true("Initialized");
    Ok(())
}

/// What keeps a registered Node from being initialized: reason and message.
fn missing(claim: &NodeClaim, node: &Node) -> Option<(&'static str, String)> {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if !conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
        return Some(("NodeNotReady", "Node status is NotReady".to_owned()));
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let startup = claim.spec.startup_taints.as_deref().unwrap_or_default();
    let is_startup = |t: &&Taint| startup.iter().any(|s| s.key == t.key && s.effect == t.effect);
    if let Some(taint) = taints.iter().find(is_startup) {
        let message = format!("StartupTaint {:?} still exists", show(taint));
        return Some(("StartupTaintsExist", message));
    }
    if let Some(taint) = taints.iter().find(|taint| is_ephemeral(taint)) {
        let message = format!("KnownEphemeralTaint {:?} still exists", show(taint));
        return Some(("KnownEphemeralTaintsExist", message));
    }
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let requests = claim.spec.resources.as_ref().map(|resources| &resources.requests);
    for (name, quantity) in requests.into_iter().flatten() {
        let there = allocatable.and_then(|list| list.get(name));
        let zero =
            there.is_none_or(|q| q.0.parse().is_ok_and(|q: aerostat_api::Quantity| q.is_zero()));
        if !quantity.is_zero() && zero {
            let message = format!("Resource {name:?} was requested but not registered");
            return Some(("ResourceNotRegistered", message));
        }
    }
    None
}

fn show(taint: &Taint) -> String {
    match &taint.value {
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
        None => format!("{}:{}", taint.key, taint.effect),
    }
}
