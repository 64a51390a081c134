//! What a change may mean for pods that fit nowhere, so that it wakes only those that it may help.
//!
//! Sharper than kube-scheduler, which asks each plugin for itself: a pod is looked at again only
//! if the changed node as a whole might take it now. A node that joins with taints that a pod does
//! not tolerate wakes it when they go, not before.

use aerostat_engine::node::{Node, Usage};
use aerostat_engine::pod::{Pod, PodTerm, Spread};
use aerostat_engine::predicates;
use aerostat_engine::predicates::topology::Index;

use super::cache::NodeInfo;
use super::class::Class;
use super::pod::PodInfo;

/// Whether a node that came or changed might take the pod, which it would not have before.
pub(super) fn node_may_help(info: &PodInfo, old: Option<&Node>, new: &Node) -> bool {
    let takes = |node| predicates::check(&info.pod, node, &Usage::default()).is_empty();
    if !judged(info) || !takes(new) {
        return false;
    }
    old.is_none_or(|old| !takes(old) || grew(info, old, new))
}

/// Whether a node gained something that the pod asks for.
fn grew(info: &PodInfo, old: &Node, new: &Node) -> bool {
    let limit = |node: &Node, driver| node.attach_limits.get(driver).copied().unwrap_or(u32::MAX);
    if info.pod.constraints.volumes.attached.keys().any(|d| limit(new, d) > limit(old, d)) {
        return true;
    }
    let (old, new, need) = (&old.allocatable, &new.allocatable, &info.pod.requests);
    new.pods > old.pods
        || (need.cpu > 0 && new.cpu > old.cpu)
        || (need.memory > 0 && new.memory > old.memory)
        || (need.storage > 0 && new.storage > old.storage)
        || need.other.keys().any(|name| new.get(name) > old.get(name))
}

/// Whether a node on which room has become free might take the pod, if need be by preemption.
pub(super) fn room_may_help(pod: &PodInfo, node: &Node, info: &NodeInfo) -> bool {
    if !judged(pod) {
        return false;
    }
    let mut usage = info.usage.clone();
    // Its own nomination, or an equal pod's, must not hide the room from it.
    for other in info.nominated.values().filter(|o| o.pod.priority > pod.pod.priority) {
        usage.add(&other.pod);
    }
    if pod.pod.preempts {
        for other in info.pods.values().filter(|o| o.pod.priority < pod.pod.priority) {
            usage.remove(&other.pod);
        }
    }
    predicates::check(&pod.pod, node, &usage).is_empty()
}

/// Whether a pod that came to a node, changed there or went might allow the pod somewhere.
pub(super) fn pod_may_help(
    pod: &Pod,
    old: Option<&Pod>,
    new: Option<&Pod>,
    topology: &Index,
) -> bool {
    let constraints = &pod.constraints;
    let is = |term: &PodTerm, other: Option<&Pod>| {
        other.is_some_and(|other| topology.selects(&term.pods, other))
    };
    let company = |other: Option<&Pod>| {
        let terms = &constraints.pod_affinity;
        !terms.is_empty() && terms.iter().all(|term| is(term, other))
    };
    let counts = |spread: &Spread, other: Option<&Pod>| {
        other.is_some_and(|other| {
            other.namespace == pod.namespace
                && !other.deleting
                && spread.selector.as_ref().is_some_and(|s| s.matches(&other.labels))
        })
    };
    let shuns = |other: Option<&Pod>| {
        let terms = other.into_iter().flat_map(|other| &other.constraints.pod_anti_affinity);
        terms.filter(|term| topology.selects(&term.pods, pod)).count()
    };
    (company(new) && !company(old))
        || required(pod).any(|spread| counts(spread, old) != counts(spread, new))
        || constraints.pod_anti_affinity.iter().any(|term| is(term, old) && !is(term, new))
        || shuns(old) > shuns(new)
}

/// Whether a node that came, changed or went might allow the pods of a class on other nodes.
pub(super) fn domains_may_help(class: &Class, old: Option<&Node>, new: Option<&Node>) -> bool {
    let pod = &class.sample.pod;
    let has = |node: &Node, spread: &Spread| node.labels.contains_key(&spread.topology_key);
    match (old, new) {
        (None, None) => false,
        // One domain more matters where there were too few.
        (None, Some(new)) => required(pod).any(|s| s.min_domains > 1 && has(new, s)),
        // The domain with the fewest may be gone.
        (Some(old), None) => required(pod).any(|spread| has(old, spread)),
        (Some(old), Some(new)) if old.labels == new.labels => {
            old.taints != new.taints && required(pod).any(|spread| spread.honors_taints)
        }
        (Some(old), Some(new)) => {
            let moved = |key: &str| old.labels.get(key) != new.labels.get(key);
            let constraints = &pod.constraints;
            let terms = constraints.pod_affinity.iter().chain(&constraints.pod_anti_affinity);
            !class.shunned.is_empty()
                || terms.into_iter().any(|term| moved(&term.topology_key))
                || required(pod).any(|s| s.honors_affinity || moved(&s.topology_key))
        }
    }
}

fn required(pod: &Pod) -> impl Iterator<Item = &Spread> {
    pod.constraints.spread.iter().filter(|spread| spread.required)
}

fn judged(info: &PodInfo) -> bool {
    info.pod.unsupported.is_empty() && info.problem.is_none()
}
