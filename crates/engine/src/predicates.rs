//! Does this pod fit on that node? Kubernetes' scheduling predicates, used by the planner and by
//! the embedded scheduler alike, so that the two cannot disagree.
//!
//! [`check`] asks everything of a node that is there. [`place`] asks only what labels and taints
//! answer, so that a node that does not exist yet can be judged too; [`room`] asks the rest of the
//! node. [`topology`] asks, last, what other pods allow.
//! Order and texts are those of kubernetes `pkg/scheduler/framework/plugins` (v1.36).

mod attach;
mod selector;
mod taints;
#[cfg(test)]
mod tests;
pub mod topology;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;

use crate::node::{Node, Usage};
use crate::pod::{ANY_IP, Constraints, Pod};
use crate::resources::Resources;

pub use attach::attach_room;
pub use selector::{matches_affinity, matches_requirement, matches_term};
pub use taints::{tolerates, untolerated, untolerated_preferences};

/// The taint that stands for `spec.unschedulable`.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Why a pod may not go on a node. [`fmt::Display`] is kube-scheduler's text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod names another node.
    NodeName,
    /// A taint keeps it off.
    Taint,
    /// Node selector or required node affinity exclude it.
    NodeAffinity,
    /// A host port is taken.
    Ports,
    /// The node has no place for another pod.
    TooManyPods,
    /// Too little of one resource is left.
    Insufficient {
        /// Its Kubernetes name.
        resource: String,
        /// Whether even the empty node has too little.
        beyond_allocatable: bool,
    },
    /// The volumes that its pods attach would be too many.
    VolumeCount,
    /// A volume of the pod cannot be used there.
    VolumeAffinity,
    /// A volume that the pod waits for cannot be made or bound there.
    VolumeBinding,
    /// It would have more pods than a required topology spread constraint allows.
    Spread,
    /// It lacks the label that a required topology spread constraint is about.
    SpreadLabel,
    /// No pod is near that the pod's affinity asks for.
    PodAffinity,
    /// A pod is near that the pod's anti-affinity shuns.
    PodAntiAffinity,
    /// A pod is near whose anti-affinity shuns the pod.
    ExistingAntiAffinity,
}

