//! The workload controllers: synchronous state machines, each fed by informers.
//!
//! | module | keeps |
//! |---|---|
//! | [`replicaset`] | as many pods as a ReplicaSet asks for |
//! | [`deployment`] | ReplicaSets of a Deployment's templates |
//! | [`daemonset`] | one pod of a DaemonSet on every node that it is for |
//! | [`horizontalpodautoscaler`] | replicas that fit a load |
//! | [`job`] | pods of a Job until enough have succeeded |
//! | [`disruption`] | how many pods of a budget may be evicted |
//! | [`garbage`] | nothing that has lost its owners |
//! | [`namespace`] | nothing in namespaces that are going |
//! | [`service_account`] | an account and the root CA in every namespace |
//! | [`node_lifecycle`] | conditions and taints of nodes |
//! | [`taint_eviction`] | pods off nodes that they do not tolerate |
//! | [`quota`] | how much of a ResourceQuota is used |
//! | [`volumes`] | claims bound to volumes, and volumes that nobody claims |
//! | [`pod_gc`] | no pods that nobody will end |
//!
//! Shared by them: `pods` (pods by controller), `pods_by_node`, `pod_control` (create and delete with
//! events), `queue` (what is due, and when), `victims` (which pods go first), `owner`, `selector`, `template_hash`,
//! `history` (templates as ControllerRevisions).

pub mod daemonset;
pub mod deployment;
pub mod disruption;
#[cfg(test)]
mod fixtures;
pub mod garbage;
mod history;
pub mod horizontalpodautoscaler;
pub mod job;
pub mod namespace;
pub mod node_lifecycle;
mod owner;
mod pod_control;
pub mod pod_gc;
mod pods;
mod pods_by_node;
mod queue;
pub mod quota;
pub mod replicaset;
mod selector;
pub mod service_account;
pub mod taint_eviction;
mod template_hash;
#[cfg(test)]
mod tests;
mod victims;
pub mod volumes;

use tokio::task::JoinSet;

use crate::registry::Cluster;

/// Runs all workload controllers, each as a task of its own; they end with the returned future.
pub async fn run(cluster: Cluster) {
    let mut tasks = JoinSet::new();
    tasks.spawn(service_account::run(cluster.clone()));
    tasks.spawn(namespace::run(cluster.clone()));
    tasks.spawn(deployment::run(cluster.clone()));
    tasks.spawn(replicaset::run(cluster.clone()));
    tasks.spawn(daemonset::run(cluster.clone()));
    tasks.spawn(job::run(cluster.clone()));
    tasks.spawn(horizontalpodautoscaler::run(cluster.clone()));
    tasks.spawn(disruption::run(cluster.clone()));
    tasks.spawn(quota::run(cluster.clone()));
    tasks.spawn(node_lifecycle::run(cluster.clone()));
    tasks.spawn(taint_eviction::run(cluster.clone()));
    tasks.spawn(volumes::run(cluster.clone()));
    tasks.spawn(pod_gc::run(cluster.clone()));
    tasks.spawn(garbage::run(cluster.clone()));
    tasks.spawn(crate::events::run(cluster));
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result
            && let Ok(panic) = error.try_into_panic()
        {
            // A controller that is missing would make the cluster lie.
            std::panic::resume_unwind(panic);
        }
    }
}
