//! What a simulation tells: `docs/simulate-report.schema.json` is the schema of its JSON.

mod build;
mod html;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

pub use html::html;
pub use table::table;

/// The report of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was simulated.
    pub scenario: Facts,
    /// What it cost.
    pub cost: Cost,
    /// How long pods waited.
    pub wait_seconds: Waits,
    /// Machines.
    pub nodes: Nodes,
    /// Pods.
    pub pods: Pods,
    /// Pods that had to move.
    pub moves: Moves,
    /// Machines that were given back.
    pub disruptions: Disruptions,
    /// What stood in the way.
    pub blockers: Blockers,
    /// What was not simulated, and why.
    pub left_out: Vec<LeftOut>,
    /// Values over time.
    pub series: Series,
}

/// What was simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The scenario's name.
    pub name: String,
    /// When it starts, as RFC 3339.
    pub start: String,
    /// How long it is, in seconds of its time.
    pub seconds: f64,
    /// Whether it was ended early; everything is as of then.
    pub interrupted: bool,
    /// The seed of everything that is left to chance.
    pub seed: u64,
    /// Whose instance types and prices.
    pub region: String,
    /// By whose rules nodes were bought: `aerostat`, `karpenter` or `cluster-autoscaler`.
    pub policy: String,
}

/// USD. Without the fee where nothing else is said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Of all machines.
    pub total_usd: f64,
    /// Auto Mode's fee: 12 % of the on-demand price, whatever was paid for the machine.
    pub fee_usd: f64,
    /// Both.
    pub total_with_fee_usd: f64,
    /// What any machines that the NodePools allow would cost for the pods that ran, at least.
    pub lower_bound_usd: f64,
    /// How far the total is above the bound, 0.02 for 2 %; null if the bound is 0.
    pub gap: Option<f64>,
    /// By NodePool.
    pub by_node_pool: BTreeMap<String, f64>,
    /// By instance type.
    pub by_instance_type: BTreeMap<String, f64>,
    /// By zone.
    pub by_zone: BTreeMap<String, f64>,
    /// By capacity type.
    pub by_capacity_type: BTreeMap<String, f64>,
    /// By the namespace of the pods, by dominant share; `(idle)` while no pod was on a machine.
    pub by_namespace: BTreeMap<String, f64>,
}

/// From a pod's creation until it runs, in seconds. Pods of DaemonSets and of negative priority are
/// not counted: nobody waits for them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// How many pods have begun to run.
    pub count: u64,
    /// How many of them had not to wait for a node.
    pub warm: u64,
    /// The mean; null (as the others) if no pod has run.
    pub mean: Option<f64>,
    /// Half waited at most so long.
    pub p50: Option<f64>,
    /// 90 %.
    pub p90: Option<f64>,
    /// 95 %.
    pub p95: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// All.
    pub max: Option<f64>,
    /// For what; the means add up to the mean.
    pub split: Split,
}

/// What pods waited for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Split {
    /// To be bound, while their node was there.
    pub queue: Part,
    /// For their node to be there and ready.
    pub node: Part,
    /// For the sandbox: the node's network.
    pub network: Part,
    /// For their images.
    pub image: Part,
    /// For init containers and the start.
    pub start: Part,
}

/// One part of the waiting time, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Its mean.
    pub mean: Option<f64>,
    /// 95 % waited at most so long for it.
    pub p95: Option<f64>,
}

/// Machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Most at one time.
    pub peak: u64,
    /// All that were launched.
    pub launched: u64,
    /// Machine hours.
    pub hours: f64,
    /// Which part of their cpu pods asked for, daemons aside; null without machines.
    pub cpu_utilization: Option<f64>,
    /// Which part of their memory.
    pub memory_utilization: Option<f64>,
    /// By what they were bought as: `nodeSeconds × pricePerHour / 3600` is `usd`, and all `usd`
    /// together are the total.
    pub by_offer: Vec<OfferBill>,
}

/// Machines of one NodePool, type, zone and capacity type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferBill {
    /// The NodePool.
    pub node_pool: String,
    /// The instance type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// `on-demand`, `spot` or `reserved`; what is reserved is paid already.
    pub capacity_type: String,
    /// USD per hour of one.
    pub price_per_hour: f64,
    /// USD per hour of the fee on one.
    pub fee_per_hour: f64,
    /// How many were launched.
    pub launched: u64,
    /// How long they were there, together.
    pub node_seconds: f64,
    /// What they cost, without the fee.
    pub usd: f64,
}

/// Pods, those of DaemonSets aside: `finished + running + pending + failed + leftOut = total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// All of them.
    pub total: u64,
    /// Succeeded, or deleted before the end.
    pub finished: u64,
    /// Of the finished: deleted before they ended by themselves (scaled down, moved, preempted).
    pub removed: u64,
    /// Running at the end.
    pub running: u64,
    /// Not running yet at the end.
    pub pending: u64,
    /// Failed.
    pub failed: u64,
    /// Of the input, but not simulated; see `leftOut`.
    pub left_out: u64,
}

/// Pods that had to leave a node before they ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moves {
    /// Evicted, or deleted with their node.
    pub pods_moved: u64,
    /// Preempted by pods of higher priority.
    pub pods_preempted: u64,
    /// All of them by the reason of their `DisruptionTarget` condition.
    pub by_reason: BTreeMap<String, u64>,
}

/// Machines that were given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruptions {
    /// All.
    pub nodes: u64,
    /// By the reason that their NodeClaim gives; `Deleted` if it gives none.
    pub by_reason: BTreeMap<String, u64>,
}

/// What stood in the way of giving machines back, and of placing pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blockers {
    /// Why machines stayed that were looked at, those that cost most first.
    pub nodes: Vec<Held>,
    /// Why pods had found no place at the end.
    pub pods: Vec<NoPlace>,
}

/// Machines that stayed for one kind of reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// Which kind: `budget`, `pdb`, `notWorth` and so on.
    pub kind: String,
    /// Machine hours.
    pub hours: f64,
    /// What the machines have cost meanwhile, in USD.
    pub usd: f64,
    /// What was said of the first: `CLAIM: WHY`.
    pub example: String,
}

/// Pods without a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoPlace {
    /// Why.
    pub why: String,
    /// How many.
    pub pods: u64,
    /// One of them, `namespace/name`.
    pub example: String,
}

/// Something that was not simulated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// What: a kind, a row, an arrival.
    pub what: String,
    /// Why.
    pub why: String,
    /// How many pods that are; 0 for what is no pod.
    pub pods: u64,
}

/// Means over equal steps of time, the last of which may be cut short.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// Length of a step.
    pub step_seconds: f64,
    /// Machines.
    pub nodes: Vec<f64>,
    /// USD per hour.
    pub usd_per_hour: Vec<f64>,
    /// Its lower bound.
    pub lower_bound_usd_per_hour: Vec<f64>,
    /// Part of the cpu that pods ask for; 0 without machines.
    pub cpu_utilization: Vec<f64>,
    /// Part of the memory.
    pub memory_utilization: Vec<f64>,
    /// Pods that do not run yet.
    pub pending_pods: Vec<f64>,
    /// What 95 % of the pods that began to run in the step had waited at most; null without any.
    pub wait_p95_seconds: Vec<Option<f64>>,
}
