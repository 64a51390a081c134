//! Limits of pools.

use std::collections::BTreeMap;

use crate::resources::Resources;
use crate::snapshot::{Pool, StateNode};

/// The pseudo-resource that limits the number of nodes.
const NODES: &str = "nodes";

/// What a pool may still buy: cpu in milli-cores, memory and storage in bytes, the rest in units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headroom(BTreeMap<String, i64>);

impl Headroom {
    /// What the limits of `pool` leave beside its machines, claims under way included. Machines
    /// that are being deleted do not count, as in Karpenter.
    pub(crate) fn of(pool: &Pool, nodes: &[StateNode]) -> Self {
        let amount = |(name, quantity): (&String, &aerostat_api::Quantity)| {
            let amount = if name == "cpu" { quantity.milli() } else { quantity.units() };
            (name.clone(), amount)
        };
        let mut headroom = Self(pool.limits.iter().map(amount).collect());
        let mine = |state: &&StateNode| state.pool.as_ref() == Some(&pool.name) && !state.deleting;
        for state in nodes.iter().filter(mine) {
            headroom.take(&state.capacity, 1);
        }
        headroom
    }

    /// Whether there is any limit.
    pub(crate) fn is_limited(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether not even one more node is allowed, however small.
    pub(crate) fn is_out_of_nodes(&self) -> bool {
        self.0.get(NODES).is_some_and(|left| *left <= 0)
    }

    /// Whether one more machine with `capacity` is within the limits.
    pub(crate) fn allows(&self, capacity: &Resources) -> bool {
        self.copies(capacity) > 0
    }

    /// How many machines with `capacity` are within the limits.
    pub(crate) fn copies(&self, capacity: &Resources) -> u32 {
        let of = |(name, left): (&String, &i64)| match amount(capacity, name) {
            0 => i64::MAX,
            each => left.max(&0) / each,
        };
        u32::try_from(self.0.iter().map(of).min().unwrap_or(i64::MAX)).unwrap_or(u32::MAX)
    }

    /// Counts `count` machines with `capacity`.
    pub(crate) fn take(&mut self, capacity: &Resources, count: u32) {
        for (name, left) in &mut self.0 {
            let each = amount(capacity, name);
            *left = left.saturating_sub(each.saturating_mul(i64::from(count)));
        }
    }

    /// Whether a machine that was counted with `counted` may as well become one with `other`.
    pub(crate) fn allows_instead(&self, counted: &Resources, other: &Resources) -> bool {
        let more = |name: &str| amount(other, name) - amount(counted, name);
        self.0.iter().all(|(name, left)| more(name) <= (*left).max(0))
    }

    /// Counts a machine that was counted with `counted` as one with `most` at least.
    pub(crate) fn raise(&mut self, counted: &Resources, most: &Resources) {
        for (name, left) in &mut self.0 {
            *left = left.saturating_sub((amount(most, name) - amount(counted, name)).max(0));
        }
    }
}

fn amount(capacity: &Resources, name: &str) -> i64 {
    if name == NODES { 1 } else { capacity.get(name).max(0) }
}
