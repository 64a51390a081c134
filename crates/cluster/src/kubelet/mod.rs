//! The kubelets of all simulated nodes, played by one task.
//!
//! ```text
//! informers (nodes, pods) ─┐                    ┌─> statuses, leases, deletions
//!                          ├─> Kubelets ─> pod ─┤
//! timers ──────────────────┘     ^              ├─> events
//!                                └── new timers ┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | how fast machines are |
//! | `kubelets` | all of them: who is asked when something changes or is due, what is written then |
//! | `node` | a machine: readiness, heartbeats, leases, its status |
//! | `pod` | a pod: sandbox, starts, restarts, termination, as a state machine without I/O |
//! | `container` | a container: state, restarts, back-off |
//! | `status` | a pod's status, phase and conditions as they follow from its state |
//! | `workload`, `command` | how long a container runs and what it exits with |
//! | `kwok` | what is different on nodes that KWOK would play |
//! | `images` | names, sizes, pulls, what a node has |
//! | `admit` | whether a kubelet takes a pod |
//! | `addresses` | pod addresses |
//! | `texts` | event messages |
//! | `timers` | what happens when |
//!
//! Nodes join by the annotation [`MARKER`] and an `InternalIP`; whoever simulates the
//! machine makes the node object once it has booted. So do nodes that are annotated for KWOK; one
//! without an address is given one. Nothing runs: a container is a timer.

mod addresses;
mod admit;
mod command;
mod container;
mod images;
mod kubelets;
mod kwok;
mod node;
mod pod;
pub mod settings;
mod status;
mod texts;
mod timers;
mod workload;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;

use crate::registry::Cluster;

use kubelets::Kubelets;
pub use node::MARKER;
pub use settings::Settings;

/// So many actions are carried out before others get their turn.
const BATCH: usize = 256;

/// Plays the kubelets until the cluster is gone.
pub async fn run(cluster: Cluster, settings: Arc<Settings>) {
    let mut nodes = cluster.informer::<core::Node>();
    let mut pods = cluster.informer::<core::Pod>();
    let mut leases = cluster.informer::<Lease>();
    let clock = cluster.clock();
    let mut kubelets = Kubelets::new(cluster, settings);
    loop {
        let next = kubelets.timers.next();
        let due = async {
            match next {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            change = nodes.next() => match change {
                Some(change) => kubelets.node_changed(change),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => kubelets.pod_changed(change),
                None => return,
            },
            change = leases.next() => match change {
                Some(change) => kubelets.lease_changed(&change),
                None => return,
            },
            () = due => {}
        }
        while let Some(change) = leases.try_next() {
            kubelets.lease_changed(&change);
        }
        // Nodes first: a pod's node is known before the pod is.
        while let Some(change) = nodes.try_next() {
            kubelets.node_changed(change);
        }
        for change in std::iter::from_fn(|| pods.try_next()).take(BATCH) {
            kubelets.pod_changed(change);
        }
        kubelets.run_due(clock.now());
        tokio::task::yield_now().await;
    }
}
