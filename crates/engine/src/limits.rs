//! Limits of pools: amounts of resources, numbers of nodes, money.

use std::collections::BTreeMap;

use crate::cost::Price;
use crate::resources::Resources;
use crate::snapshot::{Pool, StateNode};

/// The pseudo-resource that limits the number of nodes.
const NODES: &str = "nodes";

/// What a machine counts with.
#[derive(Clone, Debug)]
pub(crate) struct Machine<'a> {
    /// What it has.
    pub(crate) capacity: &'a Resources,
    /// What it costs.
    pub(crate) price: Price,
}

/// What a pool may still buy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headroom {
    /// Cpu in milli-cores, memory and storage in bytes, the rest in units.
    resources: BTreeMap<String, i64>,
    /// Billionths of a USD per hour.
    money: Option<i64>,
    /// Machines of a reservation.
    reserved: Option<i64>,
}

impl Headroom {
    /// What the limits of `pool` leave beside its machines, claims under way included. Machines
    /// that are being deleted do not count, as in Karpenter.
    pub(crate) fn of(pool: &Pool, nodes: &[StateNode]) -> Self {
        let limit = |(name, quantity): (&String, &aerostat_api::Quantity)| {
            let amount = if name == "cpu" { quantity.milli() } else { quantity.units() };
            (name.clone(), amount)
        };
        let resources = pool.limits.iter().map(limit).collect();
        let mut headroom = Self { resources, money: pool.max_price.map(nano), reserved: None };
        let mine = |state: &&StateNode| state.pool.as_ref() == Some(&pool.name) && !state.deleting;
        for state in nodes.iter().filter(mine) {
            let price = state.price.and_then(Price::from_usd).unwrap_or_default();
            headroom.take(&Machine { capacity: &state.capacity, price }, 1);
        }
        headroom
    }

    /// Limits it to machines of a reservation that takes `count` more; `None` for all offerings.
    pub(crate) fn reserve(&mut self, count: Option<u32>) {
        self.reserved = count.map(i64::from);
    }

    /// Whether there is a limit of money.
    pub(crate) fn counts_money(&self) -> bool {
        self.money.is_some()
    }

    /// Whether not even one more node is allowed, however small.
    pub(crate) fn is_out_of_nodes(&self) -> bool {
        self.resources.get(NODES).is_some_and(|left| *left <= 0)
    }

    /// Whether one more such machine is within the limits.
    pub(crate) fn allows(&self, machine: &Machine<'_>) -> bool {
        self.copies(machine) > 0
    }

    /// How many such machines are within the limits.
    pub(crate) fn copies(&self, machine: &Machine<'_>) -> u32 {
        let of = |(left, each): (i64, i64)| match each {
            0 => i64::MAX,
            each => left.max(0) / each,
        };
        let most = self.against(machine).map(of).min().unwrap_or(i64::MAX);
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// What is left of each limit, and how much of it one such machine takes.
    fn against(&self, machine: &Machine<'_>) -> impl Iterator<Item = (i64, i64)> {
        let resources =
            self.resources.iter().map(|(name, left)| (*left, amount(machine.capacity, name)));
        let money = self.money.map(|left| (left, nano(machine.price)));
        resources.chain(money).chain(self.reserved.map(|left| (left, 1)))
    }

    /// Counts `count` such machines.
    pub(crate) fn take(&mut self, machine: &Machine<'_>, count: u32) {
        let less = |left: &mut i64, each: i64| {
            *left = left.saturating_sub(each.saturating_mul(i64::from(count)));
        };
        for (name, left) in &mut self.resources {
            less(left, amount(machine.capacity, name));
        }
        self.money.iter_mut().for_each(|left| less(left, nano(machine.price)));
        self.reserved.iter_mut().for_each(|left| less(left, 1));
    }

    /// Gives back what one machine was counted with.
    pub(crate) fn give_back(&mut self, machine: &Machine<'_>) {
        for (name, left) in &mut self.resources {
            *left = left.saturating_add(amount(machine.capacity, name));
        }
        let price = nano(machine.price);
        self.money.iter_mut().for_each(|left| *left = left.saturating_add(price));
        self.reserved.iter_mut().for_each(|left| *left = left.saturating_add(1));
    }

    /// Counts `count` more nodes, whatever they have.
    pub(crate) fn take_nodes(&mut self, count: usize) {
        if let Some(left) = self.resources.get_mut(NODES) {
            *left = left.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Whether so many machines that were counted as `counted` may as well become `other`.
    pub(crate) fn allow_instead(
        &self,
        counted: &Machine<'_>,
        other: &Machine<'_>,
        copies: u32,
    ) -> bool {
        let (now, then) = (self.against(counted), self.against(other));
        now.zip(then).all(|((left, counted), (_, other))| {
            (other - counted).saturating_mul(i64::from(copies)) <= left.max(0)
        })
    }

    /// Counts so many machines that were counted as `counted` as `most` at least.
    pub(crate) fn raise(&mut self, counted: &Machine<'_>, most: &Machine<'_>, copies: u32) {
        let less = |left: &mut i64, more: i64| {
            *left = left.saturating_sub(more.max(0).saturating_mul(i64::from(copies)));
        };
        for (name, left) in &mut self.resources {
            less(left, amount(most.capacity, name) - amount(counted.capacity, name));
        }
        let more = nano(most.price).saturating_sub(nano(counted.price));
        self.money.iter_mut().for_each(|left| less(left, more));
    }
}

fn amount(capacity: &Resources, name: &str) -> i64 {
    if name == NODES { 1 } else { capacity.get(name).max(0) }
}

fn nano(price: Price) -> i64 {
    i64::try_from(price.nano()).unwrap_or(i64::MAX)
}
