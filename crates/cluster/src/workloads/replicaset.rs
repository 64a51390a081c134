//! Keeps as many pods as each ReplicaSet asks for.
//!
//! Behaviour follows Kubernetes `pkg/controller/replicaset`. There are no expectations: the API is
//! in process, so that every pod this controller made is in its index before the next look.

mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;

use super::owner::{controller_of, controller_ref, key, uid};
use super::pod_control::{PodControl, from_template, is_namespace_terminating};
use super::pods::{PodIndex, is_active};
use super::queue::Queue;
use super::selector::selects;
use super::victims;
use crate::informer::{Change, Informer};
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::Key;

const COMPONENT: &str = "replicaset-controller";
/// So many pods are created or deleted before others get a turn.
const BURST: usize = 500;

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut sets = cluster.informer::<ReplicaSet>();
    let mut pods = cluster.informer::<Pod>();
    let mut controller = Controller::new(cluster.clone());
    loop {
        tokio::select! {
            biased;
            change = sets.next() => match change {
                Some(change) => controller.set_changed(change),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => controller.pod_changed(change),
                None => return,
            },
            () = controller.queue.due(cluster.clock()) => {}
        }
        controller.drain(&mut sets, &mut pods);
        while let Some(key) = controller.queue.pop(cluster.clock().now()) {
            controller.reconcile(key);
            // Others see each burst before the next one.
            tokio::task::yield_now().await;
            controller.drain(&mut sets, &mut pods);
        }
    }
}

