//! Who is where, and what those who are there say of others.

use std::collections::BTreeMap;
use std::slice::from_ref;

use super::domains::{Domains, KeyId};
use super::sets::{SetId, Sets};
use super::{HOSTNAME, Labels, Place, ZONE, company, counted, in_namespace};
use crate::pod::{Constraints, Pod, PodSet, PodTerm, Selector};

/// How much a required affinity term of a pod that is there draws those that it wants.
/// Source: kubernetes `pkg/scheduler/apis/config/v1/defaults.go` (`HardPodAffinityWeight`).
const REQUIRED_WEIGHT: i64 = 1;

/// Counts of pods by what was asked about them and by node, kept up to date change by change.
///
/// The caller owns nodes and pods, and shows them (`nodes`, `pods`: those that are there without
/// the one that the call is about) wherever something may be asked for the first time.
#[derive(Clone, Debug, Default)]
pub struct Index {
    pub(super) domains: Domains,
    pub(super) sets: Sets,
    pub(super) namespaces: BTreeMap<String, Labels>,
    /// What pods that are there say of others, by whom it is about and the topology key.
    pub(super) said: BTreeMap<(SetId, KeyId), Said>,
}

/// What pods that are there say of one set of pods in terms of one topology key.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// How many pods on a node shun the set: required anti-affinity.
    pub(super) shun: BTreeMap<Place, u32>,
    /// By how much pods on a node draw the set near (preferred and required affinity) or keep it
    /// away (preferred anti-affinity), and how many terms that is.
    pub(super) draw: BTreeMap<Place, (i64, u32)>,
    /// How many pods will shun the set that are not there yet.
    announced: u32,
}

impl Index {
    /// Notes a node's labels; `None` when it goes.
    pub fn set_node(&mut self, place: Place, labels: Option<&BTreeMap<String, String>>) {
        self.domains.set_node(place, labels);
    }

