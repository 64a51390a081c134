//! Deletes pods from nodes whose `NoExecute` taints they do not tolerate, or not for longer.
//!
//! Behaviour follows Kubernetes `pkg/controller/tainteviction`.

use std::collections::BTreeMap;

use aerostat_engine::predicates::tolerates;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Taint};

use super::owner::key;
use super::pods::set_condition;
use super::pods_by_node::{PodsByNode, node_of};
use super::queue::Queue;
use crate::events::{self, EventType};
use crate::informer::{Change, Informer};
use crate::registry::{Cluster, DeleteOptions};
use crate::status::Status;
use crate::store::Key;

#[cfg(test)]
mod tests;

const COMPONENT: &str = "taint-eviction-controller";

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
        while let Some(key) = controller.queue.pop(cluster.clock().now()) {
            controller.evict(key);
            controller.drain(&mut nodes, &mut pods);
        }
    }
}

/// A pod that will be deleted.
#[derive(Clone, Copy, Debug)]
struct Eviction {
    /// Since when its node has such a taint.
    since: Timestamp,
    /// When it will be.
    at: Timestamp,
}

struct Controller {
    cluster: Cluster,
    /// `NoExecute` taints by node; nodes without any are not in it.
    tainted: BTreeMap<String, Vec<Taint>>,
    pods: PodsByNode,
    evictions: BTreeMap<Key, Eviction>,
    queue: Queue<Key>,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            tainted: BTreeMap::new(),
            pods: PodsByNode::default(),
            evictions: BTreeMap::new(),
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
        let (node, gone) = match change {
            Change::Applied { new, .. } => (new, false),
            Change::Deleted(node) => (node, true),
        };
        let (_, name) = key(&node.metadata);
        if gone {
            self.tainted.remove(&name);
            return;
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        let taints = taints.into_iter().flatten().filter(|taint| taint.effect == "NoExecute");
        let taints: Vec<Taint> = taints.cloned().collect();
        if self.tainted.get(&name).map_or(&[][..], Vec::as_slice) == taints.as_slice() {
            return;
        }
        if taints.is_empty() {
            self.tainted.remove(&name);
        } else {
            self.tainted.insert(name.clone(), taints);
        }
        let pods: Vec<Key> = self.pods.on(&name).cloned().collect();
        for (namespace, name) in pods {
            if let Some(pod) = self.cluster.get::<Pod>(&namespace, &name) {
                self.consider(&pod);
            }
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>) {
        self.pods.apply(change);
        match change {
            Change::Applied { new, old } => {
                let same = old.as_ref().is_some_and(|old| {
                    node_of(old) == node_of(new) && tolerations(old) == tolerations(new)
                });
                if !same {
                    self.consider(new);
                }
            }
            Change::Deleted(pod) => {
                self.evictions.remove(&key(&pod.metadata));
            }
        }
    }

    /// Plans the eviction of a pod, or calls it off.
    fn consider(&mut self, pod: &Pod) {
        let key = key(&pod.metadata);
        let taints = node_of(pod).and_then(|node| self.tainted.get(node));
        let now = self.cluster.clock().now();
        let Some(left) = taints.and_then(|taints| tolerated_for(pod, taints)) else {
            if self.evictions.remove(&key).is_some() {
                let message = format!("Cancelling deletion of Pod {}/{}", key.0, key.1);
                self.tell(&key, &message);
            }
            return;
        };
        let since = self.evictions.get(&key).map_or(now, |eviction| eviction.since);
        let at = if left.is_zero() { now } else { since + left };
        self.evictions.insert(key.clone(), Eviction { since, at });
        self.queue.add_at(at, key);
    }

    fn evict(&mut self, key: Key) {
        let now = self.cluster.clock().now();
        let Some(eviction) = self.evictions.get(&key).copied() else { return };
        if eviction.at > now {
            self.queue.add_at(eviction.at, key);
            return;
        }
        let message = format!("Marking for deletion Pod {}/{}", key.0, key.1);
        self.tell(&key, &message);
        match self.delete(&key, now) {
            Err(status) if status.code != 404 => self.queue.retry(key, now),
            _ => {
                self.evictions.remove(&key);
                self.queue.succeeded(&key);
            }
        }
    }

    fn delete(&self, (namespace, name): &Key, now: Timestamp) -> Result<(), Status> {
        self.cluster.modify_status::<Pod>(namespace, name, |pod| {
            let message = "Taint manager: deleting due to NoExecute taint";
            set_condition(pod, "DisruptionTarget", "DeletionByTaintManager", message, now);
        })?;
        self.cluster.delete::<Pod>(namespace, name, &DeleteOptions::default()).map(drop)
    }

    fn tell(&self, (namespace, name): &Key, message: &str) {
        let about = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            ..ObjectReference::default()
        };
        let (normal, reason) = (EventType::Normal, "TaintManagerEviction");
        events::record(&self.cluster, COMPONENT, None, &about, normal, reason, message);
    }
}

fn tolerations(pod: &Pod) -> &[k8s_openapi::api::core::v1::Toleration] {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref());
    tolerations.unwrap_or_default()
}

/// How long a pod may stay with these taints; `None` means forever.
fn tolerated_for(pod: &Pod, taints: &[Taint]) -> Option<SignedDuration> {
    if taints.is_empty() {
        return None;
    }
    let tolerations = tolerations(pod);
    let mut seconds = None::<i64>;
    for taint in taints {
        let mut matching = tolerations
            .iter()
            .filter(|toleration| tolerates(std::slice::from_ref(*toleration), taint));
        let Some(first) = matching.next() else { return Some(SignedDuration::ZERO) };
        // As upstream, the first toleration that matches a taint is the one that counts.
        if let Some(limit) = first.toleration_seconds {
            seconds = Some(seconds.map_or(limit, |seconds| seconds.min(limit)));
        }
    }
    seconds.map(|seconds| SignedDuration::from_secs(seconds.max(0)))
}
