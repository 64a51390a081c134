//! Why it was decided so: typed, so that events, logs and pages are renderings of it.

mod blocker;
mod pool_reason;

use serde::Serialize;

use crate::pod::PodKey;
use crate::resources::Resources;

pub use blocker::Blocker;
pub use pool_reason::{End, PoolReason, Step};

/// What a decision weighed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[must_use = "an unread report helps nobody"]
pub struct Report {
    /// One for each launch, in the plan's order.
    pub launches: Vec<LaunchReport>,
    /// Pods that got nothing, and why.
    pub unplaced: Vec<Unplaced>,
    /// Pods that wait for the scheduler's preemption before they order anything.
    pub waiting: Vec<PodKey>,
    /// Pools that could launch nothing, and why.
    pub pools: Vec<PoolProblem>,
    /// Pods that say something that cannot be read.
    pub misread: Vec<Misread>,
    /// Nodes that were looked at for removal and stay, and why.
    pub kept: Vec<Kept>,
    /// What the snapshot holds and the plan does not heed.
    pub left_out: Vec<LeftOut>,
    /// How near to the least possible money the launches are.
    pub certificate: Certificate,
}

/// How near to the least possible money a plan's launches are: a lower bound on the price of any
/// launches for the same pods, and what proves it.
///
/// The bound is about what is bought now, for the pods that are on new machines, from the pools
/// that they were bought from; which pods use nodes that are there is taken as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Certificate {
    /// USD per hour of all launches, without the fee.
    pub price_per_hour: f64,
    /// USD per hour that any launches for these pods cost at least.
    pub lower_bound_per_hour: f64,
    /// How much more than the bound the launches cost, as a part of the bound; 0 if both are 0.
    pub gap: f64,
    /// Constraints that the bound leaves out, in words: with them it could only be higher.
    pub ignores: Vec<String>,
    /// What pods are worth: together as much as the bound. No machine that is on offer can carry
    /// pods that are worth more than its price. Empty where every way to pack was tried instead.
    pub worth: Vec<Worth>,
}

/// What pods of one kind are worth in a [`Certificate`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worth {
    /// One of the pods.
    pub pod: PodKey,
    /// How many there are.
    pub count: u32,
    /// USD per hour of each.
    pub usd_per_hour: f64,
}

impl Certificate {
    /// Adds launches and what they cost at least.
    pub(crate) fn add(&mut self, price: f64, bound: f64, ignores: &[String]) {
        self.price_per_hour += price;
        self.lower_bound_per_hour += bound.clamp(0.0, price);
        self.gap = match self.lower_bound_per_hour {
            bound if bound > 0.0 => self.price_per_hour / bound - 1.0,
            _ if self.price_per_hour > 0.0 => f64::MAX,
            _ => 0.0,
        };
        self.ignores.extend_from_slice(ignores);
        self.ignores.sort();
        self.ignores.dedup();
    }
}

/// How a launch was chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchReport {
    /// The pool.
    pub pool: String,
    /// The first choice's instance type.
    pub instance_type: String,
    /// Its cheapest zones.
    pub zones: Vec<String>,
    /// Its capacity type.
    pub capacity_type: String,
    /// USD per hour, without the fee.
    pub price: f64,
    /// USD per hour of Auto Mode's fee on it.
    pub fee: f64,
    /// How many pods it carries, promised ones included.
    pub pods: u32,
    /// What they and the daemons ask for.
    pub requests: Resources,
    /// What the machine leaves to pods.
    pub allocatable: Resources,
    /// The next choices in order: type, zone, capacity type and USD per hour.
    pub alternatives: Vec<Alternative>,
    /// How many offerings were weighed, and how many could carry the pods.
    pub weighed: usize,
    /// Of those, how many were feasible.
    pub feasible: usize,
}

/// A choice that came second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Its instance type.
    pub instance_type: String,
    /// Its capacity type.
    pub capacity_type: String,
    /// USD per hour of its cheapest zone.
    pub price: f64,
}

/// A pod that got nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unplaced {
    /// The pod.
    pub pod: PodKey,
    /// Why, in Karpenter's words where it has some: what `Failed to schedule pod, …` says.
    pub message: String,
    /// What eliminated each pool, the closest to having a place first. Empty if there is no pool,
    /// or if the pod cannot be planned for wherever it goes.
    pub reasons: Vec<PoolReason>,
}

/// A pool that can launch nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolProblem {
    /// The pool.
    pub pool: String,
    /// The event's reason: `NoCompatibleInstanceTypes` for example.
    pub reason: String,
    /// The event's message.
    pub message: String,
}

/// Something that a plan does not heed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// What: `node a` for example.
    pub what: String,
    /// Why.
    pub why: String,
}

/// A pod with an annotation that cannot be read, and counts as not set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Misread {
    /// The pod.
    pub pod: PodKey,
    /// What is wrong, and what counts instead.
    pub message: String,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Its claim.
    pub claim: String,
    /// Why.
    pub blocker: Blocker,
    /// USD per hour that would be saved without it, if nothing had to be bought instead.
    pub price: f64,
}
