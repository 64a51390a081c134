//! Scales what HorizontalPodAutoscalers point at by the load that is simulated for it.
//!
//! Behaviour follows Kubernetes `pkg/controller/podautoscaler/horizontal.go`, for metrics of cpu and
//! memory.
//!
//! - `usage`: what pods use.
//! - `replicas`: how many of them a metric asks for.
//! - `behavior`: how fast and how far it may go.
//! - `look`: one look at one autoscaler.

mod behavior;
mod look;
mod replicas;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::owner::{key, uid};
use super::queue::Queue;
use crate::informer::Change;
use crate::registry::Cluster;
use crate::store::Key;
use behavior::Past;

/// How often each is looked at. Source: `--horizontal-pod-autoscaler-sync-period`.
const PERIOD: SignedDuration = SignedDuration::from_secs(15);

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut autoscalers = cluster.informer::<HorizontalPodAutoscaler>();
    let mut known: BTreeMap<Key, (String, Past)> = BTreeMap::new();
    let mut queue = Queue::default();
    loop {
        tokio::select! {
            biased;
            change = autoscalers.next() => match change {
                Some(Change::Applied { new, .. }) => {
                    let key = key(&new.metadata);
                    let is_known = known.get(&key).is_some_and(|(of, _)| of == uid(&new.metadata));
                    if !is_known {
                        known.insert(key.clone(), (uid(&new.metadata).to_owned(), Past::default()));
                        queue.add(key);
                    }
                }
                Some(Change::Deleted(gone)) => drop(known.remove(&key(&gone.metadata))),
                None => return,
            },
            () = queue.due(cluster.clock()) => {}
        }
        let now = cluster.clock().now();
        while let Some(key) = queue.pop(now) {
            let Some((_, past)) = known.get_mut(&key) else { continue };
            if let Err(status) = look::look(&cluster, &key, past) {
                tracing::debug!(%status, namespace = key.0, name = key.1, "autoscaler is tried again");
            }
            queue.add_at(now + PERIOD, key);
        }
    }
}
