//! Which pods go when there are too many.
//!
//! The order is that of `ActivePodsWithRanks` in Kubernetes `pkg/controller/controller_utils.go`,
//! as one key. There, pods that became ready at different times of one logarithmic bucket are
//! ordered by UID at once; here restarts and age are looked at before the UID, which makes the
//! order a total one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::pods::{is_ready, phase, ready_since};

/// The `excess` of `pods`, all active, that are the cheapest to lose; `related` counts by node the
/// active pods that do the same work.
pub(super) fn choose(
    mut pods: Vec<Arc<Pod>>,
    related: &BTreeMap<String, usize>,
    excess: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if excess < pods.len() {
        pods.sort_by_cached_key(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (
                node.is_some(),
                match phase(pod) {
                    "Pending" => 0,
                    "Unknown" => 1,
                    _ => 2,
                },
                is_ready(pod),
                deletion_cost(pod),
                Reverse(node.and_then(|node| related.get(node)).copied().unwrap_or(0)),
                ready_since(pod).map_or(0, |since| age_bucket(since, now)),
                Reverse(restarts(pod)),
                created.map_or(0, |created| age_bucket(created, now)),
                pod.metadata.uid.clone(),
            )
        });
    }
    pods.truncate(excess);
    pods
}

fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    let cost = annotations.and_then(|map| map.get("controller.kubernetes.io/pod-deletion-cost"));
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0)
}

/// The logarithm of an age in nanoseconds: ages of the same order count as equal.
fn age_bucket(since: Timestamp, now: Timestamp) -> i64 {
    let age = now.duration_since(since).as_nanos();
    u128::try_from(age).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from)
}
