//! Sets of pods as numbers, and how many of each are on each node.

use std::collections::BTreeMap;

use super::{Labels, Place};
use crate::pod::{Pod, PodSet};

/// Names a set; never used again.
pub(super) type SetId = u64;

/// So many sets are kept that nothing needs at the moment: the next pod may ask for them again.
const KEEP: usize = 1024;

/// Pods of a set on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// All of them.
    pub(super) all: u32,
    /// Those that are not being deleted.
    pub(super) staying: u32,
}

/// Pods that belong to all of some selections.
#[derive(Clone, Debug)]
pub(super) struct Set {
    all_of: Vec<PodSet>,
    counts: BTreeMap<Place, Count>,
    /// How many need it to be kept.
    pins: usize,
    /// When it was last asked for, as the number of the request.
    asked: u64,
}

/// The sets that were asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    sets: BTreeMap<SetId, Set>,
    ids: BTreeMap<Vec<PodSet>, SetId>,
    /// Sets by a label, and its value, that all their pods have.
    anchored: BTreeMap<String, BTreeMap<String, Vec<SetId>>>,
    /// The others.
    loose: Vec<SetId>,
    /// Those that nothing pins, by when they were last asked for.
    idle: BTreeMap<u64, SetId>,
    next: SetId,
    requests: u64,
}

impl Set {
    /// Whether a pod belongs to it.
    pub(super) fn has(&self, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
        self.all_of.iter().all(|set| set.has(&pod.namespace, &pod.labels, namespaces))
    }

    /// Its pods by node.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Place, Count)> {
        self.counts.iter().map(|(place, count)| (*place, *count))
    }

    fn add(&mut self, place: Place, pod: &Pod) {
        let count = self.counts.entry(place).or_default();
        count.all += 1;
        count.staying += u32::from(!pod.deleting);
    }

    fn remove(&mut self, place: Place, pod: &Pod) {
        let Some(count) = self.counts.get_mut(&place) else { return };
        count.all -= 1;
        count.staying -= u32::from(!pod.deleting);
        if count.all == 0 {
            self.counts.remove(&place);
        }
    }

    /// A label and its value that all its pods have.
    fn anchor(&self) -> Option<(&str, &str)> {
        let expressions = self.all_of.iter().flat_map(|set| &set.selector).flat_map(|s| &s.0);
        let mut equal = expressions.filter_map(|e| match (e.operator.as_str(), &e.values[..]) {
            ("In", [value]) => Some((e.key.as_str(), value.as_str())),
            _ => None,
        });
        equal.next()
    }
}

impl Sets {
    pub(super) fn id(&self, all_of: &[PodSet]) -> Option<SetId> {
        self.ids.get(all_of).copied()
    }

    pub(super) fn get(&self, id: SetId) -> Option<&Set> {
        self.sets.get(&id)
    }

    /// The number of a set; `pods` are those that there are, in case it is new.
    pub(super) fn learn<'a>(
        &mut self,
        all_of: &[PodSet],
        namespaces: &BTreeMap<String, Labels>,
        pods: impl Iterator<Item = (Place, &'a Pod)>,
    ) -> SetId {
        self.requests += 1;
        if let Some(id) = self.id(all_of) {
            if let Some(set) = self.sets.get_mut(&id)
                && set.pins == 0
            {
                self.idle.remove(&set.asked);
                set.asked = self.requests;
                self.idle.insert(set.asked, id);
            }
            return id;
        }
        let id = self.next;
        self.next += 1;
        let mut set =
            Set { all_of: all_of.to_vec(), counts: BTreeMap::new(), pins: 0, asked: self.requests };
        // What selects nothing can never count.
        if set.all_of.iter().all(|set| set.selector.is_some()) {
            for (place, pod) in pods {
                if set.has(pod, namespaces) {
                    set.add(place, pod);
                }
            }
            match set.anchor() {
                Some((key, value)) => {
                    let values = self.anchored.entry(key.to_owned()).or_default();
                    values.entry(value.to_owned()).or_default().push(id);
                }
                None => self.loose.push(id),
            }
        }
        self.sets.insert(id, set);
        self.ids.insert(all_of.to_vec(), id);
        self.idle.insert(self.requests, id);
        id
    }

    /// Lets go of sets that were not asked for in a while.
    pub(super) fn trim(&mut self) {
        while self.idle.len() > KEEP {
            let Some((_, oldest)) = self.idle.pop_first() else { break };
            self.forget(oldest);
        }
    }

    /// Keeps a set until it is unpinned as often.
    pub(super) fn pin(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        if set.pins == 0 {
            self.idle.remove(&set.asked);
        }
        set.pins += 1;
    }

    /// Undoes one [`Sets::pin`].
    pub(super) fn unpin(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        set.pins -= 1;
        if set.pins == 0 {
            self.idle.insert(set.asked, id);
        }
    }

    /// The sets that a pod belongs to, in no particular order.
    pub(super) fn of<'a>(
        &'a self,
        pod: &'a Pod,
        namespaces: &'a BTreeMap<String, Labels>,
    ) -> impl Iterator<Item = SetId> {
        let anchored = pod
            .labels
            .iter()
            .filter(|_| !self.anchored.is_empty())
            .filter_map(|(key, value)| self.anchored.get(key)?.get(value))
            .flatten();
        let may = anchored.chain(&self.loose).copied();
        may.filter(|id| self.sets.get(id).is_some_and(|set| set.has(pod, namespaces)))
    }

    /// Counts a pod in.
    pub(super) fn add(&mut self, place: Place, pod: &Pod, namespaces: &BTreeMap<String, Labels>) {
        let ids: Vec<SetId> = self.of(pod, namespaces).collect();
        for id in ids {
            if let Some(set) = self.sets.get_mut(&id) {
                set.add(place, pod);
            }
        }
    }

    /// Counts a pod out, which was counted in as it is.
    pub(super) fn remove(
        &mut self,
        place: Place,
        pod: &Pod,
        namespaces: &BTreeMap<String, Labels>,
    ) {
        let ids: Vec<SetId> = self.of(pod, namespaces).collect();
        for id in ids {
            if let Some(set) = self.sets.get_mut(&id) {
                set.remove(place, pod);
            }
        }
    }

    /// Counts the sets that select namespaces by label again.
    pub(super) fn recount<'a>(
        &mut self,
        namespaces: &BTreeMap<String, Labels>,
        pods: impl Iterator<Item = (Place, &'a Pod)> + Clone,
    ) {
        for set in self.sets.values_mut() {
            if set.all_of.iter().all(|set| set.namespace_selector.is_none()) {
                continue;
            }
            set.counts.clear();
            for (place, pod) in pods.clone() {
                if set.has(pod, namespaces) {
                    set.add(place, pod);
                }
            }
        }
    }

    fn forget(&mut self, id: SetId) {
        let Some(set) = self.sets.remove(&id) else { return };
        self.ids.remove(&set.all_of);
        let Some((key, value)) = set.anchor() else {
            self.loose.retain(|other| *other != id);
            return;
        };
        let Some(values) = self.anchored.get_mut(key) else { return };
        if let Some(ids) = values.get_mut(value) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                values.remove(value);
            }
        }
        if values.is_empty() {
            self.anchored.remove(key);
        }
    }
}
