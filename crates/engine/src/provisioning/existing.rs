//! Capacity that is there or on its way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::class::Class;
use super::lot::{Lot, Taken};
use super::tally::{Rule, Tally};
use crate::daemons;
use crate::plan::Nomination;
use crate::pod::{Pod, PodKey};
use crate::predicates;
use crate::residents::{Residents, copies};
use crate::resources::Resources;
use crate::snapshot::{Snapshot, Stage, StateNode};

/// The room that is left on one machine.
#[derive(Clone)]
struct Room<'a> {
    state: &'a StateNode,
    bound: &'a [&'a Arc<Pod>],
    free: Resources,
    ports: Vec<(String, String, i32)>,
    /// Volumes that are attached, by CSI driver; counted only where there are limits.
    attached: BTreeMap<String, u32>,
    /// Pods of each class that the machine was ordered for and that have not been placed here.
    planned: BTreeMap<&'a str, u32>,
    /// The pods here that others mind.
    tally: Tally,
    /// How many pods that wait have been placed here.
    expected: u32,
}

/// Pods that found a place.
#[derive(Default)]
pub(crate) struct Placed {
    pub(crate) nominations: Vec<Nomination>,
    /// Names of the machines that pods are expected on, promised ones included.
    pub(crate) expecting: BTreeSet<String>,
}

/// How pods are spread over the room that there is.
#[derive(Clone, Copy)]
enum Spread {
    /// To the tightest place, so that the other machines may become empty.
    Tightest,
    /// To the oldest machines: what earlier plans did before the younger ones were there.
    Oldest,
    /// To the widest place.
    Widest,
}

