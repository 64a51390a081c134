//! Is this plan right? An independent check of what [`plan`](fn@crate::plan) decides.
//!
//! It is written against the rules of Kubernetes' scheduler and Karpenter's contracts, and shares
//! no code with the planner but the types, so that a mistake has to be made twice to go unseen.
//! Every test checks its plans with it, and so does `plan` itself in debug builds.
//!
//! | judged | by |
//! |---|---|
//! | each pod waits for a place and gets one at most | here |
//! | labels, taints, resources, host ports, beside those that are there and the daemons | `room` |
//! | volumes: where they can be, how many can be attached | `volumes` |
//! | required affinity, anti-affinity (both ways) and spread | `company` |
//! | claims are what their pool may make; minValues; limits | `claims` |
//! | what is given up may go, and is empty and quiet, or its pods have a place | `terminations` |
//! | what is replaced may go; money is saved where that is the reason; budgets | `commands` |
//!
//! A claim must hold its pods whatever it becomes: every instance type and offering that its
//! requirements leave and that is to be had is judged, since the provider may choose any of them.
//! Of promised pods only the number is known; the claim's requests must cover those with a name,
//! and affinity and spread that count promised pods are not judged.
//! Not judged: wishes (preferred terms), prices, and budgets with a schedule.

mod claims;
mod classes;
mod commands;
mod company;
mod labels;
mod machines;
mod moves;
mod room;
mod terminations;
#[cfg(test)]
mod tests;
mod violation;
mod volumes;

use std::collections::BTreeSet;

use jiff::Timestamp;

use self::classes::Classes;
use self::room::Occupants;
use crate::plan::Plan;
use crate::pod::PodKey;
use crate::snapshot::Snapshot;

pub use violation::{Fault, Misfit, Violation};

/// What is wrong with `plan` for `snapshot` at `now`; empty if nothing is. The order is that of
/// the pods, machines and pools.
#[must_use]
pub fn check(snapshot: &Snapshot, plan: &Plan, now: Timestamp) -> Vec<Violation> {
    let mut violations = Vec::new();
    let before = snapshot;
    let moved = moves::moved(snapshot, plan);
    let snapshot = &*moved;
    let classes = Classes::of_waiting(snapshot);
    check_pods(plan, &classes, &mut violations);
    let placed = plan.launches.iter().map(|launch| u64::from(launch.promised)).sum::<u64>();
    let promised = snapshot.promised.iter().map(|promise| u64::from(promise.count)).sum::<u64>();
    if placed > promised {
        violations.push(Violation::TooManyPromised { promised, placed });
    }
    let machines = machines::machines(snapshot, plan, &classes, &mut violations);
    let occupants = Occupants::of(snapshot);
    for machine in &machines {
        claims::check_claim(machine, snapshot.settings.min_values, &mut violations);
        if !machine.is_repeated {
            room::check_machine(machine, &classes, &occupants, snapshot, &mut violations);
            volumes::check_volumes(machine, &classes, &occupants, snapshot, &mut violations);
        }
    }
    claims::check_limits(snapshot, &machines, &mut violations);
    claims::check_reservations(snapshot, &machines, &mut violations);
    let found = &mut violations;
    terminations::check_terminations(before, plan, &machines, now, found);
    commands::check_commands(before, plan, now, found);
    company::check_company(snapshot, &machines, classes, &occupants, found);
    violations
}

/// Each pod waits for a place and gets one at most.
fn check_pods(plan: &Plan, classes: &Classes<'_>, violations: &mut Vec<Violation>) {
    let nominated = plan.nominations.iter().chain(&plan.moves).map(|nomination| &nomination.pod);
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let mut seen: BTreeSet<&PodKey> = BTreeSet::new();
    for pod in nominated.chain(launched) {
        if !seen.insert(pod) {
            violations.push(Violation::PlacedTwice { pod: pod.clone() });
        }
        if classes.of(pod).is_none() {
            violations.push(Violation::NotWaiting { pod: pod.clone() });
        }
    }
}
