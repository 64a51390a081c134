//! Which pods are on which node, or about to be.

use std::sync::Arc;

use crate::fingerprint::{Distinct, fingerprint};
use crate::pod::Pod;
use crate::resources::Resources;
use crate::snapshot::{Snapshot, StateNode};

/// The pods of a snapshot, by node.
#[derive(Default)]
pub(crate) struct Residents<'a> {
    nodes: Distinct<Guests<'a>>,
}

/// The pods of a node.
struct Guests<'a> {
    node: &'a str,
    bound: Vec<&'a Arc<Pod>>,
    nominated: Vec<&'a Arc<Pod>>,
}

impl<'a> Residents<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let mut nodes = Distinct::default();
        for pod in snapshot.pods.iter().filter(|pod| !pod.terminal) {
            if let Some(node) = pod.node.as_deref() {
                guests_of(&mut nodes, node).bound.push(pod);
            } else if let Some(node) = pod.nominated_node.as_deref()
                && !pod.deleting
            {
                guests_of(&mut nodes, node).nominated.push(pod);
            }
        }
        Self { nodes }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Pod> {
        let nodes = self.nodes.list();
        let bound = nodes.iter().flat_map(|guests| &guests.bound);
        let nominated = nodes.iter().flat_map(|guests| &guests.nominated);
        bound.chain(nominated).map(|pod| &***pod)
    }

    /// Pods bound to a node that have not ended.
    pub(crate) fn bound(&self, state: &StateNode) -> &[&'a Arc<Pod>] {
        self.guests(state).map(|guests| guests.bound.as_slice()).unwrap_or_default()
    }

    /// Pods that preemption makes room for on a node.
    pub(crate) fn nominated(&self, state: &StateNode) -> &[&'a Arc<Pod>] {
        self.guests(state).map(|guests| guests.nominated.as_slice()).unwrap_or_default()
    }

    fn guests(&self, state: &StateNode) -> Option<&Guests<'a>> {
        let node = state.has_node.then_some(state.node.name.as_str())?;
        let number = self.nodes.find(fingerprint(&node), |guests| guests.node == node)?;
        Some(self.nodes.get(number))
    }

    /// What is taken of a node. Pods that are nominated for it take the room that pods under
    /// deletion leave, so the larger of the two counts.
    pub(crate) fn used(&self, state: &StateNode) -> Resources {
        let sum = |pods: &mut dyn Iterator<Item = &&Arc<Pod>>| {
            let mut sum = Resources::default();
            pods.for_each(|pod| sum.add(&pod.requests));
            sum
        };
        let bound = self.bound(state);
        let mut used = sum(&mut bound.iter());
        let nominated = self.nominated(state);
        if !nominated.is_empty() {
            used.raise_to(&sum(&mut bound.iter().filter(|pod| !pod.deleting).chain(nominated)));
        }
        used
    }
}

/// The pods of `node`, none at first.
fn guests_of<'g, 'a>(nodes: &'g mut Distinct<Guests<'a>>, node: &'a str) -> &'g mut Guests<'a> {
    let print = fingerprint(&node);
    let known = nodes.find(print, |guests| guests.node == node);
    let number = known.unwrap_or_else(|| {
        nodes.add(print, Guests { node, bound: Vec::new(), nominated: Vec::new() })
    });
    nodes.get_mut(number)
}

/// How many pods that ask for `need` fit in `free`.
pub(crate) fn copies(free: &Resources, need: &Resources) -> u32 {
    let fixed = [
        (free.cpu, need.cpu),
        (free.memory, need.memory),
        (free.storage, need.storage),
        (free.pods, need.pods),
    ];
    let other = need.other.iter().map(|(name, need)| (free.get(name), *need));
    let asked = fixed.into_iter().chain(other).filter(|(_, need)| *need > 0);
    let most = asked.map(|(free, need)| free.max(0) / need).min().unwrap_or(i64::MAX);
    u32::try_from(most).unwrap_or(u32::MAX)
}
