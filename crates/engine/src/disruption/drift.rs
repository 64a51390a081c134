//! Machines that are not as their pool wants them, are old, or are to be replaced because somebody
//! asked for it.
//!
//! Each gets a replacement first, whatever that costs. Machines go before they expire, each at a
//! time of its own, so that those that were born together do not die together.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/disruption/drift.go`; there, expiration does
//! not wait for replacements.

use jiff::{SignedDuration, Timestamp};

use super::candidates::{Candidate, Judge, is_up};
use super::{DRIFTED, EXPIRED, REQUESTED};
use crate::report::Blocker;
use crate::snapshot::{Snapshot, StateNode};

/// The part of its life before a machine expires in which it may be replaced, in percent.
const LEAD: i64 = 15;
/// The part of its life before a machine expires in which it is replaced at the latest, in percent.
const LEAST_LEAD: i64 = 5;

/// A machine that is to be replaced.
pub(crate) struct Outdated<'a> {
    pub(crate) candidate: Candidate<'a>,
    pub(crate) reason: &'a str,
    since: Timestamp,
}

/// The machines that are to be replaced and may be, those that carry nothing first, then those that
/// wait for the longest; and those that may not. The time is when the next one will be.
pub(crate) fn outdated<'a>(
    snapshot: &'a Snapshot,
    judge: &Judge<'a>,
) -> (Vec<Outdated<'a>>, Vec<(&'a StateNode, Blocker)>, Option<Timestamp>) {
    let (mut found, mut blocked, mut next) = (Vec::new(), Vec::new(), None);
    for state in snapshot.nodes.iter().filter(|state| is_up(state)) {
        let (reason, since) = match (&state.obsolete, renewal(state)) {
            (Some(obsolete), _) if obsolete.reason == REQUESTED => (REQUESTED, obsolete.since),
            (Some(obsolete), _) => (DRIFTED, obsolete.since),
            (None, Some(at)) if at <= judge.now => (EXPIRED, at),
            (None, at) => {
                next = next.into_iter().chain(at.filter(|_| judge.pool(state).is_some())).min();
                continue;
            }
        };
        let Some(candidate) = judge.candidate(state) else { continue };
        match judge.blocker(state, reason) {
            Some(blocker) => blocked.push((state, blocker)),
            None => found.push(Outdated { candidate, reason, since }),
        }
    }
    found.sort_by_key(|outdated| {
        let candidate = &outdated.candidate;
        (!candidate.pods.is_empty(), outdated.since, candidate.claim)
    });
    (found, blocked, next)
}

/// When a machine is to be replaced so that it is gone when it expires: between 5 % and 15 % of its
/// life before, by a hash of its claim's name.
fn renewal(state: &StateNode) -> Option<Timestamp> {
    let expires = state.expires?;
    let life = expires.duration_since(state.created).as_millis().max(0);
    // FNV-1a: the time must not depend on the program's version.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in state.claim.iter().flat_map(|claim| claim.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let spread = i128::from(hash >> 32) * i128::from(LEAD - LEAST_LEAD);
    let lead = life * ((i128::from(LEAST_LEAD) << 32) + spread) / (100_i128 << 32);
    let lead = SignedDuration::from_millis(i64::try_from(lead).unwrap_or(i64::MAX));
    expires.checked_sub(lead).ok()
}
