//! Pods that leave their machines: those wait for a place, too.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use aerostat_api::labels as known;
use k8s_openapi::api::core::v1::Taint;

use super::labels::repelling;
use crate::plan::Plan;
use crate::pod::Pod;
use crate::snapshot::Snapshot;

/// The cluster with the pods unbound whose machines are being deleted, are given up by the plan, or
/// are being replaced.
pub(super) fn moved<'a>(snapshot: &'a Snapshot, plan: &Plan) -> Cow<'a, Snapshot> {
    let given_up = plan.commands.iter().flat_map(|command| &command.candidates);
    let given_up = given_up.chain(&plan.terminations).map(|t| t.claim.as_str());
    let mut claims: BTreeSet<&str> = given_up.collect();
    let placed = plan.nominations.iter().chain(&plan.moves).map(|n| &n.pod);
    let placed: BTreeSet<(&str, &str)> = placed
        .chain(plan.launches.iter().flat_map(|launch| &launch.pods))
        .map(|(namespace, name)| (namespace.as_str(), name.as_str()))
        .collect();
    let emptied: BTreeSet<&str> = snapshot
        .pods
        .iter()
        .filter(|pod| placed.contains(&(pod.namespace.as_str(), pod.name.as_str())))
        .filter_map(|pod| pod.node.as_deref())
        .collect();
    for state in &snapshot.nodes {
        let Some(claim) = state.claim.as_deref() else { continue };
        let is_replaced = || {
            let named = |by: &crate::snapshot::StateNode| {
                by.replaces.as_ref().is_some_and(|replaces| replaces.claims.contains(claim))
            };
            emptied.contains(state.node.name.as_str()) && snapshot.nodes.iter().any(named)
        };
        if state.deleting || is_replaced() {
            claims.insert(claim);
        }
    }
    let left = snapshot.nodes.iter().filter(|state| {
        state.has_node && state.claim.as_deref().is_some_and(|claim| claims.contains(claim))
    });
    let left: BTreeSet<&str> = left.map(|state| state.node.name.as_str()).collect();
    if left.is_empty() {
        return Cow::Borrowed(snapshot);
    }
    let mut moved = snapshot.clone();
    for pod in &mut moved.pods {
        if pod.node.as_deref().is_some_and(|node| left.contains(node)) && leaves(pod) {
            let pod = Arc::make_mut(pod);
            (pod.node, pod.nominated_node) = (None, None);
        }
    }
    Cow::Owned(moved)
}

/// Whether a pod is evicted when its node goes.
pub(super) fn leaves(pod: &Pod) -> bool {
    let taint = Taint {
        key: known::DISRUPTED_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let goes_with_node =
        pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet" || owner.kind == "Node");
    let is_repelled = repelling(&pod.constraints, std::slice::from_ref(&taint)).is_some();
    !(goes_with_node || pod.deleting || pod.terminal) && is_repelled
}
