//! Whether machines may be replaced, and whether that saves what it is said to.
//!
//! Sources: kubernetes-sigs/karpenter `pkg/controllers/disruption/{types,consolidation,drift}.go`.

use std::collections::BTreeSet;

use aerostat_api::labels as known;
use jiff::{SignedDuration, Timestamp};

use super::moves::leaves;
use super::terminations::{is_protected, quiet};
use super::violation::Violation;
use crate::plan::{Command, Plan, Termination};
use crate::pod::Pod;
use crate::snapshot::{Snapshot, Stage, StateNode};

/// Checks the commands of a plan.
pub(super) fn check_commands(
    snapshot: &Snapshot,
    plan: &Plan,
    now: Timestamp,
    violations: &mut Vec<Violation>,
) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for command in &plan.commands {
        for candidate in &command.candidates {
            let why = if seen.insert(&candidate.claim) {
                stays(command, candidate, snapshot, plan, now)
            } else {
                Some("it is given up twice".to_owned())
            };
            if let Some(why) = why {
                violations.push(Violation::MustStay { claim: candidate.claim.clone(), why });
            }
        }
        let of = |t: &Termination| machine(snapshot, &t.claim).and_then(|state| state.price);
        let price: f64 = command.candidates.iter().filter_map(of).sum();
        // Prices are kept in billionths.
        let is_off = command.saves <= 0.0 || command.saves > price + 1e-9;
        if command.reason == "Underutilized" && is_off {
            let claim = command.candidates.first().map(|c| c.claim.clone()).unwrap_or_default();
            let why = format!("it costs {price}, without it {} are saved", command.saves);
            violations.push(Violation::MustStay { claim, why });
        }
    }
}

/// Why a machine may not be given up by a command.
fn stays(
    command: &Command,
    candidate: &Termination,
    snapshot: &Snapshot,
    plan: &Plan,
    now: Timestamp,
) -> Option<String> {
    let text = |why: &str| Some(why.to_owned());
    let Some(state) = machine(snapshot, &candidate.claim) else {
        return text("there is no such claim");
    };
    if state.deleting || state.is_disrupted() || state.stage != Stage::Initialized {
        return text("it is not up, or on its way out already");
    }
    let pool = snapshot.pools.iter().find(|pool| pool.name == candidate.pool);
    let Some(pool) = pool.filter(|pool| pool.replicas.is_none()) else {
        return text("its pool does not buy what pods need");
    };
    match command.reason.as_str() {
        "Underutilized" => {
            let Some(patience) = pool.consolidate_after else {
                return text("its pool gives up nothing for money");
            };
            let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
            if quiet(state, now) < patience {
                return text("it has not been quiet for long enough");
            }
            if !["WhenEmptyOrUnderutilized", "Balanced"].contains(&pool.policy.as_str()) {
                return text("its pool only gives up what is empty");
            }
        }
        "Drifted" | "Requested" if state.obsolete.is_none() => {
            return text("it is as it should be");
        }
        "Expired" if state.expires.is_none() => return text("it does not expire"),
        _ => {}
    }
    let places = plan.moves.iter().filter(|nomination| {
        let there = snapshot
            .nodes
            .iter()
            .find(|other| nomination.node.as_ref() == Some(&other.node.name) && other.has_node);
        there.is_some_and(|other| other.stage == Stage::Initialized)
    });
    let new = plan.launches.iter().take(command.replacements).filter(|launch| {
        launch
            .annotations
            .get(known::REPLACES)
            .is_some_and(|claims| claims.split(',').any(|claim| claim == candidate.claim))
    });
    let places: BTreeSet<_> =
        places.map(|n| &n.pod).chain(new.flat_map(|launch| &launch.pods)).collect();
    let homeless = bound(snapshot, state)
        .filter(|pod| leaves(pod))
        .find(|pod| !places.contains(&(pod.namespace.clone(), pod.name.clone())));
    if let Some(pod) = homeless {
        return Some(format!("pod {}/{} has no other place", pod.namespace, pod.name));
    }
    held(state, &command.reason, snapshot, now)
}

/// Why the pods of a machine may not be disrupted.
pub(super) fn held(
    state: &StateNode,
    reason: &str,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Option<String> {
    if state.do_not_disrupt && reason != "Requested" {
        return Some("it is not to be disrupted".to_owned());
    }
    let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == state.pool.as_ref());
    let ends = pool.is_some_and(|pool| pool.termination_grace.is_some());
    if ends && ["Drifted", "Expired", "Requested"].contains(&reason) {
        return None;
    }
    for pod in bound(snapshot, state).filter(|pod| !pod.deleting) {
        if is_protected(pod, now) {
            return Some(format!("pod {}/{} is not to be disrupted", pod.namespace, pod.name));
        }
        let about = snapshot.pdbs.iter().filter(|pdb| {
            let selects = pdb.selector.as_ref().is_some_and(|s| s.matches(&pod.labels));
            selects && pdb.namespace == pod.namespace
        });
        let about: Vec<i32> = about.map(|pdb| pdb.allowed).collect();
        // Its Deployment brings another one first, and nothing is evicted.
        let surges = pod.annotations.get(known::SURGE).is_some_and(|value| value == "true")
            && pod.owner.as_ref().is_some_and(|owner| owner.kind == "ReplicaSet");
        if !surges && leaves(pod) && (about.len() > 1 || about.iter().any(|allowed| *allowed <= 0))
        {
            return Some(format!("pod {}/{} may not be evicted", pod.namespace, pod.name));
        }
    }
    None
}

pub(super) fn machine<'a>(snapshot: &'a Snapshot, claim: &str) -> Option<&'a StateNode> {
    snapshot.nodes.iter().find(|state| state.claim.as_deref() == Some(claim))
}

pub(super) fn bound<'a>(
    snapshot: &'a Snapshot,
    state: &'a StateNode,
) -> impl Iterator<Item = &'a Pod> {
    let here = |pod: &&Pod| pod.node.as_ref() == Some(&state.node.name) && !pod.terminal;
    snapshot.pods.iter().map(|pod| &**pod).filter(move |pod| state.has_node && here(pod))
}
