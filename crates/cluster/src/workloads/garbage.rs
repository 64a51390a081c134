//! Deletes what its owners have left behind.
//!
//! Behaviour follows Kubernetes `pkg/controller/garbagecollector`: an object goes when none of its
//! owners is there (a different UID is a different object); an owner that is deleted in foreground
//! waits for dependents that block it; one that is deleted with `orphan` leaves them behind.
//! Owners are looked up by the kind that a reference names; a kind that is not served keeps the
//! object.

mod feeds;
mod graph;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use super::queue::Queue;
use crate::events::{self, EventType};
use crate::kinds::Kind;
use crate::registry::{Cluster, DeleteOptions, Part, Propagation, WriteOptions};
use crate::status::Status;
use crate::store::{EventKind, Object};
use feeds::Feeds;
use graph::{Graph, Node, Owner};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// So many objects are looked at before others get a turn.
const BURST: usize = 500;

/// Runs the collector until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut feeds = Feeds::default();
    let mut collector = Collector::new(cluster.clone());
    collector.kinds_changed(&mut feeds);
    loop {
        tokio::select! {
            biased;
            (kind, event) = feeds.next() => collector.observe(&mut feeds, &kind, &event),
            () = collector.queue.due(cluster.clock()) => {}
        }
        collector.drain(&mut feeds);
        let mut turns = 0;
        while let Some(uid) = collector.queue.pop(cluster.clock().now()) {
            collector.look_at(&uid);
            turns += 1;
            if turns % BURST == 0 {
                tokio::task::yield_now().await;
            }
            collector.drain(&mut feeds);
        }
    }
}

struct Collector {
    cluster: Cluster,
    /// By group and kind, as references name them.
    kinds: BTreeMap<(String, String), Arc<Kind>>,
    graph: Graph,
    queue: Queue<String>,
}

impl Collector {
    fn new(cluster: Cluster) -> Self {
        Self { cluster, kinds: BTreeMap::new(), graph: Graph::default(), queue: Queue::default() }
    }

    fn kinds_changed(&mut self, feeds: &mut Feeds) {
        let kinds = self.cluster.kinds();
        feeds.follow(&self.cluster, &kinds);
        self.kinds =
            kinds.into_iter().map(|kind| ((kind.group.clone(), kind.kind.clone()), kind)).collect();
    }

    fn drain(&mut self, feeds: &mut Feeds) {
        while let Some((kind, event)) = feeds.try_next() {
            self.observe(feeds, &kind, &event);
        }
    }

    fn observe(&mut self, feeds: &mut Feeds, kind: &Arc<Kind>, event: &crate::store::Event) {
        if kind.kind == "CustomResourceDefinition" {
            self.kinds_changed(feeds);
        }
        let object = &event.object;
        if event.kind == EventKind::Deleted {
            if let Some((node, dependents)) = self.graph.remove(object.uid()) {
                dependents.into_iter().for_each(|uid| self.queue.add(uid));
                self.unblock(&node.owners);
            }
            self.queue.succeeded(&object.uid().to_owned());
            return;
        }
        let relevant = |object: &Object| {
            let metadata = &object.value["metadata"];
            ["ownerReferences", "deletionTimestamp", "finalizers"].map(|f| metadata[f].clone())
        };
        if event.previous.as_ref().is_some_and(|before| relevant(before) == relevant(object)) {
            return;
        }
        let node = Node::of(kind, object);
        let uid = object.uid().to_owned();
        let lost_or_leaving = node.owners.iter().any(|owner| {
            self.graph.get(&owner.uid).is_none_or(|node| node.deleting && node.foreground)
        });
        let began = |before: Option<&Node>, flag: fn(&Node) -> bool| {
            node.deleting && flag(&node) && !before.is_some_and(|b| b.deleting && flag(b))
        };
        let before = self.graph.get(&uid);
        let foreground = began(before, |node| node.foreground);
        let orphan = began(before, |node| node.orphan);
        let former: Vec<Owner> = before.map(|node| node.owners.clone()).unwrap_or_default();
        if foreground {
            self.graph.dependents(&uid).for_each(|uid| self.queue.add(uid.clone()));
        }
        if foreground || orphan || lost_or_leaving && !node.deleting {
            self.queue.add(uid.clone());
        }
        self.graph.insert(uid, node);
        self.unblock(&former);
    }

    /// Owners that wait for dependents are looked at again when one is gone.
    fn unblock(&mut self, owners: &[Owner]) {
        for owner in owners {
            if self.graph.get(&owner.uid).is_some_and(|node| node.deleting && node.foreground) {
                self.queue.add(owner.uid.clone());
            }
        }
    }

    fn look_at(&mut self, uid: &str) {
        let Some(node) = self.graph.get(uid).cloned() else { return };
        let result = if node.deleting && node.orphan {
            self.orphan(uid, &node)
        } else if node.deleting && node.foreground {
            self.end_foreground(uid, &node)
        } else if node.deleting {
            Ok(())
        } else {
            self.collect(uid, &node)
        };
        match result {
            Err(status) if status.code != 404 => {
                tracing::debug!(%status, uid, "not collected yet");
                self.queue.retry(uid.to_owned(), self.cluster.clock().now());
            }
            _ => self.queue.succeeded(&uid.to_owned()),
        }
    }

    /// All dependents lose the reference, then the object may go.
    fn orphan(&self, uid: &str, node: &Node) -> Result<(), Status> {
        for dependent in self.graph.dependents(uid) {
            if let Some(dependent) = self.graph.get(dependent) {
                self.drop_owners(dependent, &[uid])?;
            }
        }
        self.drop_finalizer(node, ORPHAN)
    }

