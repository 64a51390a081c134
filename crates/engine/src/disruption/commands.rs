//! Replacements under way.
//!
//! A command that buys machines first is remembered by nobody: its claims say which claims they
//! take the place of, and everything else follows. So whoever comes after a crash goes on where the
//! last one stopped.
//!
//! A command that is to save money is carried out as it was decided, or not at all: when what was
//! ordered no longer holds all pods, it is rolled back. What is left of it is weighed like any other
//! machine, and the next command pays for all that it needs. Outdated machines have to go whatever
//! that costs: what is missing for their pods is ordered again.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/disruption/queue.go`, which keeps commands
//! in memory.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels;
use jiff::{SignedDuration, Timestamp};

use super::UNDERUTILIZED;
use super::candidates::Judge;
use super::departure::Movers;
use crate::plan::{Marking, Rollback, Termination};
use crate::provisioning::Provisioning;
use crate::report::Unplaced;
use crate::residents::Residents;
use crate::snapshot::{Snapshot, Stage, StateNode};

/// How long a replacement may take until it is up.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// For how long a replacement that is up stands for a machine that is still there.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// What becomes of machines for which replacements have been ordered, and of marked ones.
#[derive(Default)]
pub(crate) struct UnderWay {
    /// By claim, the machines that go when their replacements are up.
    pub(crate) going: BTreeMap<String, Going>,
    /// Machines to be marked as disrupted.
    pub(crate) marks: Vec<Marking>,
    /// Machines that are marked and stay.
    pub(crate) releases: Vec<Marking>,
    /// Commands that came to nothing.
    pub(crate) rollbacks: Vec<Rollback>,
    /// When the first of the replacements will have taken too long.
    pub(crate) next: Option<Timestamp>,
}

/// A machine that goes when its replacements are up.
pub(crate) struct Going {
    /// What is to be deleted then.
    pub(crate) termination: Termination,
    /// Whether they are.
    pub(crate) is_replaced: bool,
    /// Machines that go at the same time or not at all.
    pub(crate) with: BTreeSet<String>,
}

impl UnderWay {
    /// The machines that were to go for money, and whose pods do not all have a place on what was
    /// ordered and what is there.
    pub(crate) fn insufficient(
        &self,
        provisioning: &Provisioning,
        unresolved: &[Unplaced],
        movers: &Movers,
    ) -> BTreeSet<String> {
        let homeless = provisioning.launches.iter().flat_map(|(launch, _)| &launch.pods);
        let unplaced = provisioning.unplaced.iter().chain(unresolved).map(|u| &u.pod);
        let claims = homeless.chain(unplaced).filter_map(|pod| movers.get(pod));
        let for_money = |claim: &&String| {
            let going = self.going.get(*claim);
            going.is_some_and(|going| going.termination.reason == UNDERUTILIZED)
        };
        claims.filter(for_money).cloned().collect()
    }
}

/// The machines that stand for others, by the claims of those.
pub(crate) type Replacements<'a> = BTreeMap<&'a str, Vec<&'a StateNode>>;

/// Finds the machines that stand for others, when the first of them will no longer do, and those
/// that took too long.
pub(crate) fn replacements(
    snapshot: &Snapshot,
    now: Timestamp,
) -> (Replacements<'_>, Option<Timestamp>, Vec<&StateNode>) {
    let (mut replacements, mut next, mut late) = (Replacements::new(), None, Vec::new());
    let alive: BTreeSet<&String> =
        snapshot.nodes.iter().filter_map(|state| state.claim.as_ref()).collect();
    for state in snapshot.nodes.iter().filter(|state| !state.deleting) {
        let Some(replaces) = &state.replaces else { continue };
        if !replaces.claims.iter().any(|claim| alive.contains(claim)) {
            continue;
        }
        let is_up = state.stage == Stage::Initialized;
        let after = if is_up { LIFETIME } else { PATIENCE };
        let end = state.created.checked_add(after).unwrap_or(Timestamp::MAX);
        if now < end {
            next = next.into_iter().chain([end]).min();
            for claim in &replaces.claims {
                replacements.entry(claim).or_default().push(state);
            }
        } else if !is_up {
            late.push(state);
        }
    }
    (replacements, next, late)
}

