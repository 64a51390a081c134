//! Where pods could go: what nodes and pools have of a label.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use super::assign::Place;
use super::offered::Offered;
use crate::fingerprint::{Distinct, fingerprint};
use crate::pod::{Constraints, Pod};
use crate::predicates;
use crate::provisioning::class::{Class, asks_the_same, by_constraints, need};
use crate::provisioning::lot::Lot;
use crate::residents::{Residents, copies};
use crate::resources::Resources;
use crate::snapshot::{Snapshot, StateNode};

/// The nodes that are there, and what pools offer; answers are kept.
pub(super) struct Places<'a, 'r> {
    snapshot: &'a Snapshot,
    offered: Offered<'a>,
    /// What is free of each usable node of the snapshot.
    free: Vec<Option<Resources>>,
    /// Nodes that were ordered for pods of a class, by its name: node and count.
    planned: BTreeMap<&'a str, Vec<(usize, u32)>>,
    /// Nodes by name.
    nodes: OnceCell<BTreeMap<&'a str, usize>>,
    residents: &'r Residents<'a>,
    /// Places by what pods ask for and by key.
    known: Distinct<(Arc<Pod>, String, Rc<[Place]>)>,
    /// Values of nodes by what pods ask for besides room, and by key.
    on_nodes: Distinct<(Arc<Pod>, String, Rc<BTreeSet<String>>)>,
    all: BTreeMap<String, Vec<String>>,
}

