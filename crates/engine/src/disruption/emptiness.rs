//! Nodes that carry nothing and may go.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/disruption/emptiness.go`, `types.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration as Span;

use aerostat_api::{Duration, labels};
use jiff::{SignedDuration, Timestamp};

use super::candidates::is_up;
use super::{UNSEEN_THAT_FITS, unseen};
use crate::budgets;
use crate::cost::Price;
use crate::plan::Termination;
use crate::pod::Pod;
use crate::report::{Blocker, Kept, PoolProblem};
use crate::residents::{Residents, copies};
use crate::snapshot::{Pool, Snapshot, StateNode};

/// The reason that budgets, conditions and events name.
pub(crate) const EMPTY: &str = "Empty";

/// What is to be done about empty nodes.
#[derive(Default)]
pub(crate) struct Emptiness {
    pub(crate) terminations: Vec<Termination>,
    pub(crate) kept: Vec<Kept>,
    pub(crate) problems: Vec<PoolProblem>,
    /// When the next one will have been quiet for long enough.
    pub(crate) next: Option<Timestamp>,
}

/// Finds the nodes that are empty and have been quiet for as long as their pool wants, and gives up
/// as many as its budgets allow, dearest first. `expecting` names the machines that pods are
/// expected on.
pub(crate) fn emptiness(
    snapshot: &Snapshot,
    residents: &Residents<'_>,
    expecting: &BTreeSet<String>,
    now: Timestamp,
) -> Emptiness {
    let mut found = Emptiness::default();
    let pools: BTreeMap<&str, &Pool> =
        snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let unseen: Vec<(&Pod, Timestamp)> = unseen(snapshot, UNSEEN_THAT_FITS, now).collect();
    let mut candidates: BTreeMap<&str, Vec<(&StateNode, &str)>> = BTreeMap::new();
    for state in &snapshot.nodes {
        let (Some(claim), Some(pool)) = (state.claim.as_deref(), state.pool.as_deref()) else {
            continue;
        };
        let dynamic = pools.get(pool).filter(|pool| pool.replicas.is_none());
        let Some(pool) = dynamic else { continue };
        let waits = snapshot.settings.waits.validation;
        let Some(due) = due(state, pool, waits, residents) else { continue };
        let is_promised =
            expecting.contains(&state.node.name) || !residents.nominated(state).is_empty();
        let coming = unseen.iter().filter(|(pod, _)| fits(pod, state, residents));
        let until = coming.map(|(_, until)| *until).chain(state.nominated_until).max();
        let until = until.filter(|until| *until > now);
        if due > now {
            found.look_again(due);
        } else if let Some(blocker) = blocked(state, residents, now) {
            found.kept.push(kept(state, claim, blocker));
        } else if is_promised || until.is_some() {
            until.into_iter().for_each(|until| found.look_again(until));
            found.kept.push(kept(state, claim, Blocker::Nominated));
        } else {
            candidates.entry(&pool.name).or_default().push((state, claim));
        }
    }
    for (pool, mut nodes) in candidates {
        let price = |state: &StateNode| state.price.and_then(Price::from_usd).unwrap_or_default();
        nodes.sort_by_key(|(state, claim)| (Reverse(price(state)), *claim));
        found.give_up(pools[pool], &nodes, snapshot, now);
    }
    found
}

impl Emptiness {
    fn look_again(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    fn give_up(
        &mut self,
        pool: &Pool,
        nodes: &[(&StateNode, &str)],
        snapshot: &Snapshot,
        now: Timestamp,
    ) {
        let allowance = budgets::allowed(pool, snapshot, EMPTY, now);
        let allowed = usize::try_from(allowance.nodes).unwrap_or(usize::MAX).min(nodes.len());
        let blocked = Blocker::Budget { reason: EMPTY.to_owned() };
        if allowed < nodes.len() {
            let (pool, reason) = (pool.name.clone(), "DisruptionBlocked".to_owned());
            self.problems.push(PoolProblem { pool, reason, message: blocked.to_string() });
            allowance.changes.into_iter().for_each(|at| self.look_again(at));
        }
        let (going, staying) = nodes.split_at(allowed);
        self.terminations.extend(going.iter().map(|(state, claim)| Termination {
            claim: (*claim).to_owned(),
            node: state.has_node.then(|| state.node.name.clone()),
            pool: pool.name.clone(),
            reason: EMPTY.to_owned(),
        }));
        self.kept.extend(staying.iter().map(|(state, claim)| kept(state, claim, blocked.clone())));
    }
}

/// When an empty node will have been quiet for as long as its pool wants; `None` if it is not
/// empty, not up, on its way out already, or its pool keeps empty nodes.
fn due(
    state: &StateNode,
    pool: &Pool,
    validation: Span,
    residents: &Residents<'_>,
) -> Option<Timestamp> {
    let after = pool.consolidate_after?.saturating_add(validation);
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    if !is_up(state) || !residents.bound(state).iter().all(|pod| belongs_to_node(pod)) {
        return None;
    }
    let initialized = state.initialized?;
    let quiet_since = state.last_pod_event.map_or(initialized, |event| event.max(initialized));
    Some(quiet_since.checked_add(after).unwrap_or(Timestamp::MAX))
}

/// Whether a pod goes with its node: daemons and mirrors of static pods.
pub(crate) fn belongs_to_node(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"))
}

/// Why a node that carries nothing may not go all the same.
fn blocked(state: &StateNode, residents: &Residents<'_>, now: Timestamp) -> Option<Blocker> {
    if state.do_not_disrupt {
        return Some(Blocker::Node);
    }
    let pod = residents.bound(state).iter().find(|pod| is_protected(pod, now))?;
    Some(Blocker::Pod { pod: (pod.namespace.clone(), pod.name.clone()) })
}

fn kept(state: &StateNode, claim: &str, blocker: Blocker) -> Kept {
    Kept { claim: claim.to_owned(), blocker, price: state.price.unwrap_or(0.0) }
}

/// `true` protects for good, a duration for so long after the start.
pub(crate) fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    let Some(value) = pod.annotations.get(labels::DO_NOT_DISRUPT) else { return false };
    if value == "true" {
        return true;
    }
    let Ok(Duration(length)) = Duration::parse(value) else { return false };
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    let ends = |started: Timestamp| started.checked_add(length).unwrap_or(Timestamp::MAX);
    !length.is_zero() && pod.started.is_none_or(|started| now < ends(started))
}

/// Whether a pod could go on an empty node.
fn fits(pod: &Pod, state: &StateNode, residents: &Residents<'_>) -> bool {
    let node = &state.node;
    let mut free = node.allocatable.clone();
    free.subtract(&residents.used(state));
    copies(&free, &pod.requests) > 0
        && crate::predicates::place(&pod.constraints, Some(&node.name), &node.labels, &node.taints)
            .is_none()
}