    /// Notes a namespace's labels; `None` when it goes. Whether that changed anything.
    pub fn set_namespace<'a>(
        &mut self,
        name: &str,
        labels: Option<&BTreeMap<String, String>>,
        pods: impl Iterator<Item = (Place, &'a Pod)> + Clone,
    ) -> bool {
        if self.namespaces.get(name) == labels {
            return false;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.to_owned(), labels.clone())),
            None => drop(self.namespaces.remove(name)),
        }
        self.sets.recount(&self.namespaces, pods);
        true
    }

    /// A pod comes to a node.
    pub fn add<'a>(
        &mut self,
        place: Place,
        pod: &Pod,
        nodes: impl Iterator<Item = (Place, &'a Labels)> + Clone,
        pods: impl Iterator<Item = (Place, &'a Pod)> + Clone,
    ) {
        let constraints = &pod.constraints;
        for term in &constraints.pod_anti_affinity {
            let said = self.said(term, nodes.clone(), pods.clone());
            *said.shun.entry(place).or_default() += 1;
        }
        for (term, weight) in draws(constraints) {
            let said = self.said(term, nodes.clone(), pods.clone());
            let (sum, terms) = said.draw.entry(place).or_default();
            *sum += weight;
            *terms += 1;
        }
        self.sets.add(place, pod, &self.namespaces);
    }

    /// A pod goes from a node to which it came as it is.
    pub fn remove(&mut self, place: Place, pod: &Pod) {
        self.sets.remove(place, pod, &self.namespaces);
        for term in &pod.constraints.pod_anti_affinity {
            self.unsay(term, |said| {
                let Some(count) = said.shun.get_mut(&place) else { return };
                *count -= 1;
                if *count == 0 {
                    said.shun.remove(&place);
                }
            });
        }
        for (term, weight) in draws(&pod.constraints) {
            self.unsay(term, |said| {
                let Some((sum, terms)) = said.draw.get_mut(&place) else { return };
                *sum -= weight;
                *terms -= 1;
                if *terms == 0 {
                    said.draw.remove(&place);
                }
            });
        }
    }

    /// A pod is meant for some node: what it shuns matters from now on.
    pub fn announce<'a>(
        &mut self,
        pod: &Pod,
        nodes: impl Iterator<Item = (Place, &'a Labels)> + Clone,
        pods: impl Iterator<Item = (Place, &'a Pod)> + Clone,
    ) {
        for term in &pod.constraints.pod_anti_affinity {
            self.said(term, nodes.clone(), pods.clone()).announced += 1;
        }
    }

    /// A pod that was announced comes, or does not come after all.
    pub fn withdraw(&mut self, pod: &Pod) {
        for term in &pod.constraints.pod_anti_affinity {
            self.unsay(term, |said| said.announced -= 1);
        }
    }

    /// Makes sure that everything is counted that `filters` and scores ask about a pod.
    /// `defaults`: what [`Index::spread_scores`] gets.
    pub fn prepare<'a>(
        &mut self,
        pod: &Pod,
        defaults: Option<&[Selector]>,
        nodes: impl Iterator<Item = (Place, &'a Labels)> + Clone,
        pods: impl Iterator<Item = (Place, &'a Pod)> + Clone,
    ) {
        let constraints = &pod.constraints;
        self.sets.trim();
        let mut keys: Vec<&str> = Vec::new();
        let mut asked: Vec<Vec<PodSet>> = Vec::new();
        if !constraints.pod_affinity.is_empty() {
            asked.push(company(&constraints.pod_affinity));
        }
        keys.extend(constraints.pod_affinity.iter().map(|term| term.topology_key.as_str()));
        let preferred = constraints.preferred_pods.iter().map(|preferred| &preferred.term);
        for term in constraints.pod_anti_affinity.iter().chain(preferred) {
            keys.push(&term.topology_key);
            asked.push(vec![term.pods.clone()]);
        }
        for spread in &constraints.spread {
            keys.push(&spread.topology_key);
            let counted = counted(spread.selector.as_ref(), &pod.namespace);
            asked.extend(counted.map(|set| vec![set]));
        }
        if let Some(defaults) = defaults {
            keys.extend([HOSTNAME, ZONE]);
            asked.push(Self::default_set(pod, defaults));
        }
        for key in keys {
            self.domains.learn(key, nodes.clone());
        }
        for all_of in asked {
            self.sets.learn(&all_of, &self.namespaces, pods.clone());
        }
    }

    /// The sets that pods on the nodes shun and that a pod belongs to, in order: pods with equal
    /// constraints fare alike if these are equal too.
    #[must_use]
    pub fn shunned_sets(&self, pod: &Pod) -> Vec<u64> {
        if self.said.is_empty() {
            return Vec::new();
        }
        let mut sets: Vec<SetId> = self
            .sets
            .of(pod, &self.namespaces)
            .filter(|set| {
                let mut said = self.said.range((*set, 0)..=(*set, KeyId::MAX));
                said.any(|(_, said)| said.announced > 0 || !said.shun.is_empty())
            })
            .collect();
        sets.sort_unstable();
        sets
    }

    /// Whether a pod belongs to a set.
    #[must_use]
    pub fn selects(&self, set: &PodSet, pod: &Pod) -> bool {
        set.has(&pod.namespace, &pod.labels, &self.namespaces)
    }

    /// What is said of the sets that a pod belongs to.
    pub(super) fn said_of<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = (KeyId, &'a Said)> {
        let any = (!self.said.is_empty()).then(|| self.sets.of(pod, &self.namespaces));
        any.into_iter().flatten().flat_map(|set| {
            self.said.range((set, 0)..=(set, KeyId::MAX)).map(|((_, key), said)| (*key, said))
        })
    }

    /// The pods of a pod's namespace that all of the default selectors select.
    pub(super) fn default_set(pod: &Pod, defaults: &[Selector]) -> Vec<PodSet> {
        let of = |selector: &Selector| in_namespace(selector.clone(), &pod.namespace);
        let mut all_of: Vec<PodSet> = defaults.iter().map(of).collect();
        all_of.sort();
        all_of.dedup();
        all_of
    }

    fn said<'a>(
        &mut self,
        term: &PodTerm,
        nodes: impl Iterator<Item = (Place, &'a Labels)>,
        pods: impl Iterator<Item = (Place, &'a Pod)>,
    ) -> &mut Said {
        let key = self.domains.learn(&term.topology_key, nodes);
        let set = self.sets.learn(from_ref(&term.pods), &self.namespaces, pods);
        self.said.entry((set, key)).or_insert_with(|| {
            self.sets.pin(set);
            Said::default()
        })
    }

    fn unsay(&mut self, term: &PodTerm, change: impl FnOnce(&mut Said)) {
        let Some(key) = self.domains.key(&term.topology_key) else { return };
        let Some(set) = self.sets.id(from_ref(&term.pods)) else { return };
        let Some(said) = self.said.get_mut(&(set, key)) else { return };
        change(said);
        if said.shun.is_empty() && said.draw.is_empty() && said.announced == 0 {
            self.said.remove(&(set, key));
            self.sets.unpin(set);
        }
    }
}

/// The terms by which a pod that is there draws others or keeps them away, with their weights.
fn draws(constraints: &Constraints) -> impl Iterator<Item = (&PodTerm, i64)> {
    let required = constraints.pod_affinity.iter().map(|term| (term, REQUIRED_WEIGHT));
    let preferred = constraints.preferred_pods.iter();
    required.chain(preferred.map(|preferred| (&preferred.term, i64::from(preferred.weight))))
}
