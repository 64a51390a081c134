//! Which nodes a pod's constraints, and those of the pods that are there, leave to it.

use std::collections::BTreeMap;
use std::slice::from_ref;

use super::domains::{KeyId, Value};
use super::index::Index;
use super::sets::{Set, SetId};
use super::{Eligible, Place, company, counted};
use crate::pod::{Pod, Spread};
use crate::predicates::Reason;

/// Pods by value of a topology key.
type Tally = Vec<u32>;

/// The constraints on one pod, counted out over all nodes. Right until anything changes; what a
/// preemption would change on one node can be tried out.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    spread: Vec<Skew>,
    together: Option<Together>,
    /// What the pod shuns: one tally for each anti-affinity term.
    apart: Vec<(KeyId, SetId, Tally)>,
    /// How many pods shun this one.
    shunned: BTreeMap<KeyId, Tally>,
}

/// A required spread constraint.
#[derive(Clone, Debug)]
struct Skew {
    key: KeyId,
    set: Option<SetId>,
    max: u32,
    min_domains: u32,
    /// Whether the pod counts itself.
    itself: bool,
    /// Which nodes' pods count.
    eligible: Vec<bool>,
    /// The pods in each domain with such a node.
    counts: Vec<Option<u32>>,
    /// The fewest, as far as they matter.
    fewest: u32,
}

/// Required affinity.
#[derive(Clone, Debug)]
struct Together {
    set: Option<SetId>,
    /// One tally for each term.
    terms: Vec<(KeyId, Tally)>,
    /// Whether the pod is company for itself.
    itself: bool,
}

impl Index {
    /// Counts the constraints on a pod out; it must be prepared. `eligible` is asked only about
    /// nodes that are there.
    pub fn filters(&self, pod: &Pod, eligible: impl Fn(Place) -> Eligible) -> Filters {
        let constraints = &pod.constraints;
        let mut filters = Filters {
            spread: self.skews(pod, eligible),
            together: None,
            apart: Vec::new(),
            shunned: BTreeMap::new(),
        };
        if !constraints.pod_affinity.is_empty() {
            let terms = &constraints.pod_affinity;
            let set = self.sets.id(&company(terms));
            let keys = terms.iter().filter_map(|term| self.domains.key(&term.topology_key));
            filters.together = Some(Together {
                terms: keys.map(|key| (key, self.tally(key, set))).collect(),
                itself: terms.iter().all(|term| self.selects(&term.pods, pod)),
                set,
            });
        }
        for term in &constraints.pod_anti_affinity {
            let key = self.domains.key(&term.topology_key);
            let set = self.sets.id(from_ref(&term.pods));
            if let (Some(key), Some(set)) = (key, set) {
                filters.apart.push((key, set, self.tally(key, Some(set))));
            }
        }
        for (key, said) in self.said_of(pod) {
            for (place, count) in &said.shun {
                if let Some(value) = self.domains.of(key, *place) {
                    let tally = filters.shunned.entry(key).or_default();
                    *at(tally, value) += count;
                }
            }
        }
        filters
    }

    fn skews(&self, pod: &Pod, eligible: impl Fn(Place) -> Eligible) -> Vec<Skew> {
        let required: Vec<&Spread> =
            pod.constraints.spread.iter().filter(|spread| spread.required).collect();
        let skew = |spread: &&Spread| {
            let key = self.domains.key(&spread.topology_key)?;
            let set = counted(spread.selector.as_ref(), &pod.namespace);
            Some(Skew {
                key,
                set: set.and_then(|set| self.sets.id(from_ref(&set))),
                max: spread.max_skew,
                min_domains: spread.min_domains,
                itself: spread.selector.as_ref().is_some_and(|s| s.matches(&pod.labels)),
                eligible: vec![false; self.domains.places(key)],
                counts: vec![None; self.domains.values(key)],
                fewest: 0,
            })
        };
        let mut skews: Vec<Skew> = required.iter().filter_map(skew).collect();
        let places = skews.iter().map(|skew| skew.eligible.len()).min().unwrap_or(0);
        for place in 0..places {
            if !skews.iter().all(|skew| self.domains.of(skew.key, place).is_some()) {
                continue;
            }
            let eligible = eligible(place);
            for (skew, spread) in skews.iter_mut().zip(&required) {
                if let Some(value) = self.domains.of(skew.key, place)
                    && eligible.counts_for(spread)
                {
                    skew.eligible[place] = true;
                    skew.counts[value].get_or_insert(0);
                }
            }
        }
        for skew in &mut skews {
            let set = skew.set.and_then(|set| self.sets.get(set));
            for (place, count) in set.into_iter().flat_map(Set::counts) {
                skew.change(self, place, |pods| *pods += count.staying);
            }
            skew.settle();
        }
        skews
    }

