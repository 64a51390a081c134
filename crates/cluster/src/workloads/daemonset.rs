//! Keeps one pod of each DaemonSet on every node that it is for.
//!
//! Behaviour follows Kubernetes `pkg/controller/daemon`. Pods are not adopted.
//!
//! - `sync`: one look at one DaemonSet: which nodes lack a pod, which pods are too many or old.
//! - `pods`: what a daemon's pod looks like, and where it may run.

mod pods;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::owner::{key, uid};
use super::pods::{PodIndex, is_ready, phase};
use super::queue::Queue;
use crate::informer::{Change, Informer};
use crate::registry::Cluster;
use crate::store::Key;

const COMPONENT: &str = "daemonset-controller";

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut sets = cluster.informer::<DaemonSet>();
    let mut nodes = cluster.informer::<Node>();
    let mut pods = cluster.informer::<Pod>();
    let mut controller = Controller::new(cluster.clone());
    loop {
        tokio::select! {
            biased;
            change = sets.next() => match change {
                Some(change) => controller.set_changed(change),
                None => return,
            },
            change = nodes.next() => match change {
                Some(change) => controller.node_changed(change),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => controller.pod_changed(change),
                None => return,
            },
            () = controller.queue.due(cluster.clock()) => {}
        }
        controller.drain(&mut sets, &mut nodes, &mut pods);
        while let Some(key) = controller.queue.pop(cluster.clock().now()) {
            controller.reconcile(key);
            // Others see each burst before the next one.
            tokio::task::yield_now().await;
            controller.drain(&mut sets, &mut nodes, &mut pods);
        }
    }
}

struct Controller {
    cluster: Cluster,
    /// DaemonSets by UID.
    sets: BTreeMap<String, Key>,
    nodes: BTreeMap<String, Arc<Node>>,
    pods: PodIndex,
    /// When failed pods may be replaced, by DaemonSet and node.
    failures: BTreeMap<(Key, String), Failures>,
    queue: Queue<Key>,
}

/// Failed pods of one DaemonSet on one node.
#[derive(Clone, Copy, Debug)]
struct Failures {
    /// Replaced so far.
    count: u32,
    /// When the next may be.
    until: Timestamp,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            sets: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: PodIndex::new("DaemonSet"),
            failures: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    fn drain(
        &mut self,
        sets: &mut Informer<DaemonSet>,
        nodes: &mut Informer<Node>,
        pods: &mut Informer<Pod>,
    ) {
        while let Some(change) = sets.try_next() {
            self.set_changed(change);
        }
        while let Some(change) = nodes.try_next() {
            self.node_changed(change);
        }
        while let Some(change) = pods.try_next() {
            self.pod_changed(change);
        }
    }

    fn set_changed(&mut self, change: Change<DaemonSet>) {
        match change {
            Change::Applied { new, .. } => {
                let key = key(&new.metadata);
                self.sets.insert(uid(&new.metadata).to_owned(), key.clone());
                self.queue.add(key);
            }
            Change::Deleted(set) => {
                let key = key(&set.metadata);
                self.sets.remove(uid(&set.metadata));
                self.failures.retain(|(of, _), _| *of != key);
                self.queue.succeeded(&key);
            }
        }
    }

    /// Heartbeats are no reason to look at every DaemonSet.
    fn node_changed(&mut self, change: Change<Node>) {
        let (node, same) = match &change {
            Change::Applied { new, old } => {
                let facts = |node: &Node| (node.metadata.labels.clone(), node.spec.clone());
                (new, old.as_ref().is_some_and(|old| facts(old) == facts(new)))
            }
            Change::Deleted(node) => (node, false),
        };
        let (_, name) = key(&node.metadata);
        if !same {
            self.sets.values().for_each(|key| self.queue.add(key.clone()));
        }
        match change {
            Change::Applied { new, .. } => self.nodes.insert(name, new),
            Change::Deleted(_) => self.nodes.remove(&name),
        };
    }

    fn pod_changed(&mut self, change: Change<Pod>) {
        let same = match &change {
            Change::Applied { new, old: Some(old) } => {
                let facts = |pod: &Arc<Pod>| {
                    let deleting = pod.metadata.deletion_timestamp.is_some();
                    let owners = pod.metadata.owner_references.clone();
                    (phase(pod).to_owned(), is_ready(pod), deleting, owners)
                };
                facts(old) == facts(new)
            }
            _ => false,
        };
        let concerned = self.pods.apply(change);
        if same {
            return;
        }
        for owner in [concerned.before, concerned.after].into_iter().flatten() {
            if let Some(key) = self.sets.get(&owner) {
                self.queue.add(key.clone());
            }
        }
    }

    fn reconcile(&mut self, key: Key) {
        let Some(set) = self.cluster.get::<DaemonSet>(&key.0, &key.1) else { return };
        if set.metadata.deletion_timestamp.is_some() {
            return;
        }
        let now = self.cluster.clock().now();
        let pods: Vec<_> = self
            .pods
            .owned(uid(&set.metadata))
            .map(|pods| pods.iter().cloned().collect())
            .unwrap_or_default();
        match sync::run(&self.cluster, &set, &self.nodes, &pods, &mut self.failures, now) {
            Ok(again) => {
                self.queue.succeeded(&key);
                if let Some(when) = again {
                    self.queue.add_at(when, key);
                }
            }
            Err(error) => {
                tracing::debug!(%error, namespace = key.0, name = key.1, "daemon set is tried again");
                self.queue.retry(key, now);
            }
        }
    }
}
