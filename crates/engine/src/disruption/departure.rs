//! Machines that are left: their pods look for another place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use super::emptiness::belongs_to_node;
use crate::pod::{Pod, PodKey};
use crate::predicates;
use crate::snapshot::Snapshot;

/// Pods that look for another place, and the claims of the machines that they leave.
pub(crate) type Movers = BTreeMap<PodKey, String>;

/// The taint of machines that are about to go.
pub(crate) fn disrupted() -> Taint {
    Taint {
        key: labels::DISRUPTED_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

/// Whether a pod is put somewhere else when its node goes. Pods that tolerate the taint are not
/// evicted.
pub(crate) fn is_movable(pod: &Pod) -> bool {
    let ends = pod.terminal || pod.deleting || belongs_to_node(pod);
    !ends && !predicates::tolerates(&pod.constraints.tolerations, &disrupted())
}

/// Keeps pods off the machines of `claims`, and makes those that are there wait for a place, as if
/// they had been evicted. Pods that nobody would make anew are lost with a machine that is being
/// deleted: nothing is bought for them.
pub(crate) fn vacate(snapshot: &mut Snapshot, claims: &BTreeSet<String>) -> Movers {
    let mut left: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for state in &mut snapshot.nodes {
        let Some(claim) = state.claim.as_ref().filter(|claim| claims.contains(*claim)) else {
            continue;
        };
        if state.has_node {
            left.insert(state.node.name.clone(), (claim.clone(), state.deleting));
        }
        if !state.is_disrupted() {
            state.node.taints.push(disrupted());
        }
    }
    let mut movers = Movers::new();
    for pod in &mut snapshot.pods {
        let Some((claim, is_deleted)) = pod.node.as_ref().and_then(|node| left.get(node)) else {
            continue;
        };
        if !is_movable(pod) || *is_deleted && pod.owner.is_none() {
            continue;
        }
        movers.insert((pod.namespace.clone(), pod.name.clone()), claim.clone());
        let pod = Arc::make_mut(pod);
        (pod.node, pod.nominated_node) = (None, None);
        // Nobody has to be preempted for it: it has been waiting for ever.
        pod.unschedulable_since = Some(Timestamp::UNIX_EPOCH);
    }
    movers
}
