//! Capacity that is there or on its way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::class::Class;
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
    /// Pods of each class that the machine was ordered for and that have not been placed here.
    planned: BTreeMap<&'a str, u32>,
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

/// Places pods on capacity that is there or on its way, and takes them out of `classes`. Where an
/// earlier plan has put a pod comes first; others go to the tightest place. If pods are left over
/// then, other ways are tried before anything is ordered.
pub(crate) fn place(
    classes: &mut Vec<Class>,
    snapshot: &Snapshot,
    residents: &Residents<'_>,
) -> Placed {
    let mut rooms = rooms(snapshot, residents);
    let names: Vec<String> = classes.iter().map(Class::name).collect();
    let mut nominations = remembered(classes, &names, &mut rooms, snapshot);
    let left = |classes: &[Class]| classes.iter().map(|c| u64::from(c.count())).sum::<u64>();
    let mut best: Option<(Vec<Class>, Vec<Room<'_>>, Vec<Nomination>)> = None;
    for spread in [Spread::Tightest, Spread::Oldest, Spread::Widest] {
        let (mut classes, mut rooms) = (classes.clone(), rooms.clone());
        let found = fill_up(&mut classes, &names, &mut rooms, spread);
        if best.as_ref().is_none_or(|(best, ..)| left(&classes) < left(best)) {
            best = Some((classes, rooms, found));
        }
        if best.as_ref().is_some_and(|(best, ..)| left(best) == 0) {
            break;
        }
    }
    if let Some((remaining, filled, found)) = best {
        (*classes, rooms) = (remaining, filled);
        nominations.extend(found);
    }
    nominations.sort_by(|a, b| a.pod.cmp(&b.pod));
    let expecting = rooms.iter().filter(|room| room.expected > 0);
    let expecting = expecting.map(|room| room.state.node.name.clone()).collect();
    Placed { nominations, expecting }
}

/// Places pods where earlier plans have put them.
fn remembered(
    classes: &mut [Class],
    names: &[String],
    rooms: &mut [Room<'_>],
    snapshot: &Snapshot,
) -> Vec<Nomination> {
    let mut nominations = Vec::new();
    let by_name: BTreeMap<&str, usize> =
        rooms.iter().enumerate().map(|(index, room)| (&*room.state.node.name, index)).collect();
    for (class, name) in classes.iter_mut().zip(names) {
        let pods = std::mem::take(&mut class.pods);
        for pod in pods {
            let key = (pod.namespace.clone(), pod.name.clone());
            let room = snapshot.nominations.get(&key).and_then(|name| by_name.get(name.as_str()));
            match room.map(|index| &mut rooms[*index]) {
                Some(room) if room.fits(&pod) > 0 => {
                    room.take(&class.sample, name, 1);
                    nominations.push(room.nomination(key));
                }
                _ => class.pods.push(pod),
            }
        }
        for room in &mut *rooms {
            let planned = room.planned_for(name, class);
            room.fill(class, name, planned, &mut nominations);
        }
    }
    nominations
}

/// Places as many pods as fit, class by class.
fn fill_up(
    classes: &mut [Class],
    names: &[String],
    rooms: &mut [Room<'_>],
    spread: Spread,
) -> Vec<Nomination> {
    let mut nominations = Vec::new();
    for (class, name) in classes.iter_mut().zip(names).filter(|(class, _)| class.count() > 0) {
        // Which room is the tightest changes with each class.
        rooms.sort_by_cached_key(|room| room.rank(spread));
        for room in &mut *rooms {
            if class.count() == 0 {
                break;
            }
            room.fill(class, name, u32::MAX, &mut nominations);
        }
    }
    nominations
}

fn rooms<'a>(snapshot: &'a Snapshot, residents: &'a Residents<'a>) -> Vec<Room<'a>> {
    let usable = |state: &&StateNode| !state.deleting && !state.node.unschedulable;
    let room = |state: &'a StateNode| {
        let mut free = state.node.allocatable.clone();
        free.subtract(&residents.used(state));
        let bound = residents.bound(state);
        let missing = daemons::missing(&snapshot.daemons, state, bound);
        missing.iter().for_each(|daemon| free.subtract(&daemon.requests));
        let here = bound.iter().chain(residents.nominated(state)).chain(&missing);
        let ports = here.flat_map(|pod| pod.constraints.host_ports.iter().cloned()).collect();
        let planned = state.planned.iter().map(|(class, count)| (class.as_str(), *count)).collect();
        Room { state, bound, free, ports, planned, expected: 0 }
    };
    snapshot.nodes.iter().filter(usable).map(room).collect()
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
    fn fits(&self, pod: &Pod) -> u32 {
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
        if ports.is_empty() { fit } else { 1 }
    }

    /// How many pods of the class the machine was ordered for and still waits for.
    fn planned_for(&self, name: &str, class: &Class) -> u32 {
        let Some(planned) = self.planned.get(name).copied().filter(|planned| *planned > 0) else {
            return 0;
        };
        let arrived = self.bound.iter().filter(|pod| class.is_like(pod)).count();
        planned.saturating_sub(u32::try_from(arrived).unwrap_or(u32::MAX))
    }

    fn take(&mut self, pod: &Pod, class: &str, count: u32) {
        self.free.subtract(&pod.requests.times(count));
        self.ports.extend_from_slice(&pod.constraints.host_ports);
        self.expected = self.expected.saturating_add(count);
        if let Some(planned) = self.planned.get_mut(class) {
            *planned = planned.saturating_sub(count);
        }
    }

    /// Takes as many pods out of the class as fit, `most` at most.
    fn fill(&mut self, class: &mut Class, name: &str, most: u32, to: &mut Vec<Nomination>) {
        let most = most.min(class.count());
        if most == 0 {
            return;
        }
        let count = self.fits(&class.sample).min(most);
        self.take(&class.sample, name, count);
        let (pods, _) = class.take(count);
        to.extend(pods.into_iter().map(|pod| self.nomination(pod)));
    }

    fn nomination(&self, pod: PodKey) -> Nomination {
        let node = self.state.has_node.then(|| self.state.node.name.clone());
        Nomination { pod, claim: self.state.claim.clone(), node }
    }
}