    /// The pods of a set by value of a key.
    fn tally(&self, key: KeyId, set: Option<SetId>) -> Tally {
        let mut tally = vec![0; self.domains.values(key)];
        let set = set.and_then(|set| self.sets.get(set));
        for (place, count) in set.into_iter().flat_map(Set::counts) {
            if let Some(value) = self.domains.of(key, place) {
                tally[value] += count.all;
            }
        }
        tally
    }
}

impl Filters {
    /// Whether nothing constrains the pod.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.spread.is_empty()
            && self.together.is_none()
            && self.apart.is_empty()
            && self.shunned.is_empty()
    }

    /// Why the pod may not go on a node that is there; `None` if it may.
    #[must_use]
    pub fn check(&self, index: &Index, place: Place) -> Option<Reason> {
        for skew in &self.spread {
            let Some(value) = index.domains.of(skew.key, place) else {
                return Some(Reason::SpreadLabel);
            };
            if !skew.allows(value) {
                return Some(Reason::Spread);
            }
        }
        if self.together.as_ref().is_some_and(|together| !together.allows(index, place)) {
            return Some(Reason::PodAffinity);
        }
        let holds = |key: KeyId, tally: &Tally| {
            let value = index.domains.of(key, place);
            value.is_some_and(|value| tally.get(value).is_some_and(|count| *count > 0))
        };
        if self.apart.iter().any(|(key, _, tally)| holds(*key, tally)) {
            return Some(Reason::PodAntiAffinity);
        }
        let shunned = self.shunned.iter().any(|(key, tally)| holds(*key, tally));
        shunned.then_some(Reason::ExistingAntiAffinity)
    }

    /// Counts `other` in as if it came to a node. `pod` is whose filters these are.
    pub fn add(&mut self, index: &Index, pod: &Pod, other: &Pod, place: Place) {
        self.update(index, pod, other, place, |count| *count = count.saturating_add(1));
    }

    /// Counts `other`, which is counted, out as if it went from a node.
    pub fn remove(&mut self, index: &Index, pod: &Pod, other: &Pod, place: Place) {
        self.update(index, pod, other, place, |count| *count = count.saturating_sub(1));
    }

    fn update(
        &mut self,
        index: &Index,
        pod: &Pod,
        other: &Pod,
        place: Place,
        change: impl Fn(&mut u32),
    ) {
        let has = |set: Option<SetId>| {
            let set = set.and_then(|set| index.sets.get(set));
            set.is_some_and(|set| set.has(other, &index.namespaces))
        };
        for skew in self.spread.iter_mut().filter(|skew| !other.deleting && has(skew.set)) {
            skew.change(index, place, &change);
            skew.settle();
        }
        if let Some(together) = self.together.as_mut().filter(|together| has(together.set)) {
            for (key, tally) in &mut together.terms {
                if let Some(value) = index.domains.of(*key, place) {
                    change(at(tally, value));
                }
            }
        }
        for (key, set, tally) in &mut self.apart {
            if let Some(value) = index.domains.of(*key, place)
                && has(Some(*set))
            {
                change(at(tally, value));
            }
        }
        for term in &other.constraints.pod_anti_affinity {
            if let Some(key) = index.domains.key(&term.topology_key)
                && let Some(value) = index.domains.of(key, place)
                && index.selects(&term.pods, pod)
            {
                change(at(self.shunned.entry(key).or_default(), value));
            }
        }
    }
}

impl Skew {
    fn allows(&self, value: Value) -> bool {
        let there = self.counts.get(value).copied().flatten().unwrap_or(0);
        let pods = there.saturating_add(u32::from(self.itself));
        pods.saturating_sub(self.fewest) <= self.max
    }

    fn change(&mut self, index: &Index, place: Place, change: impl Fn(&mut u32)) {
        if self.eligible.get(place) == Some(&true)
            && let Some(value) = index.domains.of(self.key, place)
            && let Some(Some(count)) = self.counts.get_mut(value)
        {
            change(count);
        }
    }

    fn settle(&mut self) {
        let domains = || self.counts.iter().flatten();
        let enough = domains().count() >= self.min_domains as usize;
        self.fewest = domains().min().copied().filter(|_| enough).unwrap_or(0);
    }
}

impl Together {
    fn allows(&self, index: &Index, place: Place) -> bool {
        let mut company = true;
        for (key, tally) in &self.terms {
            let Some(value) = index.domains.of(*key, place) else { return false };
            company &= tally.get(value).is_some_and(|count| *count > 0);
        }
        // The first of pods that want their own company may go anywhere.
        company || (self.itself && self.terms.iter().all(|(_, t)| t.iter().all(|n| *n == 0)))
    }
}

fn at(tally: &mut Tally, value: Value) -> &mut u32 {
    if tally.len() <= value {
        tally.resize(value + 1, 0);
    }
    &mut tally[value]
}
