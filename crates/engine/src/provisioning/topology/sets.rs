//! The pod sets that constraints are about, by number, and which pods belong to them.
//!
//! Each distinct term is read once, and each distinct set of labels is matched once with the
//! selectors that could match it, however many pods there are.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::fingerprint::{Distinct, fingerprint};
use crate::pod::{Constraints, Pod, PodSet, PodTerm, Spread};

type Labels = BTreeMap<String, String>;

/// What a pod demands of other pods, its sets by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Topology key of each affinity term, and the one set that they are about: the pods that
    /// match all of them. Source: kubernetes
    /// `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`.
    pub(crate) affinity: Vec<(String, usize)>,
    /// Topology key and set of each anti-affinity term.
    pub(crate) anti: Vec<(String, usize)>,
    /// Topology spread constraints that must hold.
    pub(crate) spread: Vec<SpreadTerm>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpreadTerm {
    pub(crate) key: String,
    pub(crate) set: usize,
    pub(crate) max_skew: u32,
    pub(crate) min_domains: u32,
    pub(crate) honors_affinity: bool,
    pub(crate) honors_taints: bool,
}

impl Terms {
    /// Every topology key and set that they are about.
    pub(crate) fn about(&self) -> impl Iterator<Item = (&str, usize)> {
        let spread = self.spread.iter().map(|spread| (spread.key.as_str(), spread.set));
        self.affinity.iter().chain(&self.anti).map(|(key, set)| (key.as_str(), *set)).chain(spread)
    }
}

/// What a pod says of others, word for word. The namespace matters to spread constraints only:
/// affinity terms name theirs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Said<'a> {
    affinity: &'a [PodTerm],
    anti: &'a [PodTerm],
    spread: &'a [Spread],
    namespace: &'a str,
}

impl<'a> Said<'a> {
    fn by(pod: &'a Pod) -> Self {
        let Constraints { pod_affinity, pod_anti_affinity, spread, .. } = &pod.constraints;
        let namespace = if spread.is_empty() { "" } else { pod.namespace.as_str() };
        Self { affinity: pod_affinity, anti: pod_anti_affinity, spread, namespace }
    }

    fn is_nothing(&self) -> bool {
        self.affinity.is_empty()
            && self.anti.is_empty()
            && !self.spread.iter().any(|spread| spread.required)
    }
}

/// Pod sets by number, and what pods say of them.
pub(crate) struct Sets<'a> {
    /// Pods that belong to all of these.
    list: Vec<Vec<PodSet>>,
    numbers: BTreeMap<Vec<PodSet>, usize>,
    namespaces: &'a BTreeMap<String, Labels>,
    /// Sets that need a label to have one of some values, by that label and value.
    by_label: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// The other sets.
    loose: Vec<usize>,
    /// What pods say; the first says nothing.
    said: Distinct<(Said<'a>, Rc<Terms>)>,
    known: Distinct<(&'a str, &'a Labels, Rc<[usize]>)>,
}

impl<'a> Sets<'a> {
    /// The sets that `pods` speak of, and those that pods on nodes keep off.
    pub(crate) fn of(
        pods: impl Iterator<Item = &'a Pod>,
        residents: impl Iterator<Item = &'a Pod>,
        namespaces: &'a BTreeMap<String, Labels>,
    ) -> Self {
        let mut sets = Self {
            list: Vec::new(),
            numbers: BTreeMap::new(),
            namespaces,
            by_label: BTreeMap::new(),
            loose: Vec::new(),
            said: Distinct::default(),
            known: Distinct::default(),
        };
        for said in pods.map(Said::by).filter(|said| !said.is_nothing()) {
            sets.hear(said);
        }
        // What residents want beside them says nothing to newcomers; what they shun does.
        for pod in residents.filter(|pod| !pod.constraints.pod_anti_affinity.is_empty()) {
            let anti = pod.constraints.pod_anti_affinity.as_slice();
            sets.hear(Said { affinity: &[], anti, spread: &[], namespace: "" });
        }
        sets
    }

    fn hear(&mut self, said: Said<'a>) {
        let print = fingerprint(&said);
        if self.said.find(print, |(known, _)| *known == said).is_none() {
            let terms = Rc::new(self.read(said));
            self.said.add(print, (said, terms));
        }
    }

