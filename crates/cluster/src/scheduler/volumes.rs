//! Pods with persistent volumes: what their claims demand, and the wait for volumes that are made
//! once it is known on which node.
//!
//! As kube-scheduler's `VolumeBinding` (kubernetes `pkg/scheduler/framework/plugins/volumebinding`):
//! a pod whose claims are not bound yet keeps its room on the node, the claims are told the node,
//! and the pod is bound when they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_engine::pod::PodKey;
use aerostat_engine::predicates::matches_term;
use aerostat_engine::storage::{Claim, ClaimKey, Class, Storage, Volume, attach_limits};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

use super::Scheduler;
use super::pod::PodInfo;
use crate::informer::Change;
use crate::status::Status;

/// Tells a provisioner where the first pod of a claim will be.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// How long a pod waits for its volumes. Source: kubernetes `pkg/scheduler/apis/config`.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
const TOO_LATE: &str =
    "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";

/// What is known of volumes, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    storage: Storage,
    /// How many volumes each node can attach, by driver.
    limits: BTreeMap<String, BTreeMap<String, u32>>,
    /// Pods with claims that wait to be scheduled.
    waiting: BTreeSet<PodKey>,
    /// Pods that have a node and wait for their volumes.
    binding: BTreeMap<PodKey, Binding>,
}

#[derive(Debug)]
struct Binding {
    info: Arc<PodInfo>,
    node: String,
    until: Timestamp,
}

impl Volumes {
    /// Fills in what the pod's claims demand.
    pub(super) fn resolve(&self, info: &mut PodInfo) {
        if info.pod.claims.is_empty() {
            return;
        }
        match self.storage.resolve(&info.pod) {
            Ok(volumes) => info.pod.constraints.volumes = volumes,
            Err(error) => {
                info.pod.constraints.volumes.attached = self.storage.attached(&info.pod);
                match error.to_scheduler() {
                    Some(whole) => info.problem = Some(whole),
                    // No term holds anywhere.
                    None => info.pod.constraints.volumes.unbound.push(Vec::new()),
                }
            }
        }
    }

    /// How many volumes a node can attach.
    pub(super) fn limits(&self, node: &str) -> BTreeMap<String, u32> {
        self.limits.get(node).cloned().unwrap_or_default()
    }

    /// Notes that a pod with claims waits to be scheduled.
    pub(super) fn waits(&mut self, info: &PodInfo) {
        if !info.pod.claims.is_empty() {
            self.waiting.insert(info.key());
        }
    }

    /// When the first pod has waited too long for its volumes.
    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        self.binding.values().map(|binding| binding.until).min()
    }

    /// Whether a pod has a node and waits for its volumes.
    pub(super) fn is_binding(&self, key: &PodKey) -> bool {
        self.binding.contains_key(key)
    }

    /// A pod waits for no volume any more.
    pub(super) fn forget(&mut self, key: &PodKey) {
        self.binding.remove(key);
    }

    fn claims<'a>(&'a self, info: &'a PodInfo) -> impl Iterator<Item = (ClaimKey, &'a Claim)> {
        info.pod.claims.iter().filter_map(|claim| {
            let key = (info.pod.namespace.clone(), claim.name.clone());
            let claim = self.storage.claims.get(&key)?;
            Some((key, claim))
        })
    }

    fn all_bound(&self, info: &PodInfo) -> bool {
        self.claims(info).filter(|(_, claim)| claim.is_bound).count() == info.pod.claims.len()
    }
}

impl Scheduler {
    pub(super) fn on_claim(&mut self, change: &Change<PersistentVolumeClaim>) {
        let (Change::Applied { new: claim, .. } | Change::Deleted(claim)) = change;
        let key = (
            claim.metadata.namespace.clone().unwrap_or_default(),
            claim.metadata.name.clone().unwrap_or_default(),
        );
        let read = matches!(change, Change::Applied { .. }).then(|| Claim::from_k8s(claim));
        match read.and_then(|read| readable(&key.1, read)) {
            Some(read) => drop(self.volumes.storage.claims.insert(key.clone(), read)),
            None => drop(self.volumes.storage.claims.remove(&key)),
        }
        let uses = |info: &PodInfo| {
            info.pod.namespace == key.0 && info.pod.claims.iter().any(|claim| claim.name == key.1)
        };
        self.look_again(uses);
    }

