//! Whether machines may be given up.
//!
//! Sources: kubernetes-sigs/karpenter `pkg/controllers/disruption/{emptiness,helpers,types}.go`,
//! `pkg/apis/v1/nodepool.go` (budgets).

use std::collections::BTreeMap;

use aerostat_api::{Duration, labels as known};
use jiff::{SignedDuration, Timestamp};

use super::machines::Machine;
use super::room::Occupants;
use super::violation::Violation;
use crate::plan::{Plan, Termination};
use crate::pod::Pod;
use crate::snapshot::{Pool, Snapshot, Stage, StateNode};

/// Checks all terminations of a plan.
pub(super) fn check_terminations(
    snapshot: &Snapshot,
    plan: &Plan,
    machines: &[Machine<'_>],
    occupants: &Occupants<'_>,
    now: Timestamp,
    violations: &mut Vec<Violation>,
) {
    let mut going: BTreeMap<&str, u64> = BTreeMap::new();
    for termination in &plan.terminations {
        *going.entry(&termination.pool).or_default() += 1;
        let claimed = |machine: &&Machine<'_>| {
            machine.state().is_some_and(|state| state.claim.as_ref() == Some(&termination.claim))
        };
        let why = match machines.iter().find(claimed) {
            None => Some("there is no such claim".to_owned()),
            Some(machine) => stays(termination, machine, snapshot, occupants, now),
        };
        if let Some(why) = why {
            violations.push(Violation::MustStay { claim: termination.claim.clone(), why });
        }
    }
    for (name, going) in going {
        let pool = snapshot.pools.iter().find(|pool| pool.name == name);
        let allowed = pool.map_or(0, |pool| match pool.replicas {
            Some(replicas) => surplus(pool, replicas, snapshot),
            None => allowed(pool, snapshot, "Empty"),
        });
        if going > allowed {
            violations.push(Violation::OverBudget { pool: name.to_owned(), allowed, going });
        }
    }
}

/// Why a machine may not go.
fn stays(
    termination: &Termination,
    machine: &Machine<'_>,
    snapshot: &Snapshot,
    occupants: &Occupants<'_>,
    now: Timestamp,
) -> Option<String> {
    let state = machine.state()?;
    let bound = occupants.bound(machine);
    let text = |why: &str| Some(why.to_owned());
    let pool = snapshot.pools.iter().find(|pool| pool.name == termination.pool);
    if pool.is_some_and(|pool| pool.replicas.is_some()) {
        // The surplus of a static pool goes whatever runs there, but takes no more pods.
        return match (state.deleting, machine.joining.is_empty()) {
            (true, _) => text("it is on its way out already"),
            (_, false) => text("pods are on their way to it"),
            _ => None,
        };
    }
    if state.deleting || state.stage != Stage::Initialized {
        return text("it is not up, or on its way out already");
    }
    if state.do_not_disrupt {
        return text("it is not to be disrupted");
    }
    if let Some(pod) = bound.iter().find(|pod| is_protected(pod, now)) {
        return Some(format!("pod {}/{} is not to be disrupted", pod.namespace, pod.name));
    }
    if !machine.joining.is_empty() || !occupants.nominated(machine).is_empty() {
        return text("pods are on their way to it");
    }
    if state.nominated_until.is_some_and(|until| until > now) {
        return text("it is promised to a pod");
    }
    if termination.reason == "Empty" {
        if let Some(pod) = bound.iter().find(|pod| !goes_with_node(pod)) {
            return Some(format!("pod {}/{} runs there", pod.namespace, pod.name));
        }
        let patience = pool.and_then(|pool| pool.consolidate_after);
        let Some(patience) = patience else { return text("its pool keeps empty nodes") };
        if quiet(state, now) < SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX) {
            return text("it has not been quiet for long enough");
        }
    }
    None
}

fn goes_with_node(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet" || owner.kind == "Node")
}

/// For how long nothing has happened on a node.
fn quiet(state: &StateNode, now: Timestamp) -> SignedDuration {
    let last = state.initialized.into_iter().chain(state.last_pod_event).max();
    last.map_or(SignedDuration::ZERO, |last| now.duration_since(last))
}

/// `true` protects for good, a duration for so long after the pod's start.
fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    match pod.annotations.get(known::DO_NOT_DISRUPT).map(String::as_str) {
        None => false,
        Some("true") => true,
        Some(text) => Duration::parse(text).is_ok_and(|Duration(length)| {
            let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
            let ran = |started: Timestamp| now.duration_since(started);
            !length.is_zero() && pod.started.is_none_or(|started| ran(started) < length)
        }),
    }
}

/// How many machines a static pool has beside those that it wants.
fn surplus(pool: &Pool, replicas: u32, snapshot: &Snapshot) -> u64 {
    let mine = |state: &&StateNode| {
        state.claim.is_some()
            && !state.deleting
            && state.pool.as_deref() == Some(pool.name.as_str())
    };
    let there = snapshot.nodes.iter().filter(mine).count() as u64;
    there.saturating_sub(u64::from(replicas))
}

/// How many machines of a pool may go now by those of its budgets that always hold.
fn allowed(pool: &Pool, snapshot: &Snapshot, reason: &str) -> u64 {
    let is_out = |state: &StateNode| {
        let ill = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
        state.deleting || state.node.taints.iter().any(|taint| ill.contains(&taint.key.as_str()))
    };
    let counted: Vec<&StateNode> = snapshot
        .nodes
        .iter()
        .filter(|state| state.claim.is_some() && state.stage == Stage::Initialized)
        .filter(|state| state.pool.as_deref() == Some(pool.name.as_str()))
        .collect();
    let all = counted.len() as u64;
    let out = counted.iter().filter(|state| is_out(state)).count() as u64;
    let mut least = all;
    for budget in pool.budgets.iter().filter(|budget| budget.schedule.is_none()) {
        let names = |reasons: &Vec<String>| reasons.iter().any(|name| name == reason);
        if !budget.reasons.as_ref().is_none_or(names) {
            continue;
        }
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let nodes = match budget.nodes.strip_suffix('%') {
            Some(percent) => all.saturating_mul(number(percent)).div_ceil(100),
            None => number(&budget.nodes),
        };
        least = least.min(nodes);
    }
    least.saturating_sub(out)
}
