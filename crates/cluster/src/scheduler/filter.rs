//! Which nodes can take a pod, and why the others cannot.

use aerostat_engine::node::Node;
use aerostat_engine::predicates::topology::{Eligible, Filters};
use aerostat_engine::predicates::{self, Reason};

use super::cache::{Cache, NodeInfo, Slot};
use super::pod::PodInfo;
use super::score::{self, Scores};

/// How a pod fares on a node, other pods' wishes aside.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// It may go there; how good that would be.
    Fits(Scores),
    /// It may not.
    Fails(Vec<Reason>),
}

impl Verdict {
    /// Which of the pod's demands the node meets that spread constraints may heed.
    pub(super) fn eligible(&self, pod: &PodInfo, node: &Node) -> Eligible {
        let Self::Fails(reasons) = self else { return Eligible { affinity: true, taints: true } };
        match reasons[..] {
            [Reason::NodeAffinity] => Eligible { affinity: false, taints: true },
            [Reason::Ports | Reason::TooManyPods | Reason::Insufficient { .. }, ..] => {
                Eligible { affinity: true, taints: true }
            }
            _ => Eligible::of(&pod.pod.constraints, node),
        }
    }
}

/// Why other pods keep a pod off a node: those that are there, or those
/// that it is kept for.
pub(super) fn others(
    filters: &Filters,
    pod: &PodInfo,
    slot: Slot,
    info: &NodeInfo,
    cache: &Cache,
) -> Option<Reason> {
    let topology = cache.topology();
    let matters = |other: &&PodInfo| {
        !filters.is_free() || !other.pod.constraints.pod_anti_affinity.is_empty()
    };
    let mut ahead = info.ahead_of(pod).filter(matters).peekable();
    if ahead.peek().is_some() {
        let mut with = filters.clone();
        for other in ahead {
            with.add(topology, &pod.pod, &other.pod, slot);
        }
        let reason = with.check(topology, slot);
        if reason.is_some() {
            return reason;
        }
    }
    filters.check(topology, slot)
}

/// Looks at one node.
pub(super) fn judge(pod: &PodInfo, node: &Node, info: &NodeInfo, cache: &Cache) -> Verdict {
    let usage = info.usage_for(pod);
    let reasons = predicates::check(&pod.pod, node, &usage);
    if reasons.is_empty() {
        Verdict::Fits(Scores::of(pod, node, &info.usage, cache))
    } else {
        Verdict::Fails(reasons)
    }
}

/// How the pods of a class fare on each node, looked at again only where something changed.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    by_slot: Vec<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    generation: u64,
    images_generation: u64,
    verdict: Verdict,
}

impl Verdicts {
    /// Brings all verdicts up to date.
    pub(super) fn refresh(&mut self, pod: &PodInfo, cache: &Cache) {
        for (slot, node, info) in cache.nodes() {
            if self.by_slot.len() <= slot {
                self.by_slot.resize_with(slot + 1, || None);
            }
            let kept = &mut self.by_slot[slot];
            match kept {
                Some(kept) if kept.generation == info.generation => {
                    if kept.images_generation != cache.images_generation() {
                        kept.images_generation = cache.images_generation();
                        if let Verdict::Fits(scores) = &mut kept.verdict {
                            scores.image = score::image_locality(pod, node, cache);
                        }
                    }
                }
                _ => {
                    *kept = Some(Kept {
                        generation: info.generation,
                        images_generation: cache.images_generation(),
                        verdict: judge(pod, node, info, cache),
                    });
                }
            }
        }
    }

    /// The verdict on a node, as of the last refresh.
    pub(super) fn get(&self, slot: Slot) -> Option<&Verdict> {
        self.by_slot.get(slot)?.as_ref().map(|kept| &kept.verdict)
    }
}