    fn read(&mut self, said: Said<'a>) -> Terms {
        let mut affinity = Vec::new();
        if !said.affinity.is_empty() {
            let mut company: Vec<PodSet> =
                said.affinity.iter().map(|term| term.pods.clone()).collect();
            company.sort();
            company.dedup();
            let set = self.number(&company);
            affinity.extend(said.affinity.iter().map(|term| (term.topology_key.clone(), set)));
        }
        let of_term = |term: &PodTerm| {
            (term.topology_key.clone(), self.number(std::slice::from_ref(&term.pods)))
        };
        let anti = said.anti.iter().map(of_term).collect();
        let spread = said.spread.iter().filter(|spread| spread.required).map(|spread| {
            let pods = PodSet {
                selector: spread.selector.clone(),
                namespaces: [said.namespace.to_owned()].into(),
                namespace_selector: None,
            };
            SpreadTerm {
                key: spread.topology_key.clone(),
                set: self.number(&[pods]),
                max_skew: spread.max_skew,
                min_domains: spread.min_domains,
                honors_affinity: spread.honors_affinity,
                honors_taints: spread.honors_taints,
            }
        });
        Terms { affinity, anti, spread: spread.collect() }
    }

    /// The number of the pods that belong to all of these.
    fn number(&mut self, all: &[PodSet]) -> usize {
        if let Some(number) = self.numbers.get(all) {
            return *number;
        }
        let number = self.list.len();
        self.list.push(all.to_vec());
        self.numbers.insert(all.to_vec(), number);
        // A set without a selector has no pods.
        if all.iter().all(|set| set.selector.is_some()) {
            let mut expressions = all.iter().flat_map(|set| &set.selector).flat_map(|s| &s.0);
            match expressions.find(|expression| expression.operator == "In") {
                Some(expression) => {
                    let values = self.by_label.entry(expression.key.clone()).or_default();
                    for value in &expression.values {
                        values.entry(value.clone()).or_default().push(number);
                    }
                }
                None => self.loose.push(number),
            }
        }
        number
    }

    /// How many sets there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// What a pod demands of others.
    pub(crate) fn terms(&self, pod: &Pod) -> Rc<Terms> {
        self.saying(pod).map(|number| self.said.get(number).1.clone()).unwrap_or_default()
    }

    /// A number for what a pod demands of others; `None` if it demands nothing.
    pub(crate) fn saying(&self, pod: &Pod) -> Option<usize> {
        let said = Said::by(pod);
        if said.is_nothing() {
            return None;
        }
        self.said.find(fingerprint(&said), |(known, _)| *known == said)
    }

    /// What a pod on a node keeps off.
    pub(crate) fn shunned(&self, pod: &Pod) -> Rc<Terms> {
        let anti = pod.constraints.pod_anti_affinity.as_slice();
        if anti.is_empty() {
            return Rc::default();
        }
        let said = Said { affinity: &[], anti, spread: &[], namespace: "" };
        let known = self.said.find(fingerprint(&said), |(known, _)| *known == said);
        known.map(|number| self.said.get(number).1.clone()).unwrap_or_default()
    }

    /// The sets that a pod belongs to, ascending.
    pub(crate) fn members(&mut self, pod: &'a Pod) -> Rc<[usize]> {
        if self.list.is_empty() {
            return Rc::new([]);
        }
        let key = (pod.namespace.as_str(), &pod.labels);
        let print = fingerprint(&key);
        let same = |known: &(&str, &Labels, Rc<[usize]>)| (known.0, known.1) == key;
        if let Some(number) = self.known.find(print, same) {
            return self.known.get(number).2.clone();
        }
        let hinted = pod.labels.iter().filter_map(|(name, value)| {
            self.by_label.get(name).and_then(|values| values.get(value))
        });
        let candidates = hinted.flatten().chain(&self.loose).copied();
        let has = |set: &PodSet| set.has(&pod.namespace, &pod.labels, self.namespaces);
        let mut members: Vec<usize> =
            candidates.filter(|number| self.list[*number].iter().all(has)).collect();
        members.sort_unstable();
        members.dedup();
        let members: Rc<[usize]> = members.into();
        self.known.add(print, (key.0, key.1, members.clone()));
        members
    }
}