    pub(super) fn on_volume(&mut self, change: &Change<PersistentVolume>) {
        let (Change::Applied { new: volume, .. } | Change::Deleted(volume)) = change;
        let name = volume.metadata.name.clone().unwrap_or_default();
        let read = matches!(change, Change::Applied { .. }).then(|| Volume::from_k8s(volume));
        match read.and_then(|read| readable(&name, read)) {
            Some(read) => drop(self.volumes.storage.volumes.insert(name, read)),
            None => drop(self.volumes.storage.volumes.remove(&name)),
        }
        self.look_again(|_| true);
    }

    pub(super) fn on_storage_class(&mut self, change: &Change<StorageClass>) {
        let (Change::Applied { new: class, .. } | Change::Deleted(class)) = change;
        let name = class.metadata.name.clone().unwrap_or_default();
        if matches!(change, Change::Applied { .. }) {
            self.volumes.storage.classes.insert(name, Class::from_k8s(class));
        } else {
            self.volumes.storage.classes.remove(&name);
        }
        self.look_again(|_| true);
    }

    pub(super) fn on_csi_node(&mut self, change: &Change<CSINode>) {
        let (Change::Applied { new: node, .. } | Change::Deleted(node)) = change;
        let name = node.metadata.name.clone().unwrap_or_default();
        if matches!(change, Change::Applied { .. }) {
            self.volumes.limits.insert(name.clone(), attach_limits(node));
        } else {
            self.volumes.limits.remove(&name);
        }
        let known = self.cache.slot(&name).and_then(|slot| self.cache.at(slot));
        if let Some(node) = known.map(|(node, _)| node.clone()) {
            self.set_node(node);
        }
    }

    /// Looks again at what the claims of waiting pods demand, and at pods that wait for volumes.
    fn look_again(&mut self, uses: impl Fn(&PodInfo) -> bool) {
        let waiting: Vec<PodKey> = self.volumes.waiting.iter().cloned().collect();
        for key in waiting {
            let Some(queued) = self.queue.get(&key) else {
                self.volumes.waiting.remove(&key);
                continue;
            };
            let before = queued.info.clone();
            if !uses(&before) {
                continue;
            }
            let mut info = PodInfo { problem: None, ..PodInfo::clone(&before) };
            info.pod.constraints.volumes = Default::default();
            self.volumes.resolve(&mut info);
            let (new, old) = (&info.pod.constraints.volumes, &before.pod.constraints.volumes);
            if new != old || info.problem != before.problem {
                self.take_waiting(Arc::new(info));
            }
        }
        let ready = self.volumes.binding.iter().filter(|(_, b)| self.volumes.all_bound(&b.info));
        let ready: Vec<PodKey> = ready.map(|(key, _)| key.clone()).collect();
        for key in ready {
            let Some(binding) = self.volumes.binding.remove(&key) else { continue };
            self.finish(&key, &binding);
        }
    }

    /// All volumes are there: binds the pod.
    fn finish(&mut self, key: &PodKey, binding: &Binding) {
        let kind = self.cluster.kind_of::<Pod>();
        let Ok(object) = self.cluster.get_object(&kind, &key.0, &key.1) else { return };
        if let Err(error) = self.bind(&binding.info, &object, &binding.node) {
            self.give_back(key, &binding.info, &error.message);
        }
    }

    /// The pod gets its node another time.
    fn give_back(&mut self, key: &PodKey, info: &Arc<PodInfo>, why: &str) {
        self.displace(key);
        let kind = self.cluster.kind_of::<Pod>();
        let Ok(object) = self.cluster.get_object(&kind, &key.0, &key.1) else { return };
        self.take_waiting(info.clone());
        self.failed(key, info, &object, "SchedulerError", why, None);
        self.queue.put_after_error(key, self.cluster.clock().now());
    }

