//! Which pods would have to go so that another fits.
//!
//! Source: kubernetes `pkg/scheduler/framework/preemption/preemption.go` and
//! `framework/plugins/defaultpreemption/default_preemption.go`. Only decides; nothing is deleted
//! here.

use std::cmp::Reverse;
use std::sync::Arc;

use aerostat_clock::Stream;
use aerostat_engine::node::{Node, Usage};
use aerostat_engine::predicates::{self, Reason};
use jiff::Timestamp;
use rand::RngExt;

use super::cache::{Cache, NodeInfo, Slot};
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

/// Looks for pods that would have to go. `helpful` are the places of the nodes where removing pods
/// may help.
pub(super) fn find<'a>(
    pod: &PodInfo,
    helpful: &[Slot],
    cache: &'a Cache,
    budgets: impl Iterator<Item = &'a Budget> + Clone,
    stream: &mut Stream,
) -> Outcome {
    let mut counts = Counts::new();
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let enough = helpful.len().min((helpful.len() / 10).max(100));
    let offset = if enough < helpful.len() { stream.random_range(0..helpful.len()) } else { 0 };
    let mut looked_at = 0;
    for i in 0..helpful.len() {
        let slot = helpful[(offset + i) % helpful.len()];
        let Some((node, info)) = cache.at(slot) else { continue };
        looked_at += 1;
        match victims_on(pod, node, info, budgets.clone()) {
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

/// Who would have to leave a node, and how many budgets' violations that is.
fn victims_on<'a>(
    pod: &PodInfo,
    node: &Node,
    info: &'a NodeInfo,
    budgets: impl Iterator<Item = &'a Budget> + Clone,
) -> Result<Victims<'a>, Vec<String>> {
    let mut lower: Vec<&Arc<PodInfo>> =
        info.pods.values().filter(|other| other.pod.priority < pod.pod.priority).collect();
    if lower.is_empty() {
        return Err(vec![messages::NO_VICTIMS.to_owned()]);
    }
    let mut usage = info.usage_for(pod);
    for other in &lower {
        usage.remove(&other.pod);
    }
    let fits = |usage: &Usage| predicates::room(&pod.pod, &node.allocatable, usage);
    let reasons = fits(&usage);
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
            usage.add(&other.pod);
            if !fits(&usage).is_empty() {
                usage.remove(&other.pod);
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