    /// The object may go if no dependent blocks it.
    fn end_foreground(&self, uid: &str, node: &Node) -> Result<(), Status> {
        let blocked = self.graph.dependents(uid).any(|dependent| {
            let owners = self.graph.get(dependent).map(|node| node.owners.as_slice());
            owners.unwrap_or_default().iter().any(|owner| owner.uid == uid && owner.blocks)
        });
        if blocked { Ok(()) } else { self.drop_finalizer(node, FOREGROUND) }
    }

    /// Deletes an object that no owner holds any more.
    fn collect(&self, uid: &str, node: &Node) -> Result<(), Status> {
        let kind = self.served(node);
        let object = self.cluster.get_object(&kind, &node.key.0, &node.key.1)?;
        if object.uid() != uid || node.owners.is_empty() {
            return Ok(());
        }
        let mut solid = false;
        let (mut gone, mut waiting) = (Vec::new(), Vec::new());
        for owner in &node.owners {
            match self.find(node, owner) {
                Found::Gone => gone.push(owner.uid.as_str()),
                Found::There(found) if found.deleting && found.foreground => {
                    waiting.push(owner.uid.as_str());
                }
                Found::There(_) | Found::Unknown => solid = true,
            }
        }
        if solid {
            gone.extend(waiting);
            return if gone.is_empty() { Ok(()) } else { self.drop_owners(node, &gone) };
        }
        let has_dependents = self.graph.dependents(uid).next().is_some();
        let propagation = if !waiting.is_empty() && has_dependents {
            let circle = self.graph.dependents(uid).any(|dependent| {
                self.graph.get(dependent).is_some_and(|node| node.deleting && node.foreground)
            });
            if circle {
                self.stop_blocking(node)?;
            }
            Propagation::Foreground
        } else if node.orphan {
            Propagation::Orphan
        } else if node.foreground {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        self.cluster.delete_object(&kind, &node.key.0, &node.key.1, &options).map(drop)
    }

    /// The object's kind as it is served now: a definition may have changed since.
    fn served(&self, node: &Node) -> Arc<Kind> {
        let key = (node.kind.group.clone(), node.kind.kind.clone());
        self.kinds.get(&key).unwrap_or(&node.kind).clone()
    }

    fn find(&self, node: &Node, owner: &Owner) -> Found {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let Some(kind) = self.kinds.get(&(group.to_owned(), owner.kind.clone())) else {
            return Found::Unknown;
        };
        if kind.namespaced && node.key.0.is_empty() {
            self.tell_invalid(node, owner);
            return Found::Unknown;
        }
        let namespace = if kind.namespaced { node.key.0.as_str() } else { "" };
        match self.cluster.get_object(kind, namespace, &owner.name) {
            Ok(object) if object.uid() == owner.uid => Found::There(Node::of(kind, &object)),
            Ok(_) | Err(_) => {
                let elsewhere = self.graph.get(&owner.uid).is_some_and(|n| n.key.0 != namespace);
                if elsewhere {
                    self.tell_invalid(node, owner);
                }
                Found::Gone
            }
        }
    }

    fn tell_invalid(&self, node: &Node, owner: &Owner) {
        let Owner { api_version, kind, name, uid, .. } = owner;
        let namespace = &node.key.0;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] \
             does not exist in namespace {namespace:?}"
        );
        let about = ObjectReference {
            api_version: Some(node.kind.api_version()),
            kind: Some(node.kind.kind.clone()),
            namespace: Some(node.key.0.clone()),
            name: Some(node.key.1.clone()),
            ..ObjectReference::default()
        };
        let (component, reason) = ("garbage-collector-controller", "OwnerRefInvalidNamespace");
        let warning = EventType::Warning;
        events::record(&self.cluster, component, None, &about, warning, reason, &message);
    }

    fn drop_finalizer(&self, node: &Node, name: &str) -> Result<(), Status> {
        self.edit(node, "finalizers", |list| list.retain(|finalizer| finalizer != name))
    }

    fn drop_owners(&self, node: &Node, uids: &[&str]) -> Result<(), Status> {
        self.edit(node, "ownerReferences", |list| {
            list.retain(|owner| owner["uid"].as_str().is_none_or(|uid| !uids.contains(&uid)));
        })
    }

    fn stop_blocking(&self, node: &Node) -> Result<(), Status> {
        self.edit(node, "ownerReferences", |list| {
            for owner in list {
                owner["blockOwnerDeletion"] = false.into();
            }
        })
    }

    /// Changes a list of the object's metadata; an empty one is left out.
    fn edit(
        &self,
        node: &Node,
        field: &str,
        change: impl Fn(&mut Vec<Value>),
    ) -> Result<(), Status> {
        let options = WriteOptions::default();
        let (namespace, name) = &node.key;
        let edit = |object: &Object| {
            let mut value = object.value.clone();
            if let Some(metadata) = value["metadata"].as_object_mut()
                && let Some(list) = metadata.get_mut(field).and_then(Value::as_array_mut)
            {
                change(list);
                if list.is_empty() {
                    metadata.remove(field);
                }
            }
            Ok(value)
        };
        self.cluster
            .update_object(&self.served(node), namespace, name, Part::Main, options, edit)
            .map(drop)
    }
}

/// What became of an owner.
enum Found {
    /// It is there.
    There(Node),
    /// It is not, or is another object of that name.
    Gone,
    /// Nobody can tell: its kind is not served, or it cannot be an owner.
    Unknown,
}
