//! Pods that want to be together on one machine, as units.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use aerostat_api::labels::HOSTNAME;
use k8s_openapi::api::core::v1::NodeSelectorTerm;

use super::Item;
use super::hosts::Hosts;
use super::sets::Terms;
use crate::pod::{Constraints, Pod};
use crate::predicates;
use crate::provisioning::class::{Class, by_constraints};
use crate::provisioning::lot::Lot;
use crate::provisioning::tally::Rule;
use crate::resources::Resources;

/// The most node selector terms that a bundle may come to.
const TERMS: usize = 64;

/// Makes a lot of each class, or of all classes that want to be on one machine with each other.
pub(super) fn items(classes: impl Iterator<Item = Class>, hosts: &Hosts) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut bundles: BTreeMap<usize, usize> = BTreeMap::new();
    for class in classes {
        let mut needs = class.terms.affinity.iter().filter(|(key, _)| key == HOSTNAME);
        // Several that shun each other cannot be one unit, however much they want to be together.
        let shuns_own =
            class.count() > 1 && class.terms.anti.iter().any(|(_, set)| class.sets.contains(set));
        let own = |set: usize| class.sets.contains(&set) && !hosts.is_present(set) && !shuns_own;
        let Some((_, set)) = needs.find(|(_, set)| own(*set)) else {
            items.push(single(&class));
            continue;
        };
        match bundles.get(set).map(|at| &mut items[*at]) {
            None => {
                bundles.insert(*set, items.len());
                // The rest may follow, and is told why it cannot.
                let (class, rest) = with_a_port(&class);
                let mut item = single(&class);
                item.lot.bundle = true;
                let mut all = whole(&class.sample, &class.sample.requests.times(class.count()));
                all.constraints.volumes.attached.clear();
                attach(&mut all, &class);
                item.lot.sample = Arc::new(all);
                items.push(item);
                items.extend(rest.as_ref().map(single));
            }
            Some(item) => {
                if !join(item, &class) {
                    // It cannot be one unit with the others, but may follow them.
                    items.push(single(&class));
                }
            }
        }
    }
    items
}

/// The pods that can share a machine, and the others: of those that ask for a host port one can.
fn with_a_port(class: &Class) -> (Class, Option<Class>) {
    if class.sample.constraints.host_ports.is_empty() || class.count() < 2 {
        return (class.clone(), None);
    }
    let (mut one, mut rest) = (class.emptied(), class.clone());
    (one.pods, one.promised) = rest.take(1);
    (one, Some(rest))
}

fn single(class: &Class) -> Item {
    Item {
        lot: Lot::new(class.clone(), Rule::default()),
        terms: class.terms.clone(),
        sets: class.sets.clone(),
    }
}

/// Adds a class to a bundle; `false` if it cannot be on one machine with it.
fn join(item: &mut Item, class: &Class) -> bool {
    let mine = &item.lot.sample;
    let ports = &class.sample.constraints.host_ports;
    let is_taken = predicates::ports_clash(ports, &mine.constraints.host_ports);
    if is_taken || !ports.is_empty() && class.count() > 1 {
        return false;
    }
    let Some(constraints) = meet(&mine.constraints, &class.sample.constraints) else {
        return false;
    };
    let mut requests = mine.requests.clone();
    requests.add(&class.sample.requests.times(class.count()));
    let pod = Pod { constraints, ..Pod::clone(mine) };
    let mut all = whole(&pod, &requests);
    attach(&mut all, class);
    item.lot.sample = Arc::new(all);
    item.lot.parts.push(class.clone());
    let mut sets: Vec<usize> = item.sets.iter().chain(class.sets.iter()).copied().collect();
    sets.sort_unstable();
    sets.dedup();
    let mut terms = Terms::clone(&item.terms);
    let more = &class.terms;
    terms
        .affinity
        .extend(more.affinity.iter().filter(|t| !item.terms.affinity.contains(t)).cloned());
    terms.anti.extend(more.anti.iter().filter(|t| !item.terms.anti.contains(t)).cloned());
    terms.spread.extend(more.spread.iter().filter(|t| !item.terms.spread.contains(t)).cloned());
    (item.sets, item.terms) = (sets.into(), Rc::new(terms));
    true
}

/// Counts the volumes of a class in.
fn attach(all: &mut Pod, class: &Class) {
    for (driver, count) in &class.sample.constraints.volumes.attached {
        let attached = all.constraints.volumes.attached.entry(driver.clone()).or_insert(0);
        *attached = attached.saturating_add(count.saturating_mul(class.count()));
    }
}

/// One pod that stands for several.
fn whole(pod: &Pod, requests: &Resources) -> Pod {
    Pod { requests: requests.clone(), ..pod.clone() }
}

/// Constraints of a machine that satisfies both; `None` if there is none, or if it is not easily
/// said.
fn meet(a: &Constraints, b: &Constraints) -> Option<Constraints> {
    if by_constraints(a, b).is_eq() {
        return Some(a.clone());
    }
    let mut met = a.clone();
    for (key, value) in &b.node_selector {
        if met.node_selector.insert(key.clone(), value.clone()).is_some_and(|old| old != *value) {
            return None;
        }
    }
    met.node_affinity = match (&a.node_affinity, &b.node_affinity) {
        (Some(a), Some(b)) => {
            let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
            let both = pairs.map(|(a, b)| NodeSelectorTerm {
                match_expressions: joined(&a.match_expressions, &b.match_expressions),
                match_fields: joined(&a.match_fields, &b.match_fields),
            });
            let both: Vec<NodeSelectorTerm> = both.take(TERMS + 1).collect();
            if both.len() > TERMS {
                return None;
            }
            Some(both)
        }
        (a, b) => a.as_ref().or(b.as_ref()).cloned(),
    };
    met.tolerations.retain(|toleration| b.tolerations.contains(toleration));
    met.host_ports.extend_from_slice(&b.host_ports);
    met.volumes.bound.extend_from_slice(&b.volumes.bound);
    met.volumes.unbound.extend_from_slice(&b.volumes.unbound);
    Some(met)
}

fn joined<T: Clone>(a: &Option<Vec<T>>, b: &Option<Vec<T>>) -> Option<Vec<T>> {
    let all: Vec<T> = a.iter().chain(b).flatten().cloned().collect();
    (!all.is_empty()).then_some(all)
}
