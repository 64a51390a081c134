//! Pods that leave a draining node without a gap: their Deployment is rolled out anew, as by
//! `kubectl rollout restart`, and takes them away when their successors are ready.
//!
//! Asked for by `aerostat.dev/surge: "true"` on the pod. Nothing is evicted, so no
//! PodDisruptionBudget is asked: the Deployment's own strategy says how many are there meanwhile.

use aerostat_api::labels;
use aerostat_engine::pod::Pod;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1 as core;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::context::{Context, Error, gone_is_fine};

/// Which rollout a ReplicaSet is of.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// When somebody wanted another rollout, in the template.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

/// Has the Deployment of a pod bring another one; whether there is one, and it was asked for.
pub(super) async fn leave(context: &Context, pod: &Pod, node: &core::Node) -> Result<bool, Error> {
    if pod.annotations.get(labels::SURGE).is_none_or(|value| value != "true") {
        return Ok(false);
    }
    let Some((deployment, is_newest)) = deployment_of(context, pod) else { return Ok(false) };
    let Some(begun) = &node.metadata.deletion_timestamp else { return Ok(false) };
    if is_newest {
        // The same for every look at this drain: the second one changes nothing.
        let annotations = json!({RESTARTED: begun.0.to_string()});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        let api = Api::<Deployment>::namespaced(context.client.clone(), &pod.namespace);
        let patch = Patch::Merge(patch);
        gone_is_fine(api.patch(&deployment, &PatchParams::default(), &patch).await)?;
    }
    Ok(true)
}

/// The Deployment of a pod, and whether the pod is of its newest rollout: if not, another one is
/// under way.
fn deployment_of(context: &Context, pod: &Pod) -> Option<(String, bool)> {
    let owner = pod.owner.as_ref().filter(|owner| owner.kind == "ReplicaSet")?;
    let sets = &context.index().replica_sets;
    let set = sets.get(&format!("{}/{}", pod.namespace, owner.name))?;
    let deployment = controller(&set)?;
    let mine = sets.values().filter(|other| {
        other.namespace() == set.namespace() && controller(other) == Some(deployment)
    });
    let newest = mine.map(|set| revision(set)).max();
    Some((deployment.to_owned(), newest == Some(revision(&set))))
}

fn controller(set: &ReplicaSet) -> Option<&str> {
    let mut owners = set.owner_references().iter();
    let owner =
        owners.find(|owner| owner.kind == "Deployment" && owner.controller == Some(true))?;
    Some(&owner.name)
}

fn revision(set: &ReplicaSet) -> u64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}