    /// A node went: pods that wait for volumes there look for another one.
    pub(super) fn leave_node(&mut self, node: &str) {
        let left = self.volumes.binding.iter().filter(|(_, binding)| binding.node == node);
        let left: Vec<PodKey> = left.map(|(key, _)| key.clone()).collect();
        for key in left {
            let Some(binding) = self.volumes.binding.remove(&key) else { continue };
            let why = format!("running PreBind plugin \"VolumeBinding\": node {node:?} not found");
            self.give_back(&key, &binding.info, &why);
        }
    }

    /// Gives up on pods that have waited too long for their volumes.
    pub(super) fn expire_bindings(&mut self, now: Timestamp) {
        let late = self.volumes.binding.iter().filter(|(_, binding)| binding.until <= now);
        let late: Vec<PodKey> = late.map(|(key, _)| key.clone()).collect();
        for key in late {
            let Some(binding) = self.volumes.binding.remove(&key) else { continue };
            self.give_back(&key, &binding.info, TOO_LATE);
        }
    }

    /// Whether the pod can be bound at once; if not, its claims are told the node, and it keeps
    /// its room there until they are bound.
    ///
    /// # Errors
    ///
    /// If a claim or volume cannot be written.
    pub(super) fn has_volumes(&mut self, info: &Arc<PodInfo>, node: &str) -> Result<bool, Status> {
        if info.pod.claims.is_empty() || self.volumes.all_bound(info) {
            return Ok(true);
        }
        let labels = self.cache.slot(node).and_then(|slot| self.cache.at(slot));
        let labels = labels.map(|(node, _)| node.labels.clone()).unwrap_or_default();
        let usable = |volume: &Volume| {
            let mut terms = volume.terms.iter();
            terms.all(|terms| terms.iter().any(|term| matches_term(term, Some(node), &labels)))
        };
        let storage = &self.volumes.storage;
        let mut taken: BTreeSet<&str> = BTreeSet::new();
        for (key, claim) in self.volumes.claims(info).filter(|(_, claim)| !claim.is_bound) {
            let mut there = storage.suitable(&key, claim);
            match there.find(|(name, volume)| !taken.contains(name) && usable(volume)) {
                Some((name, _)) => {
                    self.cluster.modify::<PersistentVolume>("", name, |volume| {
                        let spec = volume.spec.get_or_insert_default();
                        spec.claim_ref = Some(ObjectReference {
                            api_version: Some("v1".to_owned()),
                            kind: Some("PersistentVolumeClaim".to_owned()),
                            namespace: Some(key.0.clone()),
                            name: Some(key.1.clone()),
                            uid: Some(claim.uid.clone()),
                            ..ObjectReference::default()
                        });
                    })?;
                    if let Some((name, _)) = storage.volumes.get_key_value(name) {
                        taken.insert(name);
                    }
                }
                None => {
                    self.cluster.modify::<PersistentVolumeClaim>(&key.0, &key.1, |claim| {
                        let annotations = claim.metadata.annotations.get_or_insert_default();
                        annotations.insert(SELECTED_NODE.to_owned(), node.to_owned());
                    })?;
                }
            }
        }
        let key = info.key();
        let mut placed = PodInfo::clone(info);
        placed.pod.node = Some(node.to_owned());
        placed.pod.nominated_node = None;
        self.drop_waiting(&key);
        self.place(&Arc::new(placed));
        let until = self.cluster.clock().now().saturating_add(PATIENCE);
        let until = until.unwrap_or(Timestamp::MAX);
        let binding = Binding { info: info.clone(), node: node.to_owned(), until };
        self.volumes.binding.insert(key, binding);
        Ok(false)
    }
}

/// What cannot be read counts as not there.
fn readable<T>(name: &str, read: Result<T, String>) -> Option<T> {
    read.inspect_err(|error| tracing::warn!(name, %error, "cannot be read")).ok()
}
