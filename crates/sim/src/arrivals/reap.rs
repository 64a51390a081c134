//! What has ended makes room, as a CI runner deletes the pod of a job that is done.

use aerostat_cluster::registry::DeleteOptions;
use aerostat_cluster::{Change, Cluster, Informer};
use k8s_openapi::api::core::v1::Pod;

use super::template::ARRIVED;

/// Deletes the Pods that have arrived and ended, until dropped.
pub async fn run(cluster: Cluster) {
    let mut pods: Informer<Pod> = cluster.informer();
    while let Some(change) = pods.next().await {
        let Change::Applied { new: pod, .. } = change else { continue };
        let metadata = &pod.metadata;
        let arrived = metadata.annotations.as_ref().is_some_and(|all| all.contains_key(ARRIVED));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        if arrived && ended && metadata.deletion_timestamp.is_none() {
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let name = metadata.name.as_deref().unwrap_or_default();
            // Someone else may have deleted it: it is gone either way.
            let _ = cluster.delete::<Pod>(namespace, name, &DeleteOptions::default());
        }
    }
}
