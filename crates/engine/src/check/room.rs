//! Whether the pods of a machine fit: labels and taints, resources and host ports, with those that
//! are there and the daemons that will run there.
//!
//! Sources: kubernetes `pkg/scheduler/framework/plugins/{noderesources,nodeports}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classes::Classes;
use super::labels::{node_allowed, repelling};
use super::machines::{Candidate, Machine, Origin};
use super::violation::{Fault, Misfit, Violation};
use crate::pod::{Pod, PodKey};
use crate::resources::Resources;
use crate::snapshot::Snapshot;

/// Amounts by resource, wide enough that no sum of them overflows.
#[derive(Clone, Default)]
struct Sum<'a>(BTreeMap<&'a str, i128>);

type Port<'a> = &'a (String, String, i32);

impl<'a> Sum<'a> {
    fn add(&mut self, amounts: &'a Resources, count: u32) {
        let fixed = [
            ("cpu", amounts.cpu),
            ("memory", amounts.memory),
            ("ephemeral-storage", amounts.storage),
            ("pods", amounts.pods),
        ];
        let other = amounts.other.iter().map(|(name, amount)| (name.as_str(), *amount));
        for (name, amount) in fixed.into_iter().chain(other).filter(|(_, amount)| *amount > 0) {
            *self.0.entry(name).or_default() += i128::from(amount) * i128::from(count);
        }
    }

    fn get(&self, name: &str) -> i128 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// What is on the machines already.
pub(super) struct Occupants<'a> {
    bound: BTreeMap<&'a str, Vec<&'a Pod>>,
    /// Pods that preemption makes room for.
    nominated: BTreeMap<&'a str, Vec<&'a Pod>>,
}

impl<'a> Occupants<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut occupants = Self { bound: BTreeMap::new(), nominated: BTreeMap::new() };
        for pod in snapshot.pods.iter().filter(|pod| !pod.terminal) {
            if let Some(node) = pod.node.as_deref() {
                occupants.bound.entry(node).or_default().push(pod);
            } else if let (Some(node), false) = (pod.nominated_node.as_deref(), pod.deleting) {
                occupants.nominated.entry(node).or_default().push(pod);
            }
        }
        occupants
    }

    /// The pods bound to a machine that have not ended.
    pub(super) fn bound(&self, machine: &Machine<'_>) -> &[&'a Pod] {
        Self::at(&self.bound, machine)
    }

    /// The pods that preemption makes room for on a machine.
    pub(super) fn nominated(&self, machine: &Machine<'_>) -> &[&'a Pod] {
        Self::at(&self.nominated, machine)
    }

    fn at<'o>(map: &'o BTreeMap<&'a str, Vec<&'a Pod>>, machine: &Machine<'_>) -> &'o [&'a Pod] {
        let state = machine.state().filter(|state| state.has_node);
        let pods = state.and_then(|state| map.get(state.node.name.as_str()));
        pods.map_or(&[], Vec::as_slice)
    }
}

/// Checks one machine, whatever it may become.
pub(super) fn check_machine<'a>(
    machine: &Machine<'a>,
    classes: &Classes<'a>,
    occupants: &Occupants<'a>,
    snapshot: &'a Snapshot,
    violations: &mut Vec<Violation>,
) {
    if machine.joining.is_empty() {
        return;
    }
    let mut joining = Sum::default();
    for (class, count) in &machine.joining {
        joining.add(&classes.sample(*class).requests, *count);
    }
    if let Origin::Ordered(_, launch, _) = machine.origin {
        let stated = Resources::from_quantities(&launch.requests);
        let short = joining.0.iter().find(|(name, asked)| i128::from(stated.get(name)) < **asked);
        if let Some((name, _)) = short {
            let fault = Fault::Requests((*name).to_owned());
            violations.push(Violation::BadClaim { machine: machine.title(None), fault });
        }
    }
    misfits(machine, classes, violations);
    for candidate in &machine.candidates {
        let before = violations.len();
        let daemons = daemons(machine, candidate, occupants.bound(machine), &snapshot.daemons);
        resources(machine, candidate, &joining, &daemons, occupants, violations);
        ports(machine, candidate, classes, &daemons, occupants, violations);
        if violations.len() > before {
            // One way to go wrong tells enough.
            return;
        }
    }
}