struct Controller {
    cluster: Cluster,
    sets: BTreeMap<Key, Arc<ReplicaSet>>,
    by_uid: BTreeMap<String, Key>,
    pods: PodIndex,
    /// Sets that may find pods to adopt.
    adopting: BTreeSet<Key>,
    queue: Queue<Key>,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            sets: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            pods: PodIndex::new("ReplicaSet"),
            adopting: BTreeSet::new(),
            queue: Queue::default(),
        }
    }

    fn drain(&mut self, sets: &mut Informer<ReplicaSet>, pods: &mut Informer<Pod>) {
        while let Some(change) = sets.try_next() {
            self.set_changed(change);
        }
        while let Some(change) = pods.try_next() {
            self.pod_changed(change);
        }
    }

    fn set_changed(&mut self, change: Change<ReplicaSet>) {
        match change {
            Change::Applied { new, old } => {
                let key = key(&new.metadata);
                if old.is_none_or(|old| old.spec != new.spec) {
                    self.adopting.insert(key.clone());
                }
                self.by_uid.insert(uid(&new.metadata).to_owned(), key.clone());
                self.sets.insert(key.clone(), new);
                self.queue.add(key);
            }
            Change::Deleted(set) => {
                let key = key(&set.metadata);
                self.by_uid.remove(uid(&set.metadata));
                self.sets.remove(&key);
                self.adopting.remove(&key);
                self.queue.succeeded(&key);
            }
        }
    }

    fn pod_changed(&mut self, change: Change<Pod>) {
        let concerned = self.pods.apply(change);
        for owner in [concerned.before, concerned.after].into_iter().flatten() {
            if let Some(key) = self.by_uid.get(&owner) {
                self.queue.add(key.clone());
            }
        }
        if let Some(orphan) = concerned.orphan {
            let labels = orphan.metadata.labels.clone().unwrap_or_default();
            let namespace = orphan.metadata.namespace.clone().unwrap_or_default();
            for (key, set) in self.sets.range((namespace.clone(), String::new())..) {
                if key.0 != namespace {
                    break;
                }
                if set.spec.as_ref().is_some_and(|spec| selects(&spec.selector, &labels)) {
                    self.adopting.insert(key.clone());
                    self.queue.add(key.clone());
                }
            }
        }
    }

    fn reconcile(&mut self, key: Key) {
        // A set may have changed since the informer told of it: read it as it is.
        let Some(set) = self.cluster.get::<ReplicaSet>(&key.0, &key.1) else { return };
        if set.metadata.deletion_timestamp.is_some() {
            // Its pods are the garbage collector's; the status goes on being counted.
            self.write_status(&key, &set, None);
            return;
        }
        if self.claim(&key, &set) {
            // The index has to learn of it first.
            self.queue.add(key);
            return;
        }
        let failure = self.manage(&set);
        let failed = failure.is_some();
        let wanted = wanted(&set);
        let active = self.pods.owned(uid(&set.metadata)).map_or(0, |pods| pods.active);
        self.write_status(&key, &set, failure.map(|status| (active < wanted, status)));
        if failed {
            self.queue.retry(key, self.cluster.clock().now());
        } else {
            self.queue.succeeded(&key);
        }
    }

    fn write_status(&mut self, key: &Key, set: &ReplicaSet, failure: Option<(bool, Status)>) {
        let now = self.cluster.clock().now();
        let pods = self.pods.owned(uid(&set.metadata));
        let new = status::calculate(set, pods, failure.as_ref(), now);
        if Some(&new) != set.status.as_ref() {
            let result = self.cluster.modify_status::<ReplicaSet>(&key.0, &key.1, |current| {
                if current.metadata.uid == set.metadata.uid {
                    current.status = Some(new.clone());
                }
            });
            // It may have been deleted meanwhile; any other failure is tried again.
            if result.is_err_and(|status| status.code != 404) {
                self.queue.retry(key.clone(), now);
            }
        }
        if let Some(when) = pods.and_then(|pods| status::next_available(set, pods, now)) {
            self.queue.add_at(when, key.clone());
        }
    }

    /// Adopts pods that match, releases pods that do not any more; whether it did.
    fn claim(&mut self, key: &Key, set: &ReplicaSet) -> bool {
        let Some(spec) = &set.spec else { return false };
        let mut did = false;
        if self.adopting.remove(key) {
            let empty = BTreeMap::new();
            for pod in self.pods.orphans(&key.0) {
                let labels = pod.metadata.labels.as_ref().unwrap_or(&empty);
                if selects(&spec.selector, labels) {
                    did |= self.adopt(set, pod);
                }
            }
        }
        let Some(owned) = self.pods.owned(uid(&set.metadata)) else { return did };
        if owned.labels.keys().any(|labels| !selects(&spec.selector, labels)) {
            for pod in owned.iter().filter(|pod| is_active(pod)) {
                let labels = pod.metadata.labels.clone().unwrap_or_default();
                if !selects(&spec.selector, &labels) {
                    did |= self.release(set, pod);
                }
            }
        }
        did
    }

    fn adopt(&self, set: &ReplicaSet, pod: &Pod) -> bool {
        let (namespace, name) = key(&pod.metadata);
        let mut did = false;
        let result = self.cluster.modify::<Pod>(&namespace, &name, |current| {
            did = current.metadata.uid == pod.metadata.uid
                && controller_of(&current.metadata).is_none();
            if did {
                current.metadata.owner_references.get_or_insert_default().push(controller_ref(set));
            }
        });
        did && result.is_ok()
    }

    fn release(&self, set: &ReplicaSet, pod: &Pod) -> bool {
        let (namespace, name) = key(&pod.metadata);
        let result = self.cluster.modify::<Pod>(&namespace, &name, |current| {
            if let Some(owners) = &mut current.metadata.owner_references {
                owners.retain(|owner| owner.uid != uid(&set.metadata));
            }
        });
        result.is_ok()
    }

    /// Creates what is missing, deletes what is too many, a burst at a time.
    fn manage(&mut self, set: &ReplicaSet) -> Option<Status> {
        let owned = self.pods.owned(uid(&set.metadata));
        let active = owned.map_or(0, |pods| pods.active);
        let wanted = wanted(set);
        let control = PodControl::new(&self.cluster, COMPONENT, set);
        if active < wanted {
            let template = set.spec.as_ref()?.template.as_ref()?;
            let pod = match serde_json::to_value(from_template(template, set)) {
                Ok(pod) => pod,
                Err(error) => return Some(Status::new(500, "InternalError", error.to_string())),
            };
            for _ in 0..(wanted - active).min(BURST) {
                match control.create(&pod) {
                    Ok(_) => {}
                    Err(status) if is_namespace_terminating(&status) => return None,
                    Err(status) => return Some(status),
                }
            }
        } else if active > wanted
            && let Some(owned) = owned
        {
            let now = self.cluster.clock().now();
            let related = self.related(set);
            let pods = owned.iter().filter(|pod| is_active(pod)).cloned().collect();
            for pod in victims::choose(pods, &related, active - wanted, now).iter().take(BURST) {
                if let Err(status) = control.delete(pod) {
                    return Some(status);
                }
            }
        }
        None
    }

    /// How many active pods of this set and of its siblings (of one Deployment) a node has.
    fn related(&self, set: &ReplicaSet) -> BTreeMap<String, usize> {
        let parent = controller_of(&set.metadata).map(|owner| &owner.uid);
        let siblings = self.sets.values().filter(|other| {
            other.metadata.uid == set.metadata.uid
                || parent.is_some()
                    && controller_of(&other.metadata).map(|owner| &owner.uid) == parent
        });
        let mut counts = BTreeMap::new();
        for sibling in siblings {
            let Some(owned) = self.pods.owned(uid(&sibling.metadata)) else { continue };
            for pod in owned.iter().filter(|pod| is_active(pod)) {
                if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) {
                    *counts.entry(node.clone()).or_default() += 1;
                }
            }
        }
        counts
    }
}

fn wanted(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    usize::try_from(replicas).unwrap_or(0)
}
