//! Whether machines may be given up.
//!
//! Sources: kubernetes-sigs/karpenter `pkg/controllers/disruption/{emptiness,helpers,types}.go`,
//! `pkg/apis/v1/nodepool.go` (budgets).

use std::collections::BTreeMap;

use aerostat_api::{Duration, labels as known};
use jiff::{SignedDuration, Timestamp};

use super::machines::Machine;
use super::violation::Violation;
use super::{commands, moves};
use crate::plan::{Plan, Termination};
use crate::pod::Pod;
use crate::snapshot::{Pool, Snapshot, Stage, StateNode};

/// Checks all terminations of a plan.
pub(super) fn check_terminations(
    snapshot: &Snapshot,
    plan: &Plan,
    machines: &[Machine<'_>],
    now: Timestamp,
    violations: &mut Vec<Violation>,
) {
    // By pool and reason. Those whose replacements are up were counted when they were ordered.
    let mut going: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let replaced = plan.commands.iter().filter(|command| command.replacements > 0);
    let replaced = replaced.flat_map(|command| &command.candidates);
    let fresh = plan.terminations.iter().filter(|t| !is_replaced(&t.claim, snapshot));
    for termination in fresh.chain(replaced) {
        // Somebody wants it gone, whatever budgets say; they count what expires as drifted.
        let reason = match termination.reason.as_str() {
            "Requested" => continue,
            "Expired" => "Drifted",
            reason => reason,
        };
        *going.entry((&termination.pool, reason)).or_default() += 1;
    }
    for termination in &plan.terminations {
        let claimed = |machine: &&Machine<'_>| {
            machine.state().is_some_and(|state| state.claim.as_ref() == Some(&termination.claim))
        };
        let why = match machines.iter().find(claimed) {
            None => Some("there is no such claim".to_owned()),
            Some(machine) => stays(termination, machine, snapshot, plan, now),
        };
        if let Some(why) = why {
            violations.push(Violation::MustStay { claim: termination.claim.clone(), why });
        }
    }
    for ((name, reason), going) in going {
        let pool = snapshot.pools.iter().find(|pool| pool.name == name);
        let allowed = pool.map_or(0, |pool| match pool.replicas {
            Some(replicas) => surplus(pool, replicas, snapshot),
            None => allowed(pool, snapshot, reason),
        });
        if going > allowed {
            violations.push(Violation::OverBudget { pool: name.to_owned(), allowed, going });
        }
    }
}

/// Whether a claim that is up has been ordered in the place of another.
fn is_replaced(claim: &str, snapshot: &Snapshot) -> bool {
    snapshot.nodes.iter().any(|state| {
        let named = state.replaces.as_ref().is_some_and(|replaces| replaces.claims.contains(claim));
        named && state.stage == Stage::Initialized && !state.deleting
    })
}

/// Why a machine may not go.
fn stays(
    termination: &Termination,
    machine: &Machine<'_>,
    snapshot: &Snapshot,
    plan: &Plan,
    now: Timestamp,
) -> Option<String> {
    let state = machine.state()?;
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
    let nominated = snapshot.pods.iter().any(|pod| {
        let there = pod.nominated_node.as_ref() == Some(&state.node.name);
        there && pod.node.is_none() && !pod.deleting && !pod.terminal
    });
    if !machine.joining.is_empty() || nominated {
        return text("pods are on their way to it");
    }
    if state.nominated_until.is_some_and(|until| until > now) {
        return text("it is promised to a pod");
    }
    if let Some(why) = commands::held(state, &termination.reason, snapshot, now) {
        return Some(why);
    }
    if termination.reason == "Empty" {
        let mut bound = commands::bound(snapshot, state);
        if let Some(pod) = bound.find(|pod| !goes_with_node(pod)) {
            return Some(format!("pod {}/{} runs there", pod.namespace, pod.name));
        }
        let patience = pool.and_then(|pool| pool.consolidate_after);
        let Some(patience) = patience else { return text("its pool keeps empty nodes") };
        if quiet(state, now) < SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX) {
            return text("it has not been quiet for long enough");
        }
        return None;
    }
    let is_new = plan.commands.iter().any(|command| {
        let named = command.candidates.iter().any(|c| c.claim == termination.claim);
        named && command.replacements == 0
    });
    if !is_new && !is_replaced(&termination.claim, snapshot) {
        return text("nothing has been ordered in its place");
    }
    let settled = |pod: &Pod| {
        plan.moves.iter().any(|n| {
            let named = n.pod.0 == pod.namespace && n.pod.1 == pod.name;
            let there = snapshot.nodes.iter().find(|s| n.node.as_ref() == Some(&s.node.name));
            named && there.is_some_and(|there| there.stage == Stage::Initialized)
        })
    };
    let mut leaving = commands::bound(snapshot, state).filter(|pod| moves::leaves(pod));
    let homeless = leaving.find(|pod| !settled(pod))?;
    Some(format!("pod {}/{} has no other place", homeless.namespace, homeless.name))
}

fn goes_with_node(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet" || owner.kind == "Node")
}

/// For how long nothing has happened on a node.
pub(super) fn quiet(state: &StateNode, now: Timestamp) -> SignedDuration {
    let last = state.initialized.into_iter().chain(state.last_pod_event).max();
    last.map_or(SignedDuration::ZERO, |last| now.duration_since(last))
}

/// `true` protects for good, a duration for so long after the pod's start.
pub(super) fn is_protected(pod: &Pod, now: Timestamp) -> bool {
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
        state.deleting
            || state.is_disrupted()
            || state.node.taints.iter().any(|taint| ill.contains(&taint.key.as_str()))
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
