//! How many pods of which set are in which domain.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::sets::{Sets, SpreadTerm};
use crate::pod::{Constraints, Pod};
use crate::predicates;
use crate::provisioning::market;
use crate::residents::Residents;
use crate::snapshot::{Snapshot, StateNode};

/// Which nodes a spread constraint looks at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Node selector and required node affinity, if they are honoured.
    affinity: Option<Constraints>,
    /// Tolerations, if taints are honoured.
    tolerations: Option<Constraints>,
}

impl Filter {
    fn of(pod: &Pod, term: &SpreadTerm) -> Self {
        let Constraints { node_selector, node_affinity, tolerations, .. } = &pod.constraints;
        let selects = !node_selector.is_empty() || node_affinity.is_some();
        let affinity = (term.honors_affinity && selects).then(|| Constraints {
            node_selector: node_selector.clone(),
            node_affinity: node_affinity.clone(),
            ..Constraints::default()
        });
        let tolerations = term
            .honors_taints
            .then(|| Constraints { tolerations: tolerations.clone(), ..Constraints::default() });
        Self { affinity, tolerations }
    }

    fn accepts(&self, state: &StateNode) -> bool {
        let node = &state.node;
        let name = state.has_node.then_some(node.name.as_str());
        let affinity = self.affinity.as_ref();
        affinity.is_none_or(|c| predicates::matches_affinity(c, name, &node.labels))
            && self
                .tolerations
                .as_ref()
                .is_none_or(|c| predicates::untolerated(&c.tolerations, &node.taints).is_none())
    }

    /// Whether a new machine for such a pod may be one that the constraint looks at.
    fn may_accept(&self, constraints: &Constraints) -> bool {
        let Some(affinity) = &self.affinity else { return true };
        let theirs: Vec<_> = market::alternatives(constraints).into_iter().flatten().collect();
        let mine: Vec<_> = market::alternatives(affinity).into_iter().flatten().collect();
        mine.iter().any(|mine| theirs.iter().any(|theirs| mine.intersects(theirs).is_ok()))
    }

    fn is_same(&self, other: &Self) -> bool {
        let same = |a: &Option<Constraints>, b: &Option<Constraints>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                a.node_selector == b.node_selector
                    && a.node_affinity == b.node_affinity
                    && a.tolerations == b.tolerations
            }
            _ => false,
        };
        same(&self.affinity, &other.affinity) && same(&self.tolerations, &other.tolerations)
    }
}

/// Counts of one set over the domains of one key.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// For spread: which nodes it looks at. Pods under deletion do not count then.
    filter: Option<Filter>,
    /// Pods by domain. For a spread constraint every domain of a node that it looks at is there.
    pub(crate) counts: BTreeMap<String, u32>,
}

/// All counts, by key.
#[derive(Clone, Default)]
pub(crate) struct Board {
    keys: BTreeMap<String, Domains>,
}

/// The counts of one key.
#[derive(Clone, Default)]
struct Domains {
    counters: Vec<Counter>,
    /// Counters by set.
    by_set: BTreeMap<usize, Vec<usize>>,
    /// Where pods are that keep a set off, by set.
    shunned: BTreeMap<usize, BTreeSet<String>>,
    /// Where pods of a set may be, by set: those that are not kept to one domain.
    maybe: BTreeMap<usize, BTreeSet<String>>,
    /// Sets that somebody keeps off, and how many classes will do so later in the plan.
    avoided: BTreeMap<usize, u32>,
    /// Sets that somebody needs, and the number of their plain counter.
    needed: BTreeMap<usize, usize>,
}

