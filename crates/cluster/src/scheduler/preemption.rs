//! Which pods would have to go so that another fits.
//!
//! Source: kubernetes `pkg/scheduler/framework/preemption/preemption.go` and
//! `framework/plugins/defaultpreemption/default_preemption.go`. Only decides; nothing is deleted
//! here.

use std::cmp::Reverse;
use std::sync::Arc;

use aerostat_clock::Stream;
use aerostat_engine::node::{Node, Usage};
use aerostat_engine::predicates::topology::Filters;
use aerostat_engine::predicates::{self, Reason};
use jiff::Timestamp;
use rand::RngExt;

use super::cache::{Cache, NodeInfo, Slot};
use super::filter;
use super::messages::{self, Counts};
use super::pdb::{self, Budget};
use super::pod::PodInfo;

/// What comes of looking for victims.
#[derive(Debug)]
pub(super) enum Outcome {
    /// These pods go from this node; most important first.
    Preempt {
        /// The node's name.
        node: String,
        /// Who goes.
        victims: Vec<Arc<PodInfo>>,
    },
    /// Nobody's going would help; why.
    Useless(String),
    /// The pod may not preempt, or not now; why. Its nomination stays.
    NotEligible(&'static str),
}

/// A way to make room.
struct Candidate<'a> {
    slot: Slot,
    node: &'a Node,
    victims: Vec<&'a Arc<PodInfo>>,
    violations: usize,
}

/// Where room may be made.
#[derive(Clone, Copy)]
pub(super) struct Nodes<'a> {
    /// All nodes.
    pub(super) cache: &'a Cache,
    /// Those where removing pods may help.
    pub(super) helpful: &'a [Slot],
}

/// Looks for pods that would have to go. `filters` are what other pods forbid the pod now.
pub(super) fn find<'a>(
    pod: &PodInfo,
    filters: &Filters,
    nodes: &Nodes<'a>,
    budgets: impl Iterator<Item = &'a Budget> + Clone,
    stream: &mut Stream,
) -> Outcome {
    let Nodes { cache, helpful } = *nodes;
    let mut counts = Counts::new();
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let enough = helpful.len().min((helpful.len() / 10).max(100));
    let offset = if enough < helpful.len() { stream.random_range(0..helpful.len()) } else { 0 };
    let mut looked_at = 0;
    for i in 0..helpful.len() {
        let slot = helpful[(offset + i) % helpful.len()];
        let Some((node, info)) = cache.at(slot) else { continue };
        looked_at += 1;
        let place = Place { slot, node, info, cache };
        match victims_on(pod, filters, &place, budgets.clone()) {
            Ok((victims, violations)) => {
                candidates.push(Candidate { slot, node, victims, violations });
            }
            Err(reasons) => {
                for reason in reasons {
                    *counts.entry(reason).or_default() += 1;
                }
            }
        }
        let clean = candidates.iter().any(|candidate| candidate.violations == 0);
        if clean && candidates.len() >= enough {
            break;
        }
    }
    let Some(best) = pick(candidates) else {
        let rest = cache.len() - looked_at;
        if rest > 0 {
            *counts.entry(messages::NOT_HELPFUL.to_owned()).or_default() += rest;
        }
        return Outcome::Useless(messages::fit_error(cache.len(), None, &counts, ""));
    };
    let victims = best.victims.into_iter().cloned().collect();
    Outcome::Preempt { node: best.node.name.clone(), victims }
}

/// Why a pod may not preempt now; `None` if it may. `hopeless` is whether the node that it is
/// nominated to cannot take it whoever leaves.
pub(super) fn not_eligible(pod: &PodInfo, cache: &Cache, hopeless: bool) -> Option<&'static str> {
    if !pod.pod.preempts {
        return Some(messages::POLICY_NEVER);
    }
    let (_, nominated) = cache.at(cache.nomination(&pod.key())?)?;
    let leaving = |other: &Arc<PodInfo>| other.preempted && other.pod.priority < pod.pod.priority;
    let waits = !hopeless && nominated.pods.values().any(leaving);
    waits.then_some(messages::VICTIMS_LEAVE)
}

