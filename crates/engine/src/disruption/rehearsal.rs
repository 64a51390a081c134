//! What would have to be bought if machines were gone: the planner is asked.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::candidates::Candidate;
use super::departure::{Movers, vacate};
use crate::plan::Nomination;
use crate::pod::PodKey;
use crate::provisioning::{Provisioning, provision};
use crate::report::Blocker;
use crate::residents::Residents;
use crate::snapshot::{Snapshot, Stage};
use crate::volumes::resolved;

/// How the cluster would be without some of its machines.
pub(crate) struct Rehearsal {
    /// The plan that would be made then, moves included.
    pub(crate) provisioning: Provisioning,
    /// Who moves.
    pub(crate) movers: Movers,
}

/// Plans for `snapshot` without the machines of `going`, their pods waiting for another place.
/// `before` is the plan with them: who has no place in it needs none now.
pub(crate) fn rehearse(
    snapshot: &Snapshot,
    before: &Provisioning,
    going: &[&Candidate<'_>],
    now: Timestamp,
) -> Result<Rehearsal, Blocker> {
    let claims: BTreeSet<String> = going.iter().map(|c| c.claim.to_owned()).collect();
    let mut then = snapshot.clone();
    let movers = vacate(&mut then, &claims);
    then.nominations = before.nominations.iter().filter_map(remembered).collect();
    let (then, unresolved) = resolved(&then);
    let found = provision(&then, &Residents::of(&then), now);
    let had_none: BTreeSet<&PodKey> = before.unplaced.iter().map(|u| &u.pod).collect();
    let no_place = |pod: &PodKey, message: &str| Blocker::NoPlace {
        pod: pod.clone(),
        message: message.to_owned(),
    };
    if let Some(unplaced) = unresolved.iter().find(|u| movers.contains_key(&u.pod)) {
        return Err(no_place(&unplaced.pod, &unplaced.message));
    }
    let lost = |pod: &PodKey| movers.contains_key(pod) || !had_none.contains(pod);
    if let Some(unplaced) = found.unplaced.iter().find(|u| lost(&u.pod)) {
        return Err(no_place(&unplaced.pod, &unplaced.message));
    }
    let mut placed = BTreeSet::new();
    for nomination in found.nominations.iter().filter(|n| movers.contains_key(&n.pod)) {
        let is_there = |state: &&crate::snapshot::StateNode| match &nomination.node {
            Some(node) => state.has_node && state.node.name == *node,
            None => state.claim == nomination.claim,
        };
        let state = then.nodes.iter().find(is_there);
        if state.is_none_or(|state| state.stage < Stage::Initialized) {
            let claim = nomination.claim.iter().map(|claim| format!("nodeclaim/{claim}"));
            let node = nomination.node.iter().map(|node| format!("node/{node}"));
            let machine = claim.chain(node).collect::<Vec<_>>().join(", ");
            return Err(Blocker::NotUp { machine });
        }
        placed.insert(&nomination.pod);
    }
    placed.extend(found.launches.iter().flat_map(|(launch, _)| &launch.pods));
    if let Some(pod) = movers.keys().find(|pod| !placed.contains(pod)) {
        return Err(no_place(pod, "it cannot be planned for"));
    }
    Ok(Rehearsal { provisioning: found, movers })
}

/// Where a plan puts a pod, as the next plan remembers it.
fn remembered(nomination: &Nomination) -> Option<(PodKey, String)> {
    let place = nomination.node.as_ref().or(nomination.claim.as_ref())?;
    Some((nomination.pod.clone(), place.clone()))
}
