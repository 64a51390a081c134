//! The machines of a plan as it will be when it is carried out: those that are there, with the
//! pods that join them, and those that are ordered.

use std::collections::BTreeMap;

use aerostat_api::labels as known;
use k8s_openapi::api::core::v1::Taint;

use super::classes::Classes;
use super::labels::holds;
use super::violation::{Misfit, Violation};
use crate::instance::{InstanceType, Offering};
use crate::plan::{Launch, Plan};
use crate::pod::{Pod, PodKey};
use crate::resources::Resources;
use crate::snapshot::{Pool, Snapshot, StateNode};

/// What a machine is, or one thing that it may become.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) labels: &'a BTreeMap<String, String>,
    pub(super) bought: Option<(&'a InstanceType, &'a Offering)>,
    pub(super) allocatable: &'a Resources,
}

/// Where a machine comes from.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// A node, or a claim under way.
    There(&'a StateNode),
    /// A launch of the plan, by number, and its pool if there is one.
    Ordered(usize, &'a Launch, Option<&'a Pool>),
}

/// A machine and the pods that the plan puts on it.
pub(super) struct Machine<'a> {
    pub(super) origin: Origin<'a>,
    /// All that it may be.
    pub(super) candidates: Vec<Candidate<'a>>,
    /// How many pods of each class join it.
    pub(super) joining: BTreeMap<usize, u32>,
    /// Whether it is the same as the machine before it, but for the pods' names.
    pub(super) is_repeated: bool,
}

impl<'a> Candidate<'a> {
    /// The value of a label. What the claim says goes before what the type says.
    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        let own = self.labels.get(key).map(String::as_str);
        let Some((kind, offering)) = self.bought else { return own };
        own.or(match key {
            known::ZONE => Some(&offering.zone),
            known::CAPACITY_TYPE => Some(&offering.capacity_type),
            known::INSTANCE_TYPE => Some(&kind.name),
            known::RESERVATION_ID => offering.reservation.as_ref().map(|r| r.id.as_str()),
            // What a node gets once it is up.
            known::REGISTERED | known::INITIALIZED => Some("true"),
            _ => kind.labels.get(key).map(String::as_str),
        })
    }
}

impl<'a> Machine<'a> {
    /// What people call it; a launch as one of its candidates.
    pub(super) fn title(&self, candidate: Option<&Candidate<'_>>) -> String {
        match self.origin {
            Origin::There(state) if state.has_node => format!("node {}", state.node.name),
            Origin::There(state) => format!("claim {}", state.node.name),
            Origin::Ordered(number, launch, _) => {
                let as_what = candidate.and_then(|candidate| candidate.bought);
                let as_what = as_what.map(|(kind, offering)| {
                    format!(" as {} {} {}", kind.name, offering.zone, offering.capacity_type)
                });
                format!("launch {number} of pool {}{}", launch.pool, as_what.unwrap_or_default())
            }
        }
    }

    /// Its taints.
    pub(super) fn taints(&self) -> &'a [Taint] {
        match self.origin {
            Origin::There(state) => &state.node.taints,
            Origin::Ordered(_, launch, _) => &launch.taints,
        }
    }

    /// The node or claim behind it, if it is there.
    pub(super) fn state(&self) -> Option<&'a StateNode> {
        match self.origin {
            Origin::There(state) => Some(state),
            Origin::Ordered(..) => None,
        }
    }
}

/// All machines of the plan's outcome; pods that are sent to none are reported.
pub(super) fn machines<'a>(
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    classes: &Classes<'a>,
    violations: &mut Vec<Violation>,
) -> Vec<Machine<'a>> {
    let mut machines: Vec<Machine<'a>> = snapshot.nodes.iter().map(there).collect();
    let mut by_claim: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, state) in snapshot.nodes.iter().enumerate() {
        state.claim.as_deref().into_iter().for_each(|claim| {
            by_claim.insert(claim, at);
        });
        if state.has_node {
            by_node.insert(&state.node.name, at);
        }
    }
    for nomination in plan.nominations.iter().chain(&plan.moves) {
        let node = nomination.node.as_deref();
        let claim = nomination.claim.as_deref();
        let found = match (node, claim) {
            (Some(node), _) => by_node.get(node),
            (None, Some(claim)) => by_claim.get(claim),
            (None, None) => None,
        };
        let Some(at) = found else {
            let machine = node.or(claim).unwrap_or_default().to_owned();
            violations.push(Violation::NoSuchMachine { pod: nomination.pod.clone(), machine });
            continue;
        };
        if let Some(class) = classes.of(&nomination.pod) {
            *machines[*at].joining.entry(class).or_default() += 1;
            if !takes_pods(&machines[*at], plan, classes.sample(class)) {
                violations.push(Violation::Misplaced {
                    pod: nomination.pod.clone(),
                    machine: machines[*at].title(None),
                    misfit: Misfit::Leaving,
                });
            }
        }
    }
    for (number, launch) in plan.launches.iter().enumerate() {
        machines.push(ordered(number, launch, snapshot, classes, machines.last()));
    }
    machines
}