/// Places pods on capacity that is there or on its way, and takes them out of `lots`. Where an
/// earlier plan has put a pod comes first; others go to the tightest place. If pods are left over
/// then, other ways are tried before anything is ordered. `tallies` counts the pods on each node of
/// the snapshot that others mind.
pub(crate) fn place(
    lots: &mut Vec<Lot>,
    snapshot: &Snapshot,
    residents: &Residents<'_>,
    tallies: &[Tally],
) -> Placed {
    let mut rooms = rooms(snapshot, residents, tallies);
    let mut nominations = remembered(lots, &mut rooms, snapshot);
    let left = |lots: &[Lot]| lots.iter().map(|lot| u64::from(lot.pods())).sum::<u64>();
    if left(lots) > 0 && !rooms.is_empty() {
        let mut best: Option<(Vec<Lot>, Vec<Room<'_>>, Vec<Nomination>)> = None;
        for spread in [Spread::Tightest, Spread::Oldest, Spread::Widest] {
            let (mut lots, mut rooms) = (lots.clone(), rooms.clone());
            let found = fill_up(&mut lots, &mut rooms, spread);
            if best.as_ref().is_none_or(|(best, ..)| left(&lots) < left(best)) {
                best = Some((lots, rooms, found));
            }
            if best.as_ref().is_some_and(|(best, ..)| left(best) == 0) {
                break;
            }
        }
        if let Some((remaining, filled, found)) = best {
            (*lots, rooms) = (remaining, filled);
            nominations.extend(found);
        }
    }
    nominations.sort_by(|a, b| a.pod.cmp(&b.pod));
    let expecting = rooms.iter().filter(|room| room.expected > 0);
    let expecting = expecting.map(|room| room.state.node.name.clone()).collect();
    Placed { nominations, expecting }
}

/// Places pods where earlier plans have put them.
fn remembered(lots: &mut [Lot], rooms: &mut [Room<'_>], snapshot: &Snapshot) -> Vec<Nomination> {
    let mut nominations = Vec::new();
    let by_name: BTreeMap<&str, usize> =
        rooms.iter().enumerate().map(|(index, room)| (&*room.state.node.name, index)).collect();
    let nominated = |pod: &Pod| {
        let key = (pod.namespace.clone(), pod.name.clone());
        snapshot.nominations.get(&key).and_then(|name| by_name.get(name.as_str())).copied()
    };
    for lot in lots {
        let first = lot.parts.iter().flat_map(|part| &part.pods).find_map(|pod| nominated(pod));
        if let Some(room) = first.filter(|_| lot.bundle).map(|index| &mut rooms[index]) {
            room.fill(lot, 1, &mut nominations);
        }
        for part in 0..lot.parts.len() {
            if !lot.bundle {
                for pod in std::mem::take(&mut lot.parts[part].pods) {
                    match nominated(&pod).map(|index| &mut rooms[index]) {
                        Some(room) if room.fits(&lot.sample, &lot.rule) > 0 => {
                            let taken = Taken::one(&pod, &lot.parts[part]);
                            room.take(lot, 1, taken, &mut nominations);
                        }
                        _ => lot.parts[part].pods.push_back(pod),
                    }
                }
            }
            // A machine that was ordered for pods of a class takes as many, whichever they are.
            for room in &mut *rooms {
                let planned = room.planned_for(&lot.parts[part]);
                let count = planned.min(lot.parts[part].count());
                if count == 0 {
                    continue;
                }
                if lot.bundle {
                    room.fill(lot, 1, &mut nominations);
                } else {
                    let count = room.fits(&lot.sample, &lot.rule).min(count);
                    let taken = lot.take_part(part, count);
                    room.take(lot, count, taken, &mut nominations);
                }
            }
        }
    }
    nominations
}

/// Places as many pods as fit, lot by lot.
fn fill_up(lots: &mut [Lot], rooms: &mut [Room<'_>], spread: Spread) -> Vec<Nomination> {
    let mut nominations = Vec::new();
    // Those that need others come again once these are there.
    let needy: Vec<usize> = (0..lots.len()).filter(|at| !lots[*at].rule.needs.is_empty()).collect();
    for at in (0..lots.len()).chain(needy) {
        let lot = &mut lots[at];
        if lot.count() == 0 {
            continue;
        }
        // Which room is the tightest changes with each lot.
        let fitting = |room: &&mut Room<'_>| room.fits(&lot.sample, &lot.rule) > 0;
        let mut open: Vec<&mut Room<'_>> = rooms.iter_mut().filter(fitting).collect();
        open.sort_by_cached_key(|room| room.rank(spread));
        for room in open {
            if lot.count() == 0 {
                break;
            }
            room.fill(lot, u32::MAX, &mut nominations);
        }
    }
    nominations
}

fn rooms<'a>(
    snapshot: &'a Snapshot,
    residents: &'a Residents<'a>,
    tallies: &[Tally],
) -> Vec<Room<'a>> {
    let usable = |(_, state): &(usize, &StateNode)| {
        !(state.deleting || state.is_disrupted() || state.node.unschedulable)
    };
    let room = |(index, state): (usize, &'a StateNode)| {
        let mut free = state.node.allocatable.clone();
        free.subtract(&residents.used(state));
        let bound = residents.bound(state);
        let missing = daemons::missing(&snapshot.daemons, state, bound);
        missing.iter().for_each(|daemon| free.subtract(&daemon.requests));
        let here = bound.iter().chain(residents.nominated(state)).chain(&missing);
        let ports = here.flat_map(|pod| pod.constraints.host_ports.iter().cloned()).collect();
        let mut attached = BTreeMap::new();
        if !state.node.attach_limits.is_empty() {
            for pod in bound.iter().chain(residents.nominated(state)) {
                for (driver, count) in snapshot.storage.attached(pod) {
                    *attached.entry(driver).or_insert(0) += count;
                }
            }
        }
        let planned = state.planned.iter().map(|(class, count)| (class.as_str(), *count)).collect();
        let tally = tallies.get(index).cloned().unwrap_or_default();
        Room { state, bound, free, ports, attached, planned, tally, expected: 0 }
    };
    snapshot.nodes.iter().enumerate().filter(usable).map(room).collect()
}

impl Room<'_> {
    /// Machines that are further on come first. A core weighs as much as 8 GiB, about what clouds
    /// charge for them.
    fn rank(&self, spread: Spread) -> (Reverse<Stage>, Timestamp, i64, String) {
        let room = self.free.cpu.saturating_add(self.free.memory >> 23);
        let (age, room) = match spread {
            Spread::Tightest => (Timestamp::MIN, room),
            Spread::Oldest => (self.state.created, room),
            Spread::Widest => (Timestamp::MIN, room.saturating_neg()),
        };
        (Reverse(self.state.stage), age, room, self.state.node.name.clone())
    }

    /// How many pods like `pod` fit.
    fn fits(&self, pod: &Pod, rule: &Rule) -> u32 {
        let fit = copies(&self.free, &pod.requests);
        let node = &self.state.node;
        let name = self.state.has_node.then_some(node.name.as_str());
        let ports = &pod.constraints.host_ports;
        if fit == 0
            || predicates::place(&pod.constraints, name, &node.labels, &node.taints).is_some()
            || predicates::ports_clash(ports, &self.ports)
        {
            return 0;
        }
        let volumes = &pod.constraints.volumes.attached;
        let fit = fit.min(predicates::attach_room(volumes, &node.attach_limits, &self.attached));
        let fit = if ports.is_empty() { fit } else { fit.min(1) };
        self.tally.room(rule, fit)
    }

    /// How many pods of the class the machine was ordered for and still waits for.
    fn planned_for(&self, class: &Class) -> u32 {
        if self.planned.is_empty() {
            return 0;
        }
        let planned = self.planned.get(class.name()).copied().filter(|planned| *planned > 0);
        let Some(planned) = planned else { return 0 };
        let arrived = self.bound.iter().filter(|pod| class.is_like(pod)).count();
        planned.saturating_sub(u32::try_from(arrived).unwrap_or(u32::MAX))
    }

    /// Takes in pods that were taken out of the lot: `count` units.
    fn take(&mut self, lot: &Lot, count: u32, taken: Taken, to: &mut Vec<Nomination>) {
        if count == 0 {
            return;
        }
        self.free.subtract(&lot.sample.requests.times(count));
        self.ports.extend_from_slice(&lot.sample.constraints.host_ports);
        for (driver, volumes) in &lot.sample.constraints.volumes.attached {
            *self.attached.entry(driver.clone()).or_insert(0) += volumes.saturating_mul(count);
        }
        self.tally.join(&lot.rule, count);
        for (class, count) in &taken.planned {
            self.expected = self.expected.saturating_add(*count);
            if let Some(planned) = self.planned.get_mut(class.as_str()) {
                *planned = planned.saturating_sub(*count);
            }
        }
        to.extend(taken.pods.into_iter().map(|pod| self.nomination(pod)));
    }

    /// Takes as many units out of the lot as fit, `most` at most.
    fn fill(&mut self, lot: &mut Lot, most: u32, to: &mut Vec<Nomination>) {
        let most = most.min(lot.count());
        if most == 0 {
            return;
        }
        let count = self.fits(&lot.sample, &lot.rule).min(most);
        let taken = lot.take(count);
        self.take(lot, count, taken, to);
    }

    fn nomination(&self, pod: PodKey) -> Nomination {
        let node = self.state.has_node.then(|| self.state.node.name.clone());
        Nomination { pod, claim: self.state.claim.clone(), node }
    }
}
