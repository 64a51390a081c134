//! Aerostat's controllers: watches in, decisions from the engine, actions out.
//!
//! ```text
//! watches ─> index ─┬─> snapshot ─> engine::plan ─> provisioner: creates and deletes NodeClaims
//!                   ├─> lifecycle: launch, registration, initialization, termination of claims
//!                   ├─> drain: nodes on their way out
//!                   └─> pools, classes: hash, readiness, counters
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`context`] | what every controller works with |
//! | [`index`] | the cluster as the watches tell it; wakes the controllers that a change concerns |
//! | [`snapshot`] | the index as the engine wants to see it |
//! | `daemons` | what DaemonSets put on a new node |
//! | `market` | what may be launched, NodeOverlays applied |
//! | [`provisioner`] | plans and carries the plan out |
//! | `orders` | what was ordered for pods that still wait |
//! | `refusals` | what the API server does not let us do, to be tried again |
//! | `spared` | machines whose replacement came to nothing |
//! | `marking` | marks machines as disrupted, and says why others stay |
//! | [`journal`] | what was decided about each pod, for whoever asks |
//! | [`standing`] | why a node stays or goes, for whoever asks |
//! | [`lifecycle`] | a NodeClaim from order to end |
//! | [`drain`] | a Node from deletion to end |
//! | [`garbage`] | machines without a claim, claims and nodes without a machine |
//! | [`interruption`] | what the cloud tells of its machines |
//! | [`registration_health`] | whether the machines that a pool orders become nodes |
//! | [`pools`], [`classes`], [`overlays`] | status of NodePools, NodeClasses and NodeOverlays |
//! | [`worklist`] | runs one reconcile per object at a time, with timers and back-off |
//! | [`metrics`] | what happened and what is, as numbers |
//! | [`conditions`], [`recorder`] | status conditions and events, in Karpenter's form |
//!
//! The same code runs against the embedded cluster, in real and virtual time, and against a real
//! one: it knows a `kube::Client`, a clock and a provider, and nothing of what is behind them.

pub mod classes;
pub mod conditions;
pub mod context;
mod daemons;
pub mod drain;
pub mod garbage;
pub mod index;
pub mod interruption;
pub mod journal;
pub mod lifecycle;
mod market;
mod marking;
pub mod metrics;
mod orders;
pub mod overlays;
pub mod pools;
pub mod provisioner;
pub mod recorder;
mod refusals;
pub mod registration_health;
pub mod snapshot;
mod spared;
pub mod standing;
pub mod worklist;

use std::sync::Arc;

use tokio::task::JoinSet;

pub use context::{Context, Decision, Error};

/// Runs all controllers until the returned future is dropped.
///
/// # Panics
///
/// When one of them does.
pub async fn run(context: Arc<Context>) {
    let (wakers, triggers) = index::wakers();
    // Each is a task of its own, so that they share the machine's cores.
    let mut tasks = JoinSet::new();
    let at = context.clone();
    tasks.spawn(async move { index::run(&at, wakers).await });
    let at = context.clone();
    tasks.spawn(async move { pools::run(&at, triggers.pools).await });
    let at = context.clone();
    tasks.spawn(async move { classes::run(&at, triggers.classes).await });
    let at = context.clone();
    tasks.spawn(async move { overlays::run(&at, triggers.overlays).await });
    let at = context.clone();
    tasks.spawn(async move { lifecycle::run(&at, triggers.claims).await });
    let at = context.clone();
    tasks.spawn(async move { drain::run(&at, triggers.nodes).await });
    let at = context.clone();
    tasks.spawn(async move { garbage::run(&at).await });
    let at = context.clone();
    tasks.spawn(async move { interruption::run(&at).await });
    tasks.spawn(async move { provisioner::run(&context).await });
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