fn there(state: &StateNode) -> Machine<'_> {
    let candidate = Candidate {
        name: state.has_node.then_some(state.node.name.as_str()),
        labels: &state.node.labels,
        bought: None,
        allocatable: &state.node.allocatable,
    };
    Machine {
        origin: Origin::There(state),
        candidates: vec![candidate],
        joining: BTreeMap::new(),
        is_repeated: false,
    }
}

fn takes_pods(machine: &Machine<'_>, plan: &Plan, pod: &Pod) -> bool {
    let Some(state) = machine.state() else { return true };
    let replaced = plan.commands.iter().flat_map(|command| &command.candidates);
    let mut given_up = plan.terminations.iter().chain(replaced);
    let mut given_up = || given_up.any(|t| Some(&t.claim) == state.claim.as_ref());
    !state.deleting
        && (!state.node.unschedulable || super::labels::bears_cordon(&pod.constraints))
        && !given_up()
}

fn ordered<'a>(
    number: usize,
    launch: &'a Launch,
    snapshot: &'a Snapshot,
    classes: &Classes<'_>,
    before: Option<&Machine<'a>>,
) -> Machine<'a> {
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool);
    let mut joining = BTreeMap::new();
    for class in launch.pods.iter().filter_map(|pod: &PodKey| classes.of(pod)) {
        *joining.entry(class).or_default() += 1;
    }
    let origin = Origin::Ordered(number, launch, pool);
    let like = before.filter(|before| match before.origin {
        Origin::Ordered(_, other, _) => {
            other.pool == launch.pool
                && other.requirements == launch.requirements
                && other.labels == launch.labels
        }
        Origin::There(_) => false,
    });
    let candidates = match (like, pool) {
        (Some(before), _) => before.candidates.clone(),
        (None, Some(pool)) => candidates(launch, pool),
        (None, None) => Vec::new(),
    };
    let is_repeated = like.is_some_and(|before| {
        before.joining == joining
            && matches!(before.origin, Origin::Ordered(_, other, _)
                if other.taints == launch.taints && other.requests == launch.requests)
    });
    Machine { origin, candidates, joining, is_repeated }
}

/// Everything that is to be had and that the claim's requirements allow.
fn candidates<'a>(launch: &'a Launch, pool: &'a Pool) -> Vec<Candidate<'a>> {
    let by_offering =
        |key: &str| matches!(key, known::ZONE | known::CAPACITY_TYPE | known::RESERVATION_ID);
    let (of_offering, of_kind): (Vec<_>, Vec<_>) =
        launch.requirements.iter().partition(|requirement| by_offering(&requirement.key));
    let mut found = Vec::new();
    for kind in pool.types.iter() {
        for offering in &kind.offerings {
            let candidate = Candidate {
                name: None,
                labels: &launch.labels,
                bought: Some((kind, offering)),
                allocatable: &kind.allocatable,
            };
            let allowed = |r: &&&aerostat_api::nodepool::NodeSelectorRequirement| {
                holds(&r.operator, &r.values, candidate.label(&r.key), true)
            };
            if !of_kind.iter().all(|r| allowed(&r)) {
                break;
            }
            if is_to_be_had(offering) && of_offering.iter().all(|r| allowed(&r)) {
                found.push(candidate);
            }
        }
    }
    found
}

/// Whether an offering is available at a price that is one.
fn is_to_be_had(offering: &Offering) -> bool {
    offering.available
        && offering.price >= 0.0
        && offering.price < 1e9
        && offering.reservation.as_ref().is_none_or(|reservation| reservation.available > 0)
}