/// Finds the machines whose replacements are under way. Commands for money about a machine of
/// `failed` are rolled back.
pub(crate) fn under_way(
    snapshot: &Snapshot,
    failed: &BTreeSet<String>,
    now: Timestamp,
) -> UnderWay {
    let (mut replacements, next, late) = replacements(snapshot, now);
    // Who lives where matters only for what is to be replaced.
    let residents =
        if replacements.is_empty() { Residents::default() } else { Residents::of(snapshot) };
    let judge = &Judge::new(snapshot, &residents, now);
    let mut found = UnderWay { next, ..UnderWay::default() };
    let broken = broken(snapshot, judge, &replacements, failed);
    let rolled_back = broken.iter().filter_map(|claim| replacements.remove(claim.as_str()));
    let rolled_back: BTreeMap<&String, &StateNode> = (rolled_back.flatten().chain(late))
        .filter_map(|state| Some((state.claim.as_ref()?, state)))
        .collect();
    for (claim, state) in rolled_back {
        let stays = state.replaces.iter().flat_map(|replaces| &replaces.claims);
        found.rollbacks.push(Rollback { claim: claim.clone(), stays: stays.cloned().collect() });
    }
    for state in snapshot.nodes.iter().filter(|state| !state.deleting) {
        let (Some(claim), Some(pool)) = (&state.claim, &state.pool) else { continue };
        let by = replacements.get(claim.as_str()).map(Vec::as_slice).unwrap_or_default();
        let reason = by.iter().find_map(|state| Some(&state.replaces.as_ref()?.reason));
        let marking = |reason: &str| Marking {
            claim: claim.clone(),
            node: state.has_node.then(|| state.node.name.clone()),
            reason: reason.to_owned(),
        };
        match reason {
            Some(reason) if judge.blocker(state, reason).is_none() => {
                if !state.is_disrupted() {
                    found.marks.push(marking(reason));
                }
                let termination = Termination {
                    claim: claim.clone(),
                    node: state.has_node.then(|| state.node.name.clone()),
                    pool: pool.clone(),
                    reason: reason.clone(),
                };
                let is_replaced = by.iter().all(|state| state.stage == Stage::Initialized);
                let with = by.iter().filter(|_| reason == UNDERUTILIZED);
                let with = with.filter_map(|state| state.replaces.as_ref());
                let with = with.flat_map(|replaces| replaces.claims.clone()).collect();
                found.going.insert(claim.clone(), Going { termination, is_replaced, with });
            }
            _ if state.is_disrupted() => found.releases.push(marking("")),
            _ => {}
        }
    }
    found
}

/// The machines that stay though they were to go for money: those of `failed`, those that something
/// stands against, and those that were to go with them.
fn broken(
    snapshot: &Snapshot,
    judge: &Judge<'_>,
    replacements: &Replacements<'_>,
    failed: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut broken = BTreeSet::new();
    for state in snapshot.nodes.iter().filter(|state| !state.deleting) {
        let Some(claim) = &state.claim else { continue };
        let by = replacements.get(claim.as_str()).map(Vec::as_slice).unwrap_or_default();
        let is_for_money = by.iter().any(|state| is_for_money(state));
        let stays = || failed.contains(claim) || judge.blocker(state, UNDERUTILIZED).is_some();
        if is_for_money && stays() {
            broken.insert(claim.clone());
        }
    }
    loop {
        let ends = |state: &&&StateNode| {
            let claims = state.replaces.iter().flat_map(|replaces| &replaces.claims);
            is_for_money(state) && claims.into_iter().any(|claim| broken.contains(claim))
        };
        let ended = replacements.values().flatten().filter(ends);
        let claims = ended.flat_map(|state| &state.replaces).flat_map(|replaces| &replaces.claims);
        let more: Vec<String> = claims.filter(|claim| !broken.contains(*claim)).cloned().collect();
        if more.is_empty() {
            return broken;
        }
        broken.extend(more);
    }
}

fn is_for_money(state: &StateNode) -> bool {
    state.replaces.as_ref().is_some_and(|replaces| replaces.reason == UNDERUTILIZED)
}

/// The annotations that make a claim a replacement.
pub(crate) fn annotations<'c>(
    claims: impl IntoIterator<Item = &'c str>,
    reason: &str,
) -> [(String, String); 2] {
    let claims: BTreeSet<&str> = claims.into_iter().collect();
    let claims: Vec<&str> = claims.into_iter().collect();
    [
        (labels::REPLACES.to_owned(), claims.join(",")),
        (labels::REPLACES_BECAUSE.to_owned(), reason.to_owned()),
    ]
}
