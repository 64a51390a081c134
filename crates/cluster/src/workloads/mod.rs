//! The workload controllers: synchronous state machines, each fed by informers.
//!
//! | module | keeps |
//! |---|---|
//! | [`replicaset`] | as many pods as a ReplicaSet asks for |
//! | [`deployment`] | ReplicaSets of a Deployment's templates |
//! | [`job`] | pods of a Job until enough have succeeded |
//!
//! Shared by them: `pods` (pods by controller), `pod_control` (create and delete with events),
//! `queue` (what is due, and when), `victims` (which pods go first), `owner`, `selector`.

pub mod deployment;
#[cfg(test)]
mod fixtures;
pub mod job;
mod owner;
mod pod_control;
mod pods;
mod queue;
pub mod replicaset;
mod selector;
mod victims;

use crate::registry::Cluster;

/// Runs all workload controllers until the cluster is gone.
pub async fn run(cluster: Cluster) {
    tokio::join!(
        deployment::run(cluster.clone()),
        replicaset::run(cluster.clone()),
        job::run(cluster.clone()),
    );
}
