//! What was ordered for pods that still wait: who orders again and again for pods that something
//! keeps off their machines would order without end.
//!
//! Pods of one owner are one here: those that are evicted come again under other names.

use std::collections::BTreeMap;
use std::time::Duration;

use aerostat_engine::pod::{Pod, PodKey};
use aerostat_engine::snapshot::Hold;
use jiff::{SignedDuration, Timestamp};

use crate::conditions::is_true;
use crate::index::Index;

/// How long to wait once a second machine has come up in vain; twice as long after each other one.
const FIRST: Duration = Duration::from_secs(10);
/// But no longer than this.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// For how long an order is remembered of which no pod waits.
const MEMORY: SignedDuration = SignedDuration::from_mins(15);

/// The last order for each owner, or pod without one, by UID.
#[derive(Debug, Default)]
pub(crate) struct Orders(BTreeMap<String, Order>);

#[derive(Debug)]
struct Order {
    claims: Vec<String>,
    at: Timestamp,
    /// Whether one of its machines has come up.
    up: bool,
    /// Whether a pod has made use of one.
    served: bool,
    /// How many came up in vain before it.
    before: u32,
}

/// Whose pod it is: its owner's UID, or its own.
pub(crate) fn kin(pod: &Pod) -> &str {
    pod.owner.as_ref().map_or(&pod.uid, |owner| &owner.uid)
}

impl Orders {
    /// A machine was ordered for a pod.
    pub(crate) fn note(&mut self, index: &Index, pod: &PodKey, claim: &str, now: Timestamp) {
        let Some(pod) = index.pods.get(pod) else { return };
        let key = kin(pod).to_owned();
        if let Some(order) = self.0.get_mut(&key).filter(|order| order.at == now) {
            if order.claims.last().is_none_or(|last| last != claim) {
                order.claims.push(claim.to_owned());
            }
            return;
        }
        let before = self.0.get(&key).map_or(0, |order| order.in_vain(index, &key));
        let claims = vec![claim.to_owned()];
        self.0.insert(key, Order { claims, at: now, up: false, served: false, before });
    }

    /// For which pods nothing is to be ordered for a while, by their UIDs.
    pub(crate) fn holds(&mut self, index: &Index, now: Timestamp) -> BTreeMap<String, Hold> {
        self.0.retain(|_, order| now.duration_since(order.at) < MEMORY);
        let mut waits = BTreeMap::new();
        for (key, order) in &mut self.0 {
            order.look(index, key);
            let machines = order.in_vain(index, key);
            if let Some(wait) = wait(machines) {
                let until = order.at.checked_add(wait).unwrap_or(Timestamp::MAX);
                waits.insert(key.as_str(), Hold { machines, until });
            }
        }
        if waits.is_empty() {
            return BTreeMap::new();
        }
        let pending = index.pods.values().filter(|pod| pod.node.is_none());
        let held = pending.filter_map(|pod| Some((pod.uid.clone(), *waits.get(kin(pod))?)));
        held.collect()
    }
}

impl Order {
    /// Takes in what has become of its machines.
    fn look(&mut self, index: &Index, key: &str) {
        for claim in &self.claims {
            let Some(claim) = index.claims.get(claim) else { continue };
            let Some(status) = &claim.status else { continue };
            self.up |= is_true(&status.conditions, "Initialized");
            let served = status.node_name.as_ref().and_then(|node| index.served.get(node));
            self.served |= served.is_some_and(|served| served.contains(key));
        }
    }

    /// How many machines have come up that nobody made use of, one after the other.
    fn in_vain(&self, index: &Index, key: &str) -> u32 {
        let in_use = |name: &String| {
            let Some(claim) = index.claims.get(name) else { return false };
            let Some(status) = &claim.status else { return true };
            let node = status.node_name.as_ref();
            let pods = node.and_then(|node| index.pods_by_node.get(node)).into_iter().flatten();
            let mut pods = pods.filter_map(|pod| index.pods.get(pod));
            let is_coming = !is_true(&status.conditions, "Initialized")
                && claim.metadata.deletion_timestamp.is_none();
            is_coming || pods.any(|pod| !pod.deleting && kin(pod) == key)
        };
        if self.served || !self.up || self.claims.iter().any(in_use) {
            // What is on its way may yet serve; what serves makes up for what came before.
            return if self.up { 0 } else { self.before };
        }
        self.before.saturating_add(1)
    }
}

/// How long after an order the next one comes at the earliest, if so many machines came up in vain.
/// The first may just have been taken by others.
fn wait(machines: u32) -> Option<Duration> {
    let doubled = machines.checked_sub(2)?;
    Some(FIRST.saturating_mul(1 << doubled.min(16)).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_the_machines_that_came_up() {
        let seconds = |machines| wait(machines).map(|wait| wait.as_secs());
        assert_eq!((seconds(0), seconds(1)), (None, None), "others may have taken it");
        let waits: Vec<_> = (2..9).map(|machines| seconds(machines).unwrap()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }
}
