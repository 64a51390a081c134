//! Whether a kubelet takes a pod that was bound to its node.
//!
//! Source: kubernetes `pkg/kubelet/lifecycle/predicate.go`.

use aerostat_engine::node::{Node, Usage};
use aerostat_engine::pod::Pod;
use aerostat_engine::predicates::{self, Reason};
use k8s_openapi::api::core::v1::Taint;

/// Why it does not: reason and message of the failed pod.
pub(super) fn refusal(pod: &Pod, node: &Node, usage: &Usage) -> Option<(String, String)> {
    // Only taints that would evict the pod at once matter to a kubelet.
    let evicting: Vec<Taint> =
        node.taints.iter().filter(|taint| taint.effect == "NoExecute").cloned().collect();
    let reasons = match predicates::room(pod, &node.allocatable, usage) {
        reasons if !reasons.is_empty() => reasons,
        _ => predicates::place(&pod.constraints, Some(&node.name), &node.labels, &evicting)
            .into_iter()
            .collect(),
    };
    let reason = reasons.first()?;
    let resource = match reason {
        Reason::Insufficient { resource, .. } => resource.as_str(),
        Reason::TooManyPods => "pods",
        Reason::Ports => return Some(failed("NodePorts", reason)),
        Reason::Taint => return Some(failed("TaintToleration", reason)),
        Reason::NodeAffinity => return Some(failed("NodeAffinity", reason)),
        Reason::Unschedulable
        | Reason::VolumeCount
        | Reason::VolumeAffinity
        | Reason::VolumeBinding
        | Reason::NodeName
        | Reason::Spread
        | Reason::SpreadLabel
        | Reason::PodAffinity
        | Reason::PodAntiAffinity
        | Reason::ExistingAntiAffinity => return None,
    };
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {}, used: {}, capacity: {}",
        pod.requests.get(resource),
        usage.requested.get(resource),
        node.allocatable.get(resource),
    );
    Some((format!("OutOf{resource}"), message))
}

fn failed(predicate: &str, reason: &Reason) -> (String, String) {
    (predicate.to_owned(), format!("Predicate {predicate} failed: {reason}"))
}
