//! The room that is left on machines that are up: a quick answer to whether pods could move there.
//!
//! It knows labels, taints and amounts. What pods say of other pods, host ports and volumes are for
//! the planner ([`super::rehearsal`]): pods to which they matter are called awkward here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::candidates::{Candidate, Judge, is_up};
use crate::daemons;
use crate::plan::Nomination;
use crate::pod::{Pod, PodTerm};
use crate::predicates;
use crate::residents::{Residents, copies};
use crate::resources::Resources;
use crate::snapshot::{Snapshot, StateNode};

/// The room that is left.
pub(crate) struct Vacancies<'a> {
    machines: Vec<Vacancy<'a>>,
    /// Machines that take pods, by free cpu.
    open: BTreeSet<(i64, usize)>,
    /// What the pods on nodes have against others.
    against: Vec<&'a PodTerm>,
    by_claim: BTreeMap<&'a str, usize>,
}

struct Vacancy<'a> {
    state: &'a StateNode,
    free: Resources,
}

/// Where the pods of a machine would go.
pub(crate) struct Tried<'a> {
    /// Those that found room.
    pub(crate) moves: Vec<Nomination>,
    /// Those that did not.
    pub(crate) left: Vec<&'a Arc<Pod>>,
    /// What was taken, to be given back.
    taken: Vec<(usize, Resources)>,
}

impl<'a> Vacancies<'a> {
    /// The room on all machines that are up, carry something, and that nobody is expected on.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        residents: &Residents<'a>,
        judge: &Judge<'a>,
        expecting: &BTreeSet<String>,
    ) -> Self {
        let mut found = Self {
            machines: Vec::new(),
            open: BTreeSet::new(),
            against: Vec::new(),
            by_claim: BTreeMap::new(),
        };
        let usable = |state: &&StateNode| is_up(state) && !state.node.unschedulable;
        for state in snapshot.nodes.iter().filter(usable) {
            let bound = residents.bound(state);
            let mut free = state.node.allocatable.clone();
            free.subtract(&residents.used(state));
            let missing = daemons::missing(&snapshot.daemons, state, bound);
            missing.iter().for_each(|daemon| free.subtract(&daemon.requests));
            let at = found.machines.len();
            found.by_claim.extend(state.claim.as_deref().map(|claim| (claim, at)));
            if !expecting.contains(&state.node.name) && !judge.is_idle(state) {
                found.open.insert((free.cpu, at));
            }
            found.machines.push(Vacancy { state, free });
        }
        let mut against: BTreeSet<&'a PodTerm> = BTreeSet::new();
        for pod in residents.all() {
            against.extend(&pod.constraints.pod_anti_affinity);
        }
        found.against = against.into_iter().collect();
        found
    }

    /// Whether only the planner can say where the pods of a machine could go.
    pub(crate) fn is_awkward(&self, candidate: &Candidate<'_>) -> bool {
        candidate.pods.iter().any(|pod| {
            let constraints = &pod.constraints;
            let alone = constraints.pod_affinity.is_empty()
                && constraints.pod_anti_affinity.is_empty()
                && constraints.host_ports.is_empty()
                && pod.claims.is_empty()
                && pod.unsupported.is_empty()
                && !constraints.spread.iter().any(|spread| spread.required);
            let shunned = |term: &&PodTerm| {
                term.pods.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
            };
            !alone || self.against.iter().any(shunned)
        })
    }

    /// Moves the pods of a machine to the tightest places of the others.
    pub(crate) fn try_move(&mut self, candidate: &Candidate<'a>) -> Tried<'a> {
        let mut tried = Tried { moves: Vec::new(), left: Vec::new(), taken: Vec::new() };
        let own = self.by_claim.get(candidate.claim).copied();
        for pod in &candidate.pods {
            let Some(at) = self.place(pod, own) else {
                tried.left.push(pod);
                continue;
            };
            tried.taken.push((at, pod.requests.clone()));
            self.take(at, &pod.requests, Resources::subtract);
            let state = self.machines[at].state;
            tried.moves.push(Nomination {
                pod: (pod.namespace.clone(), pod.name.clone()),
                claim: state.claim.clone(),
                node: Some(state.node.name.clone()),
            });
        }
        tried
    }

    /// Gives back the room that a trial took.
    pub(crate) fn undo(&mut self, tried: &Tried<'_>) {
        for (at, requests) in &tried.taken {
            self.take(*at, requests, Resources::add);
        }
    }

    /// Takes no more pods on a machine.
    pub(crate) fn close(&mut self, claim: &str) {
        if let Some(at) = self.by_claim.get(claim) {
            self.open.remove(&(self.machines[*at].free.cpu, *at));
        }
    }

    fn take(&mut self, at: usize, requests: &Resources, how: fn(&mut Resources, &Resources)) {
        let free = &mut self.machines[at].free;
        let was_open = self.open.remove(&(free.cpu, at));
        how(free, requests);
        if was_open {
            self.open.insert((free.cpu, at));
        }
    }

    fn place(&self, pod: &Pod, own: Option<usize>) -> Option<usize> {
        let enough = self.open.range((pod.requests.cpu, 0)..);
        let mut others = enough.map(|(_, at)| *at).filter(|at| Some(*at) != own);
        others.find(|at| {
            let Vacancy { state, free } = &self.machines[*at];
            let node = &state.node;
            copies(free, &pod.requests) > 0
                && predicates::place(&pod.constraints, Some(&node.name), &node.labels, &node.taints)
                    .is_none()
        })
    }
}
