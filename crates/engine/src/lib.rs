//! The decisions of Aerostat, as pure functions of a snapshot and a time.
//!
//! ```text
//! Snapshot ──plan(&snapshot, now)──> (Plan, Report)
//!    │                                  │      └── what was weighed: rendered as events, logs, pages
//!    └ pods, nodes, pools               └── what to do: launches, nominations, terminations
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`resources`] | amounts of cpu, memory and the rest |
//! | [`pod`], [`node`] | pods and nodes as the predicates see them, read from Kubernetes objects |
//! | [`predicates`] | does this pod fit there; shared with the embedded scheduler |
//! | [`instance`] | instance types and offerings |
//! | [`snapshot`] | everything that a decision may look at |
//! | [`storage`] | persistent volumes, and what a pod's claims demand of its node |
//! | `volumes` | the claims of the pods that a plan is about, looked up |
//! | [`plan`](mod@plan) | the decision: what to do |
//! | [`report`] | why |
//! | [`check`](mod@check) | is a plan right: written apart from the planner |
//! | [`provisioning`] | capacity for pods that wait: what is there, then new claims for the least money |
//! | [`disruption`] | machines that go: empty, outdated, or dearer than they have to be |
//! | `peers` | what others would decide, to compare with |
//! | [`budgets`], [`schedule`] | how many nodes may be disrupted, and when |
//! | `bound` | how little any plan could cost |
//! | `limits` | what pools may still buy |
//! | `daemons` | what DaemonSets take of each node |
//! | `fingerprint` | equal things found by a short hash |
//! | `residents` | which pods are on which node |
//! | `twins` | what shares a name and is left out |
//! | [`cost`] | prices as integers, the fee |
//!
//! No clock, randomness, I/O or hash order in here.

mod bound;
pub mod budgets;
pub mod check;
pub mod cost;
mod daemons;
pub mod disruption;
mod fingerprint;
pub mod instance;
mod limits;
pub mod node;
pub mod overlay;
mod peers;
pub mod plan;
pub mod pod;
pub mod predicates;
pub mod provisioning;
pub mod report;
mod residents;
pub mod resources;
pub mod schedule;
pub mod snapshot;
pub mod storage;
mod twins;
mod volumes;

pub use plan::plan;