/// Labels and taints.
fn misfits(machine: &Machine<'_>, classes: &Classes<'_>, violations: &mut Vec<Violation>) {
    for class in machine.joining.keys() {
        let pod = classes.sample(*class);
        let constraints = &pod.constraints;
        let mut report = |misfit: Misfit, candidate: Option<&Candidate<'_>>| {
            let machine = machine.title(candidate);
            violations.push(Violation::Misplaced { pod: key(pod), machine, misfit });
        };
        if let Some(taint) = repelling(constraints, machine.taints()) {
            report(Misfit::Taint(taint.key.clone()), None);
        }
        if constraints.node_selector.is_empty() && constraints.node_affinity.is_none() {
            continue;
        }
        if let Some(not) = machine.candidates.iter().find(|c| !node_allowed(constraints, c)) {
            report(Misfit::NodeAffinity, Some(not));
        }
    }
}

/// The daemons that will run on a machine and do not yet.
fn daemons<'a>(
    machine: &Machine<'a>,
    candidate: &Candidate<'a>,
    bound: &[&'a Pod],
    all: &'a [Arc<Pod>],
) -> Vec<&'a Pod> {
    let is_there = |daemon: &Pod| {
        let uid = |pod: &Pod| pod.owner.as_ref().map(|owner| owner.uid.clone());
        bound.iter().any(|pod| uid(pod) == uid(daemon))
    };
    let runs = |daemon: &&Pod| {
        repelling(&daemon.constraints, machine.taints()).is_none()
            && node_allowed(&daemon.constraints, candidate)
            && !is_there(daemon)
    };
    all.iter().map(|daemon| &**daemon).filter(runs).collect()
}

/// Whether all that the joining pods ask for is there.
fn resources<'a>(
    machine: &Machine<'a>,
    candidate: &Candidate<'a>,
    joining: &Sum<'a>,
    daemons: &[&'a Pod],
    occupants: &Occupants<'a>,
    violations: &mut Vec<Violation>,
) {
    let (bound, nominated) = (occupants.bound(machine), occupants.nominated(machine));
    // Pods that preemption makes room for come when those that are being deleted are gone.
    let now = bound.iter();
    let then = bound.iter().filter(|pod| !pod.deleting).chain(nominated);
    let mut sums = vec![Sum::default(), Sum::default()];
    now.for_each(|pod| sums[0].add(&pod.requests, 1));
    then.for_each(|pod| sums[1].add(&pod.requests, 1));
    for sum in &mut sums {
        daemons.iter().for_each(|daemon| sum.add(&daemon.requests, 1));
        for (name, asked) in &joining.0 {
            let asked = asked + sum.get(name);
            let room = candidate.allocatable.get(name);
            if asked > i128::from(room) {
                let (machine, resource) = (machine.title(Some(candidate)), (*name).to_owned());
                violations.push(Violation::Overfull { machine, resource, asked, room });
                return;
            }
        }
    }
}

/// Whether the joining pods have their host ports to themselves.
fn ports<'a>(
    machine: &Machine<'a>,
    candidate: &Candidate<'a>,
    classes: &Classes<'a>,
    daemons: &[&'a Pod],
    occupants: &Occupants<'a>,
    violations: &mut Vec<Violation>,
) {
    let joining = machine.joining.iter().map(|(class, count)| (classes.sample(*class), *count));
    let wanting: Vec<(&Pod, u32)> =
        joining.filter(|(pod, _)| !pod.constraints.host_ports.is_empty()).collect();
    if wanting.is_empty() {
        return;
    }
    let there = occupants.bound(machine).iter().chain(occupants.nominated(machine)).chain(daemons);
    let mut taken: Vec<Port<'_>> = there.flat_map(|pod| &pod.constraints.host_ports).collect();
    for (pod, count) in wanting {
        // Ports of one pod do not stand against each other.
        for _ in 0..count.min(2) {
            let mut wanted = pod.constraints.host_ports.iter();
            if let Some(port) = wanted.find(|port| taken.iter().any(|other| clash(port, other))) {
                let misfit = Misfit::HostPort(port.2);
                let machine = machine.title(Some(candidate));
                violations.push(Violation::Misplaced { pod: key(pod), machine, misfit });
                return;
            }
            taken.extend(&pod.constraints.host_ports);
        }
    }
}

fn clash(one: Port<'_>, other: Port<'_>) -> bool {
    let all = |ip: &str| ip == "0.0.0.0";
    one.0 == other.0 && one.2 == other.2 && (one.1 == other.1 || all(&one.1) || all(&other.1))
}

pub(super) fn key(pod: &Pod) -> PodKey {
    (pod.namespace.clone(), pod.name.clone())
}
