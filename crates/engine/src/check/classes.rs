//! Pods that are the same to every rule, counted together, so that the work does not grow with
//! the number of pods.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::pod::{ClaimRef, Pod, PodKey, PodTerm, Spread};
use crate::resources::Resources;
use crate::snapshot::Snapshot;

type Key<'a> = (
    &'a str,
    &'a BTreeMap<String, String>,
    &'a Resources,
    &'a BTreeMap<String, String>,
    &'a [(String, String, i32)],
    (&'a [PodTerm], &'a [PodTerm], &'a [Spread], &'a [ClaimRef]),
);

/// Classes of pods.
#[derive(Default)]
pub(super) struct Classes<'a> {
    samples: Vec<&'a Pod>,
    /// Classes that differ in node affinity or tolerations only.
    by_key: BTreeMap<Key<'a>, Vec<usize>>,
    waiting: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Classes<'a> {
    /// Those of all pods that may be placed.
    pub(super) fn of_waiting(snapshot: &'a Snapshot) -> Self {
        let mut classes = Self::default();
        let mut twice = Vec::new();
        for pod in snapshot.pods.iter().filter(|pod| waits(pod)) {
            let class = classes.class(pod);
            let name = (pod.namespace.as_str(), pod.name.as_str());
            match classes.waiting.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(class);
                }
                // Of two pods with one name nobody can tell which is meant.
                Entry::Occupied(_) => twice.push(name),
            }
        }
        twice.iter().for_each(|name| {
            classes.waiting.remove(name);
        });
        classes
    }

    /// The class of a pod, a new one if there is none like it.
    pub(super) fn class(&mut self, pod: &'a Pod) -> usize {
        let c = &pod.constraints;
        let key = (
            pod.namespace.as_str(),
            &pod.labels,
            &pod.requests,
            &c.node_selector,
            c.host_ports.as_slice(),
            (
                c.pod_affinity.as_slice(),
                c.pod_anti_affinity.as_slice(),
                c.spread.as_slice(),
                pod.claims.as_slice(),
            ),
        );
        let samples = &self.samples;
        let alike = self.by_key.entry(key).or_default();
        let same = |class: &&usize| {
            let other = &samples[**class].constraints;
            other.node_affinity == c.node_affinity && other.tolerations == c.tolerations
        };
        if let Some(class) = alike.iter().find(same) {
            return *class;
        }
        alike.push(samples.len());
        self.samples.push(pod);
        self.samples.len() - 1
    }

    /// The class of a pod that waits for a place.
    pub(super) fn of(&self, pod: &PodKey) -> Option<usize> {
        self.waiting.get(&(pod.0.as_str(), pod.1.as_str())).copied()
    }

    /// One pod of a class.
    pub(super) fn sample(&self, class: usize) -> &'a Pod {
        self.samples[class]
    }

    /// A pod of every class.
    pub(super) fn samples(&self) -> &[&'a Pod] {
        &self.samples
    }
}

/// Whether a plan may find a place for a pod.
fn waits(pod: &Pod) -> bool {
    let goes_with_node =
        pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet" || owner.kind == "Node");
    let is_bound = pod.node.is_some() || pod.nominated_node.is_some();
    !(is_bound || pod.terminal || pod.deleting || pod.gated || goes_with_node)
        && pod.unsupported.is_empty()
}
