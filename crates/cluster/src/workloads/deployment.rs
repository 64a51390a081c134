//! Rolls Deployments out over ReplicaSets.
//!
//! Behaviour follows Kubernetes `pkg/controller/deployment`.
//!
//! - `rollout`: one look at one Deployment: which ReplicaSets it has, which it should have.
//! - `revision`: template hash, revision numbers and annotations.
//! - `limits`: how many pods may be too many or unavailable.
//! - `status`: counts and conditions.

mod limits;
mod revision;
mod rollout;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::owner::{controller_of, controller_ref, key, uid};
use super::queue::Queue;
use super::selector::selects;
use crate::informer::{Change, Informer};
use crate::registry::Cluster;
use crate::store::Key;
pub(super) use limits::scaled;

const COMPONENT: &str = "deployment-controller";

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut deployments = cluster.informer::<Deployment>();
    let mut sets = cluster.informer::<ReplicaSet>();
    let mut controller = Controller::new(cluster.clone());
    loop {
        tokio::select! {
            biased;
            change = deployments.next() => match change {
                Some(change) => controller.deployment_changed(change),
                None => return,
            },
            change = sets.next() => match change {
                Some(change) => controller.set_changed(change),
                None => return,
            },
            () = controller.queue.due(cluster.clock()) => {}
        }
        controller.drain(&mut deployments, &mut sets);
        while let Some(key) = controller.queue.pop(cluster.clock().now()) {
            controller.reconcile(key);
            controller.drain(&mut deployments, &mut sets);
        }
    }
}

struct Controller {
    cluster: Cluster,
    deployments: BTreeMap<Key, Arc<Deployment>>,
    by_uid: BTreeMap<String, Key>,
    /// ReplicaSets by the UID of their Deployment and their name.
    owned: BTreeMap<String, BTreeSet<String>>,
    /// ReplicaSets that nothing controls.
    orphans: BTreeMap<Key, Arc<ReplicaSet>>,
    queue: Queue<Key>,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            deployments: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            owned: BTreeMap::new(),
            orphans: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    fn drain(&mut self, deployments: &mut Informer<Deployment>, sets: &mut Informer<ReplicaSet>) {
        while let Some(change) = deployments.try_next() {
            self.deployment_changed(change);
        }
        while let Some(change) = sets.try_next() {
            self.set_changed(change);
        }
    }

    fn deployment_changed(&mut self, change: Change<Deployment>) {
        match change {
            Change::Applied { new, .. } => {
                let key = key(&new.metadata);
                self.by_uid.insert(uid(&new.metadata).to_owned(), key.clone());
                self.deployments.insert(key.clone(), new);
                self.queue.add(key);
            }
            Change::Deleted(deployment) => {
                let key = key(&deployment.metadata);
                self.by_uid.remove(uid(&deployment.metadata));
                self.deployments.remove(&key);
                self.queue.succeeded(&key);
            }
        }
    }

    fn set_changed(&mut self, change: Change<ReplicaSet>) {
        let (set, old, gone) = match change {
            Change::Applied { new, old } => (new, old, false),
            Change::Deleted(set) => (set.clone(), Some(set), true),
        };
        let key = key(&set.metadata);
        if let Some(owner) = old.as_ref().and_then(|old| controller_of(&old.metadata)) {
            if let Some(names) = self.owned.get_mut(&owner.uid) {
                names.remove(&key.1);
                if names.is_empty() {
                    self.owned.remove(&owner.uid);
                }
            }
            self.add_owner(&owner.uid);
        }
        self.orphans.remove(&key);
        if gone {
            return;
        }
        if let Some(owner) = controller_of(&set.metadata) {
            self.owned.entry(owner.uid.clone()).or_default().insert(key.1);
            self.add_owner(&owner.uid);
        } else {
            let labels = set.metadata.labels.clone().unwrap_or_default();
            for (of, deployment) in &self.deployments {
                if of.0 == key.0
                    && deployment.spec.as_ref().is_some_and(|s| selects(&s.selector, &labels))
                {
                    self.queue.add(of.clone());
                }
            }
            self.orphans.insert(key, set);
        }
    }

    fn add_owner(&mut self, uid: &str) {
        if let Some(key) = self.by_uid.get(uid) {
            self.queue.add(key.clone());
        }
    }

    fn reconcile(&mut self, key: Key) {
        let Some(deployment) = self.cluster.get::<Deployment>(&key.0, &key.1) else { return };
        let now = self.cluster.clock().now();
        let sets = self.claim(&deployment);
        match rollout::reconcile(&self.cluster, &deployment, sets, now) {
            Ok(again) => {
                self.queue.succeeded(&key);
                if let Some(when) = again {
                    self.queue.add_at(when, key);
                }
            }
            Err(error) => {
                tracing::debug!(%error, namespace = key.0, name = key.1, "deployment is tried again");
                self.queue.retry(key, now);
            }
        }
    }

    /// The ReplicaSets of a Deployment, oldest first; adopts those that match and are nobody's,
    /// releases those that match no more.
    fn claim(&self, deployment: &Deployment) -> Vec<Arc<ReplicaSet>> {
        let (namespace, _) = key(&deployment.metadata);
        let deployment_uid = uid(&deployment.metadata);
        let empty = BTreeMap::new();
        let matches = |set: &ReplicaSet| {
            let labels = set.metadata.labels.as_ref().unwrap_or(&empty);
            deployment.spec.as_ref().is_some_and(|spec| selects(&spec.selector, labels))
        };
        let alive = deployment.metadata.deletion_timestamp.is_none();
        let mut sets = Vec::new();
        for name in self.owned.get(deployment_uid).into_iter().flatten() {
            let Some(set) = self.cluster.get::<ReplicaSet>(&namespace, name) else { continue };
            if controller_of(&set.metadata).is_none_or(|owner| owner.uid != deployment_uid) {
                continue;
            }
            if matches(&set) {
                sets.push(set);
            } else if alive {
                let _ = self.cluster.modify::<ReplicaSet>(&namespace, name, |set| {
                    if let Some(owners) = &mut set.metadata.owner_references {
                        owners.retain(|owner| owner.uid != deployment_uid);
                    }
                });
            }
        }
        for ((of, name), orphan) in &self.orphans {
            if *of != namespace
                || !alive
                || orphan.metadata.deletion_timestamp.is_some()
                || !matches(orphan)
            {
                continue;
            }
            let adopted = self.cluster.modify::<ReplicaSet>(&namespace, name, |set| {
                if controller_of(&set.metadata).is_none() {
                    let owners = set.metadata.owner_references.get_or_insert_default();
                    owners.push(controller_ref(deployment));
                }
            });
            sets.extend(adopted.ok());
        }
        sets.sort_by(|a, b| revision::age(a).cmp(&revision::age(b)));
        sets
    }
}
