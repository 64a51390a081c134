//! Which pods are on which node, or about to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pod::Pod;
use crate::resources::Resources;
use crate::snapshot::{Snapshot, StateNode};

/// The pods of a snapshot, by node.
pub(crate) struct Residents<'a> {
    bound: BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
    nominated: BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
}

impl<'a> Residents<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let (mut bound, mut nominated) = (BTreeMap::new(), BTreeMap::new());
        for pod in snapshot.pods.iter().filter(|pod| !pod.terminal) {
            let (map, node): (&mut BTreeMap<&str, Vec<_>>, _) = match &pod.node {
                Some(node) => (&mut bound, node),
                None if pod.deleting => continue,
                None => match &pod.nominated_node {
                    Some(node) => (&mut nominated, node),
                    None => continue,
                },
            };
            map.entry(node.as_str()).or_default().push(pod);
        }
        Self { bound, nominated }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Pod> {
        self.bound.values().chain(self.nominated.values()).flatten().map(|pod| &***pod)
    }

    /// Pods bound to a node that have not ended.
    pub(crate) fn bound(&self, state: &StateNode) -> &[&'a Arc<Pod>] {
        let pods = state.has_node.then(|| self.bound.get(state.node.name.as_str())).flatten();
        pods.map(Vec::as_slice).unwrap_or_default()
    }

    /// Pods that preemption makes room for on a node.
    pub(crate) fn nominated(&self, state: &StateNode) -> &[&'a Arc<Pod>] {
        let pods = state.has_node.then(|| self.nominated.get(state.node.name.as_str())).flatten();
        pods.map(Vec::as_slice).unwrap_or_default()
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
