//! Replacements under way.
//!
//! A command that buys machines first is remembered by nobody: its claims say which claims they
//! take the place of, and everything else follows. So whoever comes after a crash goes on where the
//! last one stopped, and a command that went wrong ends by itself.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/disruption/queue.go`, which keeps commands
//! in memory.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels;
use jiff::{SignedDuration, Timestamp};

use super::candidates::Judge;
use crate::plan::{Marking, Termination};
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
    /// When the first of the replacements will have taken too long.
    pub(crate) next: Option<Timestamp>,
}

/// A machine that goes when its replacements are up.
pub(crate) struct Going {
    /// What is to be deleted then.
    pub(crate) termination: Termination,
    /// Whether they are.
    pub(crate) is_replaced: bool,
}

/// The machines that stand for others, by the claims of those, and when the first of them will no
/// longer do.
pub(crate) fn replacements(
    snapshot: &Snapshot,
    now: Timestamp,
) -> (BTreeMap<&str, Vec<&StateNode>>, Option<Timestamp>) {
    let mut replacements: BTreeMap<&str, Vec<&StateNode>> = BTreeMap::new();
    let mut next = None;
    let alive: BTreeSet<&String> =
        snapshot.nodes.iter().filter_map(|state| state.claim.as_ref()).collect();
    for state in snapshot.nodes.iter().filter(|state| !state.deleting) {
        let Some(replaces) = &state.replaces else { continue };
        let end = |after| state.created.checked_add(after).unwrap_or(Timestamp::MAX);
        let end = if state.stage < Stage::Initialized { end(PATIENCE) } else { end(LIFETIME) };
        if now < end && replaces.claims.iter().any(|claim| alive.contains(claim)) {
            next = next.into_iter().chain([end]).min();
            for claim in &replaces.claims {
                replacements.entry(claim).or_default().push(state);
            }
        }
    }
    (replacements, next)
}

/// Finds the machines whose replacements are under way.
pub(crate) fn under_way(snapshot: &Snapshot, now: Timestamp) -> UnderWay {
    let (replacements, next) = replacements(snapshot, now);
    // Who lives where matters only for what is to be replaced.
    let residents =
        if replacements.is_empty() { Residents::default() } else { Residents::of(snapshot) };
    let judge = Judge::new(snapshot, &residents, now);
    let mut found = UnderWay { next, ..UnderWay::default() };
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
                found.going.insert(claim.clone(), Going { termination, is_replaced });
            }
            _ if state.is_disrupted() => found.releases.push(marking("")),
            _ => {}
        }
    }
    found
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