impl<'a, 'r> Places<'a, 'r> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        residents: &'r Residents<'a>,
        offered: Offered<'a>,
    ) -> Self {
        let free = |state: &StateNode| {
            (!state.deleting && !state.node.unschedulable).then(|| {
                let mut free = state.node.allocatable.clone();
                free.subtract(&residents.used(state));
                free
            })
        };
        let mut planned: BTreeMap<&str, Vec<(usize, u32)>> = BTreeMap::new();
        for (at, state) in snapshot.nodes.iter().enumerate() {
            for (class, count) in &state.planned {
                planned.entry(class).or_default().push((at, *count));
            }
        }
        Self {
            snapshot,
            offered,
            free: snapshot.nodes.iter().map(free).collect(),
            planned,
            nodes: OnceCell::new(),
            residents,
            known: Distinct::default(),
            on_nodes: Distinct::default(),
            all: BTreeMap::new(),
        }
    }

    fn usable(&self) -> impl Iterator<Item = (&'a StateNode, &Resources)> {
        let nodes = self.snapshot.nodes.iter().zip(&self.free);
        nodes.filter_map(|(state, free)| Some((state, free.as_ref()?)))
    }

    /// The values of `key` that such a pod could go to, by value.
    pub(super) fn of(&mut self, pod: &Arc<Pod>, key: &str) -> Rc<[Place]> {
        let print = fingerprint(&(need(pod), key));
        let same = |known: &(Arc<Pod>, String, Rc<[Place]>)| {
            known.1 == key && (Arc::ptr_eq(&known.0, pod) || asks_the_same(&known.0, pod))
        };
        if let Some(number) = self.known.find(print, same) {
            return self.known.get(number).2.clone();
        }
        let offered = self.offered.values(&pod.constraints, &pod.requests, key);
        let on_nodes = self.on_nodes(pod, key);
        let values: BTreeSet<&String> = offered.keys().chain(on_nodes.iter()).collect();
        let place =
            |value: &String| Place { value: value.clone(), cost: offered.get(value).copied() };
        let places: Rc<[Place]> = values.into_iter().map(place).collect();
        self.known.add(print, (pod.clone(), key.to_owned(), places.clone()));
        places
    }

    /// The values of usable nodes whose labels and taints such a pod can bear.
    fn on_nodes(&mut self, pod: &Arc<Pod>, key: &str) -> Rc<BTreeSet<String>> {
        let print = fingerprint(&(&pod.constraints.node_selector, key));
        let same = |known: &(Arc<Pod>, String, Rc<BTreeSet<String>>)| {
            known.1 == key && by_constraints(&known.0.constraints, &pod.constraints).is_eq()
        };
        if let Some(number) = self.on_nodes.find(print, same) {
            return self.on_nodes.get(number).2.clone();
        }
        let bears = |(state, _): &(&StateNode, &Resources)| bears(&pod.constraints, state);
        let values = self.usable().filter(bears);
        let values = values.filter_map(|(state, _)| state.node.labels.get(key).cloned());
        let values: Rc<BTreeSet<String>> = Rc::new(values.collect());
        self.on_nodes.add(print, (pod.clone(), key.to_owned(), values.clone()));
        values
    }

    /// How many such pods the usable nodes of a domain have room for, `most` at most.
    pub(super) fn room(&self, pod: &Pod, key: &str, value: &str, most: u32) -> u32 {
        let mut room = 0_u32;
        for (state, free) in self.usable() {
            if state.node.labels.get(key).is_some_and(|is| is == value) {
                let fit = copies(free, &pod.requests);
                if fit > 0 && bears(&pod.constraints, state) {
                    room = room.saturating_add(fit);
                }
            }
            if room >= most {
                break;
            }
        }
        room.min(most)
    }

    /// The values of `key` that pools offer to any pod.
    pub(super) fn all(&mut self, key: &str) -> Vec<String> {
        if !self.all.contains_key(key) {
            let values = self.offered.values(&Constraints::default(), &Resources::default(), key);
            self.all.insert(key.to_owned(), values.into_keys().collect());
        }
        self.all[key].clone()
    }

    /// Where earlier plans have put pods of a lot, by the value of a key.
    pub(super) fn remembered(&self, lot: &Lot, key: &str) -> Memories {
        let mut memories = Memories::default();
        let nominations = &self.snapshot.nominations;
        if nominations.is_empty() && self.planned.is_empty() {
            return memories;
        }
        let nodes = self.nodes.get_or_init(|| {
            let nodes = self.snapshot.nodes.iter().enumerate();
            nodes.map(|(at, state)| (state.node.name.as_str(), at)).collect()
        });
        let value_of = |at: usize| self.snapshot.nodes[at].node.labels.get(key);
        for pod in lot.parts.iter().flat_map(|part| &part.pods) {
            let key = (pod.namespace.clone(), pod.name.clone());
            let node = nominations.get(&key).and_then(|name| nodes.get(name.as_str()));
            let Some(value) = node.and_then(|at| value_of(*at)) else { continue };
            *memories.counts.entry(value.clone()).or_insert(0) += 1;
            memories.homes.insert(key, value.clone());
        }
        let mut planned: BTreeMap<&String, u32> = BTreeMap::new();
        for part in &lot.parts {
            for (at, count) in self.planned.get(part.name()).into_iter().flatten() {
                let Some(value) = value_of(*at) else { continue };
                let count = count.saturating_sub(self.arrived(*at, part));
                *planned.entry(value).or_insert(0) += count;
            }
        }
        for (value, count) in planned {
            let known = memories.counts.entry(value.clone()).or_insert(0);
            *known = count.max(*known);
        }
        memories
    }

    /// How many pods of a class that a node was ordered for are there.
    fn arrived(&self, node: usize, class: &Class) -> u32 {
        let pods = self.residents.bound(&self.snapshot.nodes[node]);
        let arrived = pods.iter().filter(|pod| class.is_like(pod)).count();
        u32::try_from(arrived).unwrap_or(u32::MAX)
    }

    /// Takes pods out of a bundle until it fits a machine; returns those.
    pub(super) fn trim(&self, bundle: &mut Lot) -> Option<Vec<Class>> {
        if self.holds(&bundle.sample, &bundle.sample.requests) {
            return None;
        }
        let mut requests = Resources::default();
        let mut rest = Vec::new();
        for part in &mut bundle.parts {
            let with = |count: u32| {
                let mut all = requests.clone();
                all.add(&part.sample.requests.times(count));
                all
            };
            let (mut most, mut beyond) = (0, part.count().saturating_add(1));
            while most + 1 < beyond {
                let middle = most + (beyond - most) / 2;
                let holds = self.holds(&bundle.sample, &with(middle));
                if holds { most = middle } else { beyond = middle }
            }
            requests = with(most);
            let mut kept = part.emptied();
            (kept.pods, kept.promised) = part.take(most);
            rest.push(std::mem::replace(part, kept));
        }
        rest.retain(|part| part.count() > 0);
        bundle.parts.retain(|part| part.count() > 0);
        bundle.sample = Arc::new(Pod { requests, ..Pod::clone(&bundle.sample) });
        Some(rest)
    }

    /// Whether a machine, new or there, holds pods that ask for this together.
    fn holds(&self, pod: &Pod, requests: &Resources) -> bool {
        let fits = |(state, free): (&StateNode, &Resources)| {
            copies(free, requests) > 0 && bears(&pod.constraints, state)
        };
        self.usable().any(fits) || self.offered.holds(&pod.constraints, requests)
    }
}

fn bears(constraints: &Constraints, state: &StateNode) -> bool {
    let node = &state.node;
    let name = state.has_node.then_some(node.name.as_str());
    predicates::place(constraints, name, &node.labels, &node.taints).is_none()
}

/// Where earlier plans have put pods of a lot.
#[derive(Default)]
pub(super) struct Memories {
    counts: BTreeMap<String, u32>,
    homes: BTreeMap<(String, String), String>,
}

impl Memories {
    /// How many they have put in a domain.
    pub(super) fn at(&self, value: &str) -> u32 {
        self.counts.get(value).copied().unwrap_or(0)
    }

    /// In which domain they have put a pod.
    pub(super) fn of(&self, pod: &Pod) -> Option<String> {
        if self.homes.is_empty() {
            return None;
        }
        self.homes.get(&(pod.namespace.clone(), pod.name.clone())).cloned()
    }
}
