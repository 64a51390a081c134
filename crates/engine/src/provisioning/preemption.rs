//! Which pods the scheduler is about to place by preemption.

use std::sync::Arc;

use super::class::Class;
use crate::pod::Pod;
use crate::predicates;
use crate::predicates::topology::{Eligible, Filters, Index};
use crate::residents::{Residents, copies};
use crate::resources::Resources;
use crate::snapshot::{Snapshot, StateNode};

/// How many pods of each class fit on nodes that are there once pods of lower priority give way.
/// Classes come by priority; room that one may take is not counted for the next.
pub(crate) fn served(
    classes: &[Class],
    snapshot: &Snapshot,
    residents: &Residents<'_>,
) -> Vec<u32> {
    if classes.is_empty() {
        return Vec::new();
    }
    let nodes = snapshot
        .nodes
        .iter()
        .filter(|state| state.has_node && !state.deleting && !state.node.unschedulable);
    let mut taken: Vec<(&StateNode, Resources)> =
        nodes.map(|state| (state, Resources::default())).collect();
    let mut company = Company::of(classes, snapshot, residents);
    let serve = |class: &Class| {
        let mut left = class.count();
        let mut filters = company.as_mut().and_then(|company| company.filters(&class.sample));
        for (place, (state, taken)) in taken.iter_mut().enumerate() {
            let mut fit = yielding(&class.sample, state, residents, taken).min(left);
            if let (Some(company), Some(filters)) = (&company, &mut filters) {
                fit = company.bears(&class.sample, place, filters, fit);
            }
            taken.add(&class.sample.requests.times(fit));
            left -= fit;
            if left == 0 {
                break;
            }
        }
        class.count() - left
    };
    classes.iter().map(serve).collect()
}

/// The pods that are there, where somebody minds them.
struct Company<'a> {
    index: Index,
    nodes: Vec<&'a StateNode>,
    pods: Vec<(usize, &'a Arc<Pod>)>,
}

impl<'a> Company<'a> {
    /// `None` if neither the classes nor the pods on nodes mind each other.
    fn of(classes: &[Class], snapshot: &'a Snapshot, residents: &'a Residents<'a>) -> Option<Self> {
        let shuns = |pod: &Pod| !pod.constraints.pod_anti_affinity.is_empty();
        let minds = |class: &Class| class.terms.about().next().is_some();
        if !classes.iter().any(minds) && !residents.all().any(shuns) {
            return None;
        }
        // Those that take pods come first: their numbers are those of `served`.
        let takes = |state: &StateNode| !state.deleting && !state.node.unschedulable;
        let nodes = || snapshot.nodes.iter().filter(|state| state.has_node);
        let others = nodes().filter(|state| !takes(state));
        let nodes: Vec<&StateNode> = nodes().filter(|state| takes(state)).chain(others).collect();
        let mut company = Self { index: Index::default(), nodes, pods: Vec::new() };
        for (place, state) in company.nodes.iter().enumerate() {
            company.index.set_node(place, Some(&state.node.labels));
        }
        for (name, labels) in &snapshot.namespaces {
            company.index.set_namespace(name, Some(labels), std::iter::empty());
        }
        let labels: Vec<_> = company.nodes.iter().map(|state| &state.node.labels).collect();
        let labels = labels.iter().copied().enumerate();
        for (place, state) in company.nodes.iter().enumerate() {
            for pod in residents.bound(state).iter().chain(residents.nominated(state)) {
                let there = company.pods.iter().map(|(place, pod)| (*place, &***pod));
                company.index.add(place, pod, labels.clone(), there);
                company.pods.push((place, pod));
            }
        }
        Some(company)
    }

    /// The pod's constraints on others, and those of others on it; `None` if there are none.
    fn filters(&mut self, pod: &Pod) -> Option<Filters> {
        let labels = self.nodes.iter().map(|state| &state.node.labels).enumerate();
        let there = self.pods.iter().map(|(place, pod)| (*place, &***pod));
        self.index.prepare(pod, None, labels, there);
        let eligible = |place: usize| Eligible::of(&pod.constraints, &self.nodes[place].node);
        Some(self.index.filters(pod, eligible)).filter(|filters| !filters.is_free())
    }

    /// How many of `most` pods like `pod` may be on a node once those of lower priority there have
    /// given way. Counts them in.
    fn bears(&self, pod: &Pod, place: usize, filters: &mut Filters, most: u32) -> u32 {
        let mut emptied = filters.clone();
        let here = self.pods.iter().filter(|(at, _)| *at == place).map(|(_, pod)| pod);
        for other in here.filter(|other| other.priority < pod.priority) {
            emptied.remove(&self.index, pod, other, place);
        }
        let mut count = 0;
        while count < most && emptied.check(&self.index, place).is_none() {
            emptied.add(&self.index, pod, pod, place);
            filters.add(&self.index, pod, pod, place);
            count += 1;
        }
        count
    }
}

/// How many pods like `pod` fit beside those that need not give way to it; 0 if none would.
fn yielding(pod: &Pod, state: &StateNode, residents: &Residents<'_>, taken: &Resources) -> u32 {
    let bound = residents.bound(state);
    let node = &state.node;
    if !bound.iter().any(|other| other.priority < pod.priority)
        || predicates::place(&pod.constraints, Some(&node.name), &node.labels, &node.taints)
            .is_some()
    {
        return 0;
    }
    let mut free = node.allocatable.clone();
    free.subtract(taken);
    let stay = |other: &Pod| other.priority >= pod.priority;
    let staying = bound.iter().chain(residents.nominated(state)).filter(|other| stay(other));
    for other in staying {
        free.subtract(&other.requests);
        if predicates::ports_clash(&pod.constraints.host_ports, &other.constraints.host_ports) {
            return 0;
        }
    }
    copies(&free, &pod.requests)
}
