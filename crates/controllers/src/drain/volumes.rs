//! The volumes that a node still holds.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::pods;
use crate::context::Context;

/// The names of the VolumeAttachments that a drained node waits for: all but those of pods that stay.
///
/// Source: kubernetes-sigs/karpenter `pkg/controllers/node/termination/controller.go`.
pub(super) fn attached(context: &Context, node: &str) -> Vec<String> {
    let index = context.index();
    let storage = index.volumes.storage();
    let staying = pods::of_node(&index, node).filter(|pod| !pods::leaves(pod));
    let kept: BTreeSet<String> = staying
        .flat_map(|pod| {
            let volume = |claim: &aerostat_engine::pod::ClaimRef| {
                let key = (pod.namespace.clone(), claim.name.clone());
                storage.claims.get(&key).and_then(|claim| claim.volume.clone())
            };
            pod.claims.iter().filter_map(volume).collect::<Vec<_>>()
        })
        .collect();
    let waits_for =
        |attachment: &&std::sync::Arc<k8s_openapi::api::storage::v1::VolumeAttachment>| {
            let volume = attachment.spec.source.persistent_volume_name.as_ref();
            attachment.spec.node_name == node && volume.is_none_or(|volume| !kept.contains(volume))
        };
    index.attachments.values().filter(waits_for).map(|a| a.name_any()).collect()
}
