//! What a change may mean for pods that fit nowhere, so that it wakes only those that it may help.
//!
//! Sharper than kube-scheduler, which asks each plugin for itself: a pod is looked at again only
//! if the changed node as a whole might take it now. A node that joins with taints that a pod does
//! not tolerate wakes it when they go, not before.

use aerostat_engine::node::{Node, Usage};
use aerostat_engine::predicates;

use super::cache::NodeInfo;
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

fn judged(info: &PodInfo) -> bool {
    info.pod.unsupported.is_empty()
}