type Victims<'a> = (Vec<&'a Arc<PodInfo>>, usize);

/// One node among all.
struct Place<'a> {
    slot: Slot,
    node: &'a Node,
    info: &'a NodeInfo,
    cache: &'a Cache,
}

/// What a node would be like without some of its pods.
struct Trial<'a> {
    pod: &'a PodInfo,
    place: &'a Place<'a>,
    usage: Usage,
    filters: Filters,
}

impl Trial<'_> {
    fn remove(&mut self, other: &PodInfo) {
        self.usage.remove(&other.pod);
        let topology = self.place.cache.topology();
        self.filters.remove(topology, &self.pod.pod, &other.pod, self.place.slot);
    }

    fn restore(&mut self, other: &PodInfo) {
        self.usage.add(&other.pod);
        let topology = self.place.cache.topology();
        self.filters.add(topology, &self.pod.pod, &other.pod, self.place.slot);
    }

    /// Why the pod still does not fit.
    fn reasons(&self) -> Vec<Reason> {
        let Place { slot, node, info, cache } = *self.place;
        let reasons = predicates::room(&self.pod.pod, &node.allocatable, &self.usage);
        if !reasons.is_empty() {
            return reasons;
        }
        filter::others(&self.filters, self.pod, slot, info, cache).into_iter().collect()
    }
}

/// Who would have to leave a node, and how many budgets' violations that is.
fn victims_on<'a>(
    pod: &PodInfo,
    filters: &Filters,
    place: &Place<'a>,
    budgets: impl Iterator<Item = &'a Budget> + Clone,
) -> Result<Victims<'a>, Vec<String>> {
    let pods = place.info.pods.values();
    let mut lower: Vec<&Arc<PodInfo>> =
        pods.filter(|other| other.pod.priority < pod.pod.priority).collect();
    if lower.is_empty() {
        return Err(vec![messages::NO_VICTIMS.to_owned()]);
    }
    let mut trial =
        Trial { pod, place, usage: place.info.usage_for(pod), filters: filters.clone() };
    lower.iter().for_each(|other| trial.remove(other));
    let reasons = trial.reasons();
    if !reasons.is_empty() {
        return Err(reasons.iter().map(Reason::to_string).collect());
    }
    lower.sort_by_key(|other| importance(other));
    let breaks = pdb::violations(lower.iter().map(|other| &***other), budgets);
    let mut victims = Vec::new();
    let mut violations = 0;
    // Those under a budget are the first to be spared.
    for round in [true, false] {
        for (other, breaks) in lower.iter().zip(&breaks).filter(|(_, breaks)| **breaks == round) {
            trial.restore(other);
            if !trial.reasons().is_empty() {
                trial.remove(other);
                victims.push(*other);
                violations += usize::from(*breaks);
            }
        }
    }
    victims.sort_by_key(|other| importance(other));
    Ok((victims, violations))
}

/// Most important first: priority, then who has run longest; the rest makes it definite.
fn importance(info: &PodInfo) -> (Reverse<i32>, Timestamp, Timestamp, String, String) {
    let pod = &info.pod;
    // What has not started counts as starting now.
    let started = pod.started.unwrap_or(Timestamp::MAX);
    (Reverse(pod.priority), started, pod.created, pod.namespace.clone(), pod.name.clone())
}

/// The candidate that hurts least.
fn pick(candidates: Vec<Candidate<'_>>) -> Option<Candidate<'_>> {
    candidates.into_iter().filter(|candidate| !candidate.victims.is_empty()).min_by_key(
        |candidate| {
            let priorities = || candidate.victims.iter().map(|victim| victim.pod.priority);
            let highest = priorities().max().unwrap_or(i32::MIN);
            // Shifted, so that one more victim never looks cheaper.
            let sum: i64 = priorities().map(|priority| i64::from(priority) + (1 << 31)).sum();
            let foremost = candidate.victims.iter().filter(|v| v.pod.priority == highest);
            let earliest = foremost.map(|v| v.pod.started.unwrap_or(Timestamp::MAX)).min();
            let count = candidate.victims.len();
            (candidate.violations, highest, sum, count, Reverse(earliest), candidate.slot)
        },
    )
}
