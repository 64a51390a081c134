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
//! | [`plan`] | what was decided |
//! | [`report`] | why |
//!
//! No clock, randomness, I/O or hash order in here.

pub mod instance;
pub mod node;
pub mod plan;
pub mod pod;
pub mod predicates;
pub mod report;
pub mod resources;
pub mod snapshot;