impl Reason {
    /// Whether removing other pods could help.
    #[must_use]
    pub fn preemption_may_help(&self) -> bool {
        match self {
            Self::Ports | Self::TooManyPods | Self::VolumeCount => true,
            Self::Insufficient { beyond_allocatable, .. } => !beyond_allocatable,
            Self::Spread | Self::PodAntiAffinity | Self::ExistingAntiAffinity => true,
            Self::Unschedulable
            | Self::NodeName
            | Self::Taint
            | Self::NodeAffinity
            | Self::VolumeAffinity
            | Self::VolumeBinding
            | Self::SpreadLabel
            | Self::PodAffinity => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::NodeName => f.write_str("node(s) didn't match the requested node name"),
            Self::Taint => f.write_str("node(s) had untolerated taint(s)"),
            Self::NodeAffinity => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::Ports => {
                f.write_str("node(s) didn't have free ports for the requested pod ports")
            }
            Self::TooManyPods => f.write_str("Too many pods"),
            Self::Insufficient { resource, .. } => write!(f, "Insufficient {resource}"),
            Self::VolumeCount => f.write_str("node(s) exceed max volume count"),
            Self::VolumeAffinity => {
                f.write_str("node(s) didn't match PersistentVolume's node affinity")
            }
            Self::VolumeBinding => {
                f.write_str("node(s) didn't find available persistent volumes to bind")
            }
            Self::Spread => f.write_str("node(s) didn't match pod topology spread constraints"),
            Self::SpreadLabel => f.write_str(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
            Self::PodAffinity => f.write_str("node(s) didn't match pod affinity rules"),
            Self::PodAntiAffinity => f.write_str("node(s) didn't match pod anti-affinity rules"),
            Self::ExistingAntiAffinity => {
                f.write_str("node(s) didn't satisfy existing pods anti-affinity rules")
            }
        }
    }
}

/// Why `pod` may not go on `node` beside what `usage` counts; empty if it may. As in
/// kube-scheduler the first predicate that fails answers alone; only resources are told together.
#[must_use]
pub fn check(pod: &Pod, node: &Node, usage: &Usage) -> Vec<Reason> {
    if node.unschedulable && !tolerates_cordon(&pod.constraints) {
        return vec![Reason::Unschedulable];
    }
    if pod.node.as_ref().is_some_and(|name| *name != node.name) {
        return vec![Reason::NodeName];
    }
    let constraints = &pod.constraints;
    let (name, labels) = (Some(node.name.as_str()), &node.labels);
    if let Some(reason) = labels_and_taints(constraints, name, labels, &node.taints) {
        return vec![reason];
    }
    let reasons = room(pod, &node.allocatable, usage);
    if !reasons.is_empty() {
        return reasons;
    }
    if attach_room(&constraints.volumes.attached, &node.attach_limits, &usage.attached) == 0 {
        return vec![Reason::VolumeCount];
    }
    volumes(constraints, name, labels).into_iter().collect()
}

/// Why labels and taints keep a pod with `constraints` off; `None` if they do not. `name` is
/// `None` for a node that has no name yet.
#[must_use]
pub fn place(
    constraints: &Constraints,
    name: Option<&str>,
    labels: &BTreeMap<String, String>,
    taints: &[Taint],
) -> Option<Reason> {
    labels_and_taints(constraints, name, labels, taints)
        .or_else(|| volumes(constraints, name, labels))
}

fn labels_and_taints(
    constraints: &Constraints,
    name: Option<&str>,
    labels: &BTreeMap<String, String>,
    taints: &[Taint],
) -> Option<Reason> {
    if untolerated(&constraints.tolerations, taints).is_some() {
        return Some(Reason::Taint);
    }
    (!matches_affinity(constraints, name, labels)).then_some(Reason::NodeAffinity)
}

/// Whether the pod's volumes can be had on a node with these labels.
fn volumes(
    constraints: &Constraints,
    name: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> Option<Reason> {
    let holds = |terms: &Vec<_>| terms.iter().any(|term| matches_term(term, name, labels));
    let volumes = &constraints.volumes;
    if !volumes.bound.iter().all(holds) {
        return Some(Reason::VolumeAffinity);
    }
    (!volumes.unbound.iter().all(holds)).then_some(Reason::VolumeBinding)
}

/// Why there is no room for `pod` in `allocatable` beside what `usage` counts; empty if there is.
#[must_use]
pub fn room(pod: &Pod, allocatable: &Resources, usage: &Usage) -> Vec<Reason> {
    if ports_clash(&pod.constraints.host_ports, &usage.host_ports) {
        return vec![Reason::Ports];
    }
    insufficient(&pod.requests, allocatable, &usage.requested)
}

/// Which resources are short for `need` in `allocatable` when `used` of it is taken.
#[must_use]
pub fn insufficient(need: &Resources, allocatable: &Resources, used: &Resources) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if need.pods > 0 && used.pods.saturating_add(need.pods) > allocatable.pods {
        reasons.push(Reason::TooManyPods);
    }
    let fixed = [
        ("cpu", need.cpu, allocatable.cpu, used.cpu),
        ("memory", need.memory, allocatable.memory, used.memory),
        ("ephemeral-storage", need.storage, allocatable.storage, used.storage),
    ];
    let other = need
        .other
        .iter()
        .map(|(name, need)| (name.as_str(), *need, allocatable.get(name), used.get(name)));
    for (name, need, allocatable, used) in fixed.into_iter().chain(other) {
        if need > 0 && need > allocatable.saturating_sub(used) {
            let beyond_allocatable = need > allocatable;
            reasons.push(Reason::Insufficient { resource: name.to_owned(), beyond_allocatable });
        }
    }
    reasons
}

fn tolerates_cordon(constraints: &Constraints) -> bool {
    let taint =
        Taint { key: UNSCHEDULABLE_TAINT.into(), effect: "NoSchedule".into(), ..Taint::default() };
    tolerates(&constraints.tolerations, &taint)
}

/// Whether a port that is wanted is in use: same protocol and number, same IP or all IPs.
pub(crate) fn ports_clash(
    wanted: &[(String, String, i32)],
    used: &[(String, String, i32)],
) -> bool {
    wanted.iter().any(|(protocol, ip, port)| {
        used.iter().any(|(used_protocol, used_ip, used_port)| {
            port == used_port
                && protocol == used_protocol
                && (ip == used_ip || ip == ANY_IP || used_ip == ANY_IP)
        })
    })
}
