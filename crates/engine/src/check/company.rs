//! Whether pods bear the pods that they share a machine, a zone or another domain with: required
//! affinity and anti-affinity, and required spread.
//!
//! The plan's outcome is judged: there must be an order in which its pods can be bound one after
//! the other. A machine that may still become one of several things counts in every domain that
//! it may be in where it could do harm, and in none where it would help.
//!
//! Sources: kubernetes `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`,
//! `podtopologyspread/{common,filtering}.go`.

mod affinity;
mod anti_affinity;
mod spread;

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels as known;

use super::classes::Classes;
use super::labels::{belongs, selects};
use super::machines::Machine;
use super::room::Occupants;
use super::violation::Violation;
use crate::pod::{Expression, Pod, PodSet, Selector};
use crate::snapshot::Snapshot;

/// Pods of one class on one machine.
#[derive(Clone, Copy)]
struct Party {
    machine: usize,
    count: u64,
    /// Whether the plan puts them there.
    is_new: bool,
    /// Whether they, or their machine, are on their way out.
    is_leaving: bool,
}

/// A value of a topology key; host names are told apart by machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Domain<'a> {
    Value(&'a str),
    Machine(usize),
}

/// The domains that a machine may be in for one key.
#[derive(Default)]
struct Domains<'a> {
    all: Vec<Domain<'a>>,
    /// Whether it may lack the label.
    may_lack: bool,
}

impl<'a> Domains<'a> {
    /// The domain, if there is no doubt.
    fn certain(&self) -> Option<Domain<'a>> {
        match self.all.as_slice() {
            [only] if !self.may_lack => Some(*only),
            _ => None,
        }
    }
}

/// All pods, by class and machine.
struct Company<'a> {
    snapshot: &'a Snapshot,
    machines: &'a [Machine<'a>],
    samples: Vec<&'a Pod>,
    /// By class.
    parties: Vec<Vec<Party>>,
    /// Classes by a label of their pods.
    by_label: BTreeMap<(&'a str, &'a str), Vec<usize>>,
    /// By topology key: the domains of every machine.
    domains: BTreeMap<&'a str, Vec<Domains<'a>>>,
}

/// Checks all pods that the plan places against each other and against those that are there.
pub(super) fn check_company<'a>(
    snapshot: &'a Snapshot,
    machines: &'a [Machine<'a>],
    classes: Classes<'a>,
    occupants: &Occupants<'a>,
    violations: &mut Vec<Violation>,
) {
    let minds = |pod: &Pod| {
        let c = &pod.constraints;
        !(c.pod_affinity.is_empty() && c.pod_anti_affinity.is_empty() && c.spread.is_empty())
    };
    let joining = machines.iter().flat_map(|machine| machine.joining.keys());
    let joining: BTreeSet<usize> = joining.copied().collect();
    let shuns = |pod: &&std::sync::Arc<Pod>| {
        pod.node.is_some() && !pod.constraints.pod_anti_affinity.is_empty()
    };
    if joining.is_empty()
        || !joining.iter().any(|class| minds(classes.sample(*class)))
            && !snapshot.pods.iter().any(|pod| shuns(&pod))
    {
        return;
    }
    let company = Company::gather(snapshot, machines, classes, occupants);
    company.check_anti_affinity(violations);
    company.check_affinity(violations);
    company.check_spread(violations);
}

