//! Labels that claims and nodes of earlier versions lack.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeclaim/hydration/`, `node/hydration/`.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::{NodeClaim, labels};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::Work;
use crate::context::{Context, Error};
use crate::recorder::Note;

/// The label that names the class, and its value.
fn class_label(claim: &NodeClaim) -> (String, &str) {
    let class = &claim.spec.node_class_ref;
    (format!("{}/{}", class.group, class.kind.to_lowercase()), &class.name)
}

/// Gives a claim the label of its class.
pub(super) async fn claim(
    context: &Context,
    claim: Arc<NodeClaim>,
) -> Result<Arc<NodeClaim>, Error> {
    let (key, class) = class_label(&claim);
    if claim.labels().get(&key).is_some_and(|value| value == class) {
        return Ok(claim);
    }
    let patch = Patch::Merge(json!({"metadata": {"labels": {key: class}}}));
    let api = Api::<NodeClaim>::all(context.client.clone());
    let claim = api.patch(&claim.name_any(), &PatchParams::default(), &patch).await?;
    context.index().claims.learn(claim.clone());
    Ok(Arc::new(claim))
}

/// Gives the claim's registered Node the label of its class, and that of its pool back if somebody
/// has changed it: the claim says where a node belongs.
pub(super) async fn node(context: &Context, work: &Work) -> Result<(), Error> {
    let Some(name) = work.status.node_name.as_ref() else { return Ok(()) };
    let Some(node) = context.index().nodes.get(name) else { return Ok(()) };
    let (key, class) = class_label(&work.claim);
    let mut wanted = BTreeMap::from([(key.as_str(), class)]);
    let pool = work.claim.labels().get(labels::NODEPOOL);
    wanted.extend(pool.map(|pool| (labels::NODEPOOL, pool.as_str())));
    let has = |(key, value): &(&str, &str)| node.labels().get(*key).is_some_and(|v| v == value);
    wanted.retain(|key, value| !has(&(*key, *value)));
    if wanted.is_empty() {
        return Ok(());
    }
    if let (Some(pool), Some(other)) =
        (wanted.get(labels::NODEPOOL), node.labels().get(labels::NODEPOOL))
    {
        let message = format!("Node belongs to NodePool {pool:?}, its label said {other:?}");
        let note = Note::warning("NodePoolLabelRestored", message);
        context.recorder.publish(node.object_ref(&()), note).await;
    }
    let patch = Patch::Merge(json!({"metadata": {"labels": wanted}}));
    let api = Api::<Node>::all(context.client.clone());
    let node = api.patch(name, &PatchParams::default(), &patch).await?;
    context.index().nodes.learn(node);
    Ok(())
}
