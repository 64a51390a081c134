//! Watches over nodes: those that are silent become unknown, and all get the taints that their
//! conditions ask for.
//!
//! Behaviour follows Kubernetes `pkg/controller/nodelifecycle`, without its rate limits by zone: a
//! node that is not ready is tainted at once.

mod health;
mod taints;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::owner::key;
use super::pods::is_ready;
use super::pods_by_node::{PodsByNode, node_of};
use super::queue::Queue;
use crate::events::{self, EventType};
use crate::informer::{Change, Informer};
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::Key;
use health::Health;

const COMPONENT: &str = "node-controller";

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut nodes = cluster.informer::<Node>();
    let mut pods = cluster.informer::<Pod>();
    let mut controller = Controller::new(cluster.clone());
    loop {
        tokio::select! {
            biased;
            change = nodes.next() => match change {
                Some(change) => controller.node_changed(change),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => controller.pod_changed(&change),
                None => return,
            },
            () = controller.queue.due(cluster.clock()) => {}
        }
        controller.drain(&mut nodes, &mut pods);
        while let Some(name) = controller.queue.pop(cluster.clock().now()) {
            controller.reconcile(name);
            controller.drain(&mut nodes, &mut pods);
        }
    }
}

struct Controller {
    cluster: Cluster,
    nodes: BTreeMap<String, Health>,
    pods: PodsByNode,
    queue: Queue<String>,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            nodes: BTreeMap::new(),
            pods: PodsByNode::default(),
            queue: Queue::default(),
        }
    }

    fn drain(&mut self, nodes: &mut Informer<Node>, pods: &mut Informer<Pod>) {
        while let Some(change) = nodes.try_next() {
            self.node_changed(change);
        }
        while let Some(change) = pods.try_next() {
            self.pod_changed(&change);
        }
    }

    fn node_changed(&mut self, change: Change<Node>) {
        let now = self.cluster.clock().now();
        match change {
            Change::Applied { new, .. } => {
                let (_, name) = key(&new.metadata);
                if let Some(health) = self.nodes.get_mut(&name) {
                    health.observe(&new, now);
                } else {
                    self.nodes.insert(name.clone(), Health::new(&new, now));
                    let message = format!("Registered Node {name} in Controller");
                    self.tell(&new, "RegisteredNode", &format!("Node {name} event: {message}"));
                }
                self.queue.add(name);
            }
            Change::Deleted(node) => {
                let (_, name) = key(&node.metadata);
                self.nodes.remove(&name);
                self.queue.succeeded(&name);
                let message = format!("Removing Node {name} from Controller");
                self.tell(&node, "RemovingNode", &format!("Node {name} event: {message}"));
            }
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>) {
        self.pods.apply(change);
        if let Change::Applied { new, .. } = change
            && is_ready(new)
            && let Some(node) = node_of(new)
            && let Some(health) = self.nodes.get_mut(node)
            && health.ready.as_deref() != Some("True")
        {
            health.news = true;
            self.queue.add(node.to_owned());
        }
    }

    fn tell(&self, node: &Node, reason: &str, message: &str) {
        let about = events::reference(node);
        events::record(&self.cluster, COMPONENT, None, &about, EventType::Normal, reason, message);
    }

    fn reconcile(&mut self, name: String) {
        let now = self.cluster.clock().now();
        match self.step(&name, now) {
            Ok(()) => self.queue.succeeded(&name),
            Err(status) if status.code == 404 => self.queue.succeeded(&name),
            Err(status) => {
                tracing::debug!(%status, name, "node is tried again");
                self.queue.retry(name, now);
            }
        }
    }

    fn step(&mut self, name: &str, now: Timestamp) -> Result<(), Status> {
        let Some(health) = self.nodes.get_mut(name) else { return Ok(()) };
        if now >= health.silent_at() {
            // Leases are looked at when they matter, not each time they are renewed.
            health.renewed(self.cluster.lease_renewed_at(name), now);
        }
        if !health.news && now < health.silent_at() {
            self.queue.add_at(health.silent_at(), name.to_owned());
            return Ok(());
        }
        let Some(mut node) = self.cluster.get::<Node>("", name) else { return Ok(()) };
        if now >= health.silent_at() && health::may_become_unknown(&node) {
            let was_ready = health::ready(&node).is_some_and(|ready| ready.status == "True");
            node = self.cluster.modify_status::<Node>("", name, |node| {
                health::make_unknown(node, now);
            })?;
            if was_ready {
                let message = format!("Node {name} status is now: NodeNotReady");
                self.tell(&node, "NodeNotReady", &message);
            }
        }
        let Some(health) = self.nodes.get_mut(name) else { return Ok(()) };
        if health.silent_at() > now {
            self.queue.add_at(health.silent_at(), name.to_owned());
        }
        let ready = health::ready(&node).map(|ready| ready.status.clone());
        health.ready.clone_from(&ready);
        self.sync_taints_and_labels(&node, now)?;
        if ready.is_some_and(|ready| ready != "True") {
            self.make_pods_unready(name, now)?;
        }
        if let Some(health) = self.nodes.get_mut(name) {
            health.news = false;
        }
        Ok(())
    }

    fn sync_taints_and_labels(&self, node: &Arc<Node>, now: Timestamp) -> Result<(), Status> {
        let own = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let taints = taints::wanted(node, own.clone(), now);
        let labels = taints::legacy_labels(node);
        if taints == own && labels.is_empty() {
            return Ok(());
        }
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.cluster
            .modify::<Node>("", name, |node| {
                let spec = node.spec.get_or_insert_default();
                let own = spec.taints.take().unwrap_or_default();
                let basis = Node { spec: Some(spec.clone()), ..node.clone() };
                let taints = taints::wanted(&basis, own, now);
                node.spec.get_or_insert_default().taints =
                    Some(taints).filter(|taints| !taints.is_empty());
                if !labels.is_empty() {
                    node.metadata.labels.get_or_insert_default().extend(labels.clone());
                }
            })
            .map(drop)
    }

    /// Pods on a node that is not ready are not ready either.
    fn make_pods_unready(&self, node: &str, now: Timestamp) -> Result<(), Status> {
        let pods: Vec<Key> = self.pods.on(node).cloned().collect();
        for (namespace, name) in pods {
            let Some(pod) = self.cluster.get::<Pod>(&namespace, &name) else { continue };
            if !is_ready(&pod) {
                continue;
            }
            let pod = self.cluster.modify_status::<Pod>(&namespace, &name, |pod| {
                let conditions = pod.status.as_mut().and_then(|status| status.conditions.as_mut());
                for condition in conditions.into_iter().flatten() {
                    if condition.type_ == "Ready" && condition.status != "False" {
                        condition.status = "False".into();
                        condition.last_transition_time = Some(Time(now));
                    }
                }
            })?;
            let about = events::reference(&*pod);
            let (reason, message) = ("NodeNotReady", "Node is not ready");
            let warning = EventType::Warning;
            events::record(&self.cluster, COMPONENT, None, &about, warning, reason, message);
        }
        Ok(())
    }
}
