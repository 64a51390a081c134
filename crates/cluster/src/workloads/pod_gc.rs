//! Removes pods that nobody will ever end: those of nodes that are gone, those that were deleted
//! before they had a node, and the oldest of very many that have ended.
//!
//! Behaviour follows Kubernetes `pkg/controller/podgc`; instead of a look every 20 s, each case
//! sets its own timer.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::owner::key;
use super::pods::{is_finished, set_condition};
use super::pods_by_node::{PodsByNode, node_of};
use super::queue::Queue;
use crate::informer::{Change, Informer};
use crate::registry::{Cluster, DeleteOptions};
use crate::status::Status;
use crate::store::Key;

#[cfg(test)]
mod tests;

/// How long a node may be missing before its pods are removed.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// How long anything else may wait.
const PERIOD: SignedDuration = SignedDuration::from_secs(20);
/// So many pods that have ended are kept. Source: `--terminated-pod-gc-threshold`.
const KEPT: usize = 12_500;

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut nodes = cluster.informer::<Node>();
    let mut pods = cluster.informer::<Pod>();
    let mut controller = Controller::new(cluster.clone());
    loop {
        tokio::select! {
            biased;
            change = nodes.next() => match change {
                Some(change) => controller.node_changed(&change),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => controller.pod_changed(&change),
                None => return,
            },
            () = controller.queue.due(cluster.clock()) => {}
        }
        controller.drain(&mut nodes, &mut pods);
        while let Some(task) = controller.queue.pop(cluster.clock().now()) {
            controller.perform(task);
            controller.drain(&mut nodes, &mut pods);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// Remove the pods of a node if it is still missing.
    MissingNode(String),
    /// Remove a pod that was deleted before it had a node.
    Unscheduled(Key),
    /// Remove the oldest pods that have ended.
    Ended,
}

struct Controller {
    cluster: Cluster,
    nodes: BTreeSet<String>,
    pods: PodsByNode,
    /// Pods that have ended, oldest first.
    ended: BTreeSet<(Option<Timestamp>, Key)>,
    created: BTreeMap<Key, Option<Timestamp>>,
    queue: Queue<Task>,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            nodes: BTreeSet::new(),
            pods: PodsByNode::default(),
            ended: BTreeSet::new(),
            created: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    fn drain(&mut self, nodes: &mut Informer<Node>, pods: &mut Informer<Pod>) {
        while let Some(change) = nodes.try_next() {
            self.node_changed(&change);
        }
        while let Some(change) = pods.try_next() {
            self.pod_changed(&change);
        }
    }

    fn node_changed(&mut self, change: &Change<Node>) {
        match change {
            Change::Applied { new, .. } => {
                self.nodes.insert(key(&new.metadata).1);
            }
            Change::Deleted(node) => {
                let (_, name) = key(&node.metadata);
                self.nodes.remove(&name);
                if self.pods.on(&name).next().is_some() {
                    let when = self.cluster.clock().now() + QUARANTINE;
                    self.queue.add_at(when, Task::MissingNode(name));
                }
            }
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>) {
        self.pods.apply(change);
        let now = self.cluster.clock().now();
        let (pod, gone) = match change {
            Change::Applied { new, .. } => (new, false),
            Change::Deleted(pod) => (pod, true),
        };
        let key = key(&pod.metadata);
        if gone {
            if let Some(created) = self.created.remove(&key) {
                self.ended.remove(&(created, key));
            }
            return;
        }
        if is_finished(pod) && !self.created.contains_key(&key) {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            self.created.insert(key.clone(), created);
            self.ended.insert((created, key.clone()));
            if self.ended.len() > KEPT {
                self.queue.add_at(now + PERIOD, Task::Ended);
            }
        }
        match node_of(pod) {
            Some(node) if !self.nodes.contains(node) => {
                self.queue.add_at(now + QUARANTINE, Task::MissingNode(node.to_owned()));
            }
            None if pod.metadata.deletion_timestamp.is_some() => {
                self.queue.add_at(now + PERIOD, Task::Unscheduled(key));
            }
            _ => {}
        }
    }

    fn perform(&mut self, task: Task) {
        let now = self.cluster.clock().now();
        let result = match &task {
            Task::MissingNode(node) if self.nodes.contains(node) => Ok(()),
            Task::MissingNode(node) => {
                self.pods.on(node).try_for_each(|key| self.remove(key, true))
            }
            Task::Unscheduled(key) => {
                let pod = self.cluster.get::<Pod>(&key.0, &key.1);
                let stuck = pod.is_some_and(|pod| {
                    pod.metadata.deletion_timestamp.is_some() && node_of(&pod).is_none()
                });
                if stuck { self.remove(key, false) } else { Ok(()) }
            }
            Task::Ended => {
                let excess = self.ended.len().saturating_sub(KEPT);
                self.ended.iter().take(excess).try_for_each(|(_, key)| self.remove(key, false))
            }
        };
        match result {
            Ok(()) => self.queue.succeeded(&task),
            Err(status) => {
                tracing::debug!(%status, ?task, "pods are removed later");
                self.queue.retry(task, now);
            }
        }
    }

    /// The pod fails, so that its controller takes notice, and goes without grace.
    fn remove(&self, (namespace, name): &Key, node_is_gone: bool) -> Result<(), Status> {
        let now = self.cluster.clock().now();
        let written = self.cluster.modify_status::<Pod>(namespace, name, |pod| {
            if is_finished(pod) {
                return;
            }
            pod.status.get_or_insert_default().phase = Some("Failed".into());
            if node_is_gone {
                let message = "PodGC: node no longer exists";
                set_condition(pod, "DisruptionTarget", "DeletionByPodGC", message, now);
            }
        });
        let options = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
        let result = written.and_then(|_| self.cluster.delete::<Pod>(namespace, name, &options));
        match result {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }
}