impl<'a> Company<'a> {
    fn gather(
        snapshot: &'a Snapshot,
        machines: &'a [Machine<'a>],
        mut classes: Classes<'a>,
        occupants: &Occupants<'a>,
    ) -> Self {
        let mut there: BTreeMap<(usize, usize, bool), u64> = BTreeMap::new();
        for (at, machine) in machines.iter().enumerate() {
            let is_leaving = machine.state().is_some_and(|state| state.deleting);
            for pod in occupants.bound(machine).iter().chain(occupants.nominated(machine)) {
                let key = (classes.class(pod), at, is_leaving || pod.deleting);
                *there.entry(key).or_default() += 1;
            }
        }
        let mut parties = vec![Vec::new(); classes.samples().len()];
        for ((class, machine, is_leaving), count) in there {
            parties[class].push(Party { machine, count, is_new: false, is_leaving });
        }
        for (machine, joined) in machines.iter().enumerate() {
            for (class, count) in &joined.joining {
                let count = u64::from(*count);
                parties[*class].push(Party { machine, count, is_new: true, is_leaving: false });
            }
        }
        let samples = classes.samples().to_vec();
        let mut by_label: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        let mut keys: BTreeSet<&str> = BTreeSet::new();
        for (class, pod) in samples.iter().enumerate() {
            for (name, value) in &pod.labels {
                by_label.entry((name, value)).or_default().push(class);
            }
            let c = &pod.constraints;
            let terms = c.pod_affinity.iter().chain(&c.pod_anti_affinity);
            keys.extend(terms.map(|term| term.topology_key.as_str()));
            keys.extend(c.spread.iter().map(|spread| spread.topology_key.as_str()));
        }
        let domains = keys.into_iter().map(|key| (key, domains(machines, key))).collect();
        Self { snapshot, machines, samples, parties, by_label, domains }
    }

    /// The classes whose pods a set holds.
    fn members(&self, set: &PodSet) -> Vec<usize> {
        let Some(selector) = &set.selector else { return Vec::new() };
        self.selected(selector, &|pod| belongs(pod, set, &self.snapshot.namespaces))
    }

    /// The classes of a namespace that a selector selects.
    fn spread_members(&self, namespace: &str, selector: Option<&Selector>) -> Vec<usize> {
        let Some(selector) = selector else { return Vec::new() };
        self.selected(selector, &|pod| pod.namespace == namespace && selects(selector, &pod.labels))
    }

    /// Those of all classes that `is_one` says yes to; looks only at those that a plain label of
    /// the selector leaves.
    fn selected(&self, selector: &Selector, is_one: &dyn Fn(&Pod) -> bool) -> Vec<usize> {
        let plain = |e: &&Expression| e.operator == "In" && e.values.len() == 1;
        match selector.0.iter().find(plain) {
            Some(e) => {
                let near = self.by_label.get(&(e.key.as_str(), e.values[0].as_str()));
                let near = near.into_iter().flatten().copied();
                near.filter(|class| is_one(self.samples[*class])).collect()
            }
            None => (0..self.samples.len()).filter(|c| is_one(self.samples[*c])).collect(),
        }
    }

    fn domains(&self, key: &str, machine: usize) -> &Domains<'a> {
        &self.domains[key][machine]
    }

    /// Whether pods that are only promised are among those that `is_one` says yes to: where they
    /// will be is not known.
    fn awaits(&self, is_one: &dyn Fn(&Pod) -> bool) -> bool {
        self.snapshot.promised.iter().any(|promise| promise.count > 0 && is_one(&promise.pod))
    }

    /// Whether the plan puts pods of a class anywhere.
    fn joins(&self, class: usize) -> bool {
        self.parties[class].iter().any(|party| party.is_new)
    }
}

/// The domains of every machine for one key.
fn domains<'a>(machines: &[Machine<'a>], key: &str) -> Vec<Domains<'a>> {
    let of = |(at, machine): (usize, &Machine<'a>)| {
        if key == known::HOSTNAME {
            return Domains { all: vec![Domain::Machine(at)], may_lack: false };
        }
        let mut found = Domains::default();
        for candidate in &machine.candidates {
            match candidate.label(key) {
                None => found.may_lack = true,
                Some(value) if found.all.contains(&Domain::Value(value)) => {}
                Some(value) => found.all.push(Domain::Value(value)),
            }
        }
        found
    };
    machines.iter().enumerate().map(of).collect()
}