impl Board {
    /// The number of the counter for a set (`spread`: as the pod's constraint counts it).
    pub(crate) fn counter(
        &mut self,
        key: &str,
        set: usize,
        spread: Option<(&Pod, &SpreadTerm)>,
    ) -> usize {
        let domains = self.keys.entry(key.to_owned()).or_default();
        let filter = spread.map(|(pod, term)| Filter::of(pod, term));
        let of_set = domains.by_set.entry(set).or_default();
        let same = |at: &&usize| match (&domains.counters[**at].filter, &filter) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_same(b),
            _ => false,
        };
        if let Some(known) = of_set.iter().find(same) {
            return *known;
        }
        domains.counters.push(Counter { filter, counts: BTreeMap::new() });
        of_set.push(domains.counters.len() - 1);
        domains.counters.len() - 1
    }

    /// Notes that pods on nodes keep a set off.
    pub(crate) fn avoid(&mut self, key: &str, set: usize) {
        self.keys.entry(key.to_owned()).or_default().avoided.entry(set).or_insert(0);
    }

    /// Notes that a class of the plan keeps a set off.
    pub(crate) fn avoid_later(&mut self, key: &str, set: usize) {
        let domains = self.keys.entry(key.to_owned()).or_default();
        *domains.avoided.entry(set).or_insert(0) += 1;
    }

    /// Notes that a class that keeps a set off has been placed.
    pub(crate) fn avoided(&mut self, key: &str, set: usize) {
        let domains = self.keys.get_mut(key).and_then(|domains| domains.avoided.get_mut(&set));
        if let Some(classes) = domains {
            *classes = classes.saturating_sub(1);
        }
    }

    /// Whether a class that is still to be placed keeps one of these sets off.
    pub(crate) fn will_be_avoided(&self, key: &str, sets: &[usize]) -> bool {
        let later = |d: &Domains, set: &usize| d.avoided.get(set).is_some_and(|more| *more > 0);
        self.keys.get(key).is_some_and(|d| sets.iter().any(|set| later(d, set)))
    }

    /// Notes that somebody needs pods of a set.
    pub(crate) fn need(&mut self, key: &str, set: usize) {
        let counter = self.counter(key, set, None);
        self.keys.entry(key.to_owned()).or_default().needed.insert(set, counter);
    }

    /// The keys over which pods of these sets cannot go just anywhere: somebody keeps them off, or
    /// waits for the first of them to be somewhere.
    pub(crate) fn concerning(&self, sets: &[usize]) -> Vec<String> {
        let concerned = |key: &&String| {
            self.is_avoided(key, sets) || sets.iter().any(|set| self.is_awaited(key, *set))
        };
        self.keys.keys().filter(concerned).cloned().collect()
    }

    /// Whether somebody keeps one of these sets off over `key`.
    fn is_avoided(&self, key: &str, sets: &[usize]) -> bool {
        self.keys.get(key).is_some_and(|d| sets.iter().any(|set| d.avoided.contains_key(set)))
    }

    /// Whether somebody needs pods of the set and there is none yet.
    pub(crate) fn is_awaited(&self, key: &str, set: usize) -> bool {
        let Some(domains) = self.keys.get(key) else { return false };
        domains.needed.get(&set).is_some_and(|at| domains.counters[*at].is_empty())
    }

    /// The counters of spread constraints in which pods of these sets count.
    pub(crate) fn spreading(&self, key: &str, sets: &[usize]) -> Vec<usize> {
        let Some(domains) = self.keys.get(key) else { return Vec::new() };
        let of_sets = sets.iter().filter_map(|set| domains.by_set.get(set)).flatten();
        of_sets.copied().filter(|at| domains.counters[*at].filter.is_some()).collect()
    }

    /// Counts the pods on nodes.
    pub(crate) fn count_residents<'a>(
        &mut self,
        sets: &mut Sets<'a>,
        snapshot: &'a Snapshot,
        residents: &Residents<'a>,
    ) {
        for state in &snapshot.nodes {
            for (key, domains) in &mut self.keys {
                let Some(value) = state.node.labels.get(key) else { continue };
                let looked_at = |c: &Counter| c.filter.as_ref().is_none_or(|f| f.accepts(state));
                let accepts: Vec<bool> = domains.counters.iter().map(looked_at).collect();
                for (counter, accepts) in domains.counters.iter_mut().zip(&accepts) {
                    if *accepts && counter.filter.is_some() {
                        counter.counts.entry(value.clone()).or_insert(0);
                    }
                }
                for pod in residents.bound(state).iter().chain(residents.nominated(state)) {
                    let pod: &'a Pod = pod;
                    for (shunned_key, set) in &sets.shunned(pod).anti {
                        if shunned_key == key {
                            domains.shunned.entry(*set).or_default().insert(value.clone());
                        }
                    }
                    let members: Rc<[usize]> = sets.members(pod);
                    for at in members.iter().filter_map(|s| domains.by_set.get(s)).flatten() {
                        let counter = &mut domains.counters[*at];
                        if accepts[*at] && !(counter.filter.is_some() && pod.deleting) {
                            *counter.counts.entry(value.clone()).or_insert(0) += 1;
                        }
                    }
                }
            }
        }
    }

    /// A counter.
    pub(crate) fn get(&self, key: &str, counter: usize) -> &Counter {
        &self.keys[key].counters[counter]
    }

    /// Whether a pod of these sets may not join a domain because of pods that keep it off.
    pub(crate) fn keeps_off(&self, key: &str, sets: &[usize], value: &str) -> bool {
        let Some(domains) = self.keys.get(key) else { return false };
        sets.iter().any(|set| domains.shunned.get(set).is_some_and(|at| at.contains(value)))
    }

    /// Whether a pod of the set may be in a domain, though it is not counted there.
    pub(crate) fn may_hold(&self, key: &str, set: usize, value: &str) -> bool {
        let maybe = self.keys.get(key).and_then(|domains| domains.maybe.get(&set));
        maybe.is_some_and(|maybe| maybe.contains(value))
    }

    /// Counts `count` pods of these sets in a domain; they keep the sets of `anti` off.
    pub(crate) fn add(
        &mut self,
        key: &str,
        value: &str,
        (sets, constraints, anti): (&[usize], &Constraints, &[(String, usize)]),
        count: u32,
    ) {
        let domains = self.keys.entry(key.to_owned()).or_default();
        for at in sets.iter().filter_map(|set| domains.by_set.get(set)).flatten() {
            let counter = &mut domains.counters[*at];
            if counter.filter.as_ref().is_none_or(|filter| filter.may_accept(constraints)) {
                *counter.counts.entry(value.to_owned()).or_insert(0) += count;
            }
        }
        for (_, set) in anti.iter().filter(|(of, _)| of == key) {
            domains.shunned.entry(*set).or_default().insert(value.to_owned());
        }
    }

    /// Takes back what [`Board::add`] has counted.
    pub(crate) fn take_back(
        &mut self,
        key: &str,
        value: &str,
        (sets, constraints): (&[usize], &Constraints),
        count: u32,
    ) {
        let Some(domains) = self.keys.get_mut(key) else { return };
        for at in sets.iter().filter_map(|set| domains.by_set.get(set)).flatten() {
            let counter = &mut domains.counters[*at];
            if counter.filter.as_ref().is_none_or(|filter| filter.may_accept(constraints))
                && let Some(counted) = counter.counts.get_mut(value)
            {
                *counted = counted.saturating_sub(count);
            }
        }
    }

    /// Notes that pods of these sets may be in a domain.
    pub(crate) fn add_maybe(&mut self, key: &str, values: &[String], sets: &[usize]) {
        let domains = self.keys.entry(key.to_owned()).or_default();
        for set in sets {
            domains.maybe.entry(*set).or_default().extend(values.iter().cloned());
        }
    }
}

impl Counter {
    pub(crate) fn at(&self, value: &str) -> u32 {
        self.counts.get(value).copied().unwrap_or(0)
    }

    /// Whether no pod is counted anywhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.values().all(|count| *count == 0)
    }
}
