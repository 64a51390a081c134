//! Persistent volumes: binds claims to volumes, makes volumes as a CSI driver of EBS would, and
//! takes back what nobody claims any more.
//!
//! | module | holds |
//! |---|---|
//! | `claims` | a claim finds its volume |
//! | `making` | volumes of the drivers that are played here |
//! | `reclaim` | volumes without a claim, and who may go |
//!
//! Behaviour follows Kubernetes `pkg/controller/volume/{persistentvolume,pvcprotection,
//! pvprotection,ephemeral}`. Not there: attaching (no VolumeAttachment is written), resizing,
//! the volumes of other drivers.

mod claims;
mod making;
mod reclaim;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::owner::{controller_ref, key};
use super::queue::Queue;
use crate::events::{self, EventType};
use crate::informer::Change;
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::Key;

const CONTROLLER: &str = "persistentvolume-controller";

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// A pod whose ephemeral volumes may lack their claims.
    Pod(Key),
    Claim(Key),
    Volume(String),
}

struct Volumes {
    cluster: Cluster,
    queue: Queue<Item>,
    /// When the volume of a claim is made.
    making: BTreeMap<Key, Timestamp>,
}

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut claims = cluster.informer::<PersistentVolumeClaim>();
    let mut volumes = cluster.informer::<PersistentVolume>();
    let mut classes = cluster.informer::<StorageClass>();
    let mut pods = cluster.informer::<Pod>();
    let (queue, making) = (Queue::default(), BTreeMap::new());
    let mut state = Volumes { cluster: cluster.clone(), queue, making };
    loop {
        tokio::select! {
            biased;
            change = claims.next() => match change {
                Some(change) => state.on_claim(&change),
                None => return,
            },
            change = volumes.next() => match change {
                Some(change) => state.on_volume(&change),
                None => return,
            },
            change = classes.next() => match change {
                Some(_) => state.look_at_unbound(),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => state.on_pod(&change),
                None => return,
            },
            () = state.queue.due(cluster.clock()) => {}
        }
        let now = cluster.clock().now();
        while let Some(item) = state.queue.pop(now) {
            match state.sync(&item) {
                Ok(()) => state.queue.succeeded(&item),
                Err(status) => {
                    tracing::debug!(%status, ?item, "looked at later");
                    state.queue.retry(item, now);
                }
            }
        }
    }
}

impl Volumes {
    fn on_claim(&mut self, change: &Change<PersistentVolumeClaim>) {
        let (Change::Applied { new: claim, .. } | Change::Deleted(claim)) = change;
        self.queue.add(Item::Claim(key(&claim.metadata)));
        if let Some(volume) = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()) {
            self.queue.add(Item::Volume(volume));
        }
    }

    fn on_volume(&mut self, change: &Change<PersistentVolume>) {
        let (Change::Applied { new: volume, .. } | Change::Deleted(volume)) = change;
        self.queue.add(Item::Volume(key(&volume.metadata).1));
        match volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
            Some(claim) => self.queue.add(Item::Claim((
                claim.namespace.clone().unwrap_or_default(),
                claim.name.clone().unwrap_or_default(),
            ))),
            None => self.look_at_unbound(),
        }
    }

    fn look_at_unbound(&mut self) {
        for claim in self.cluster.list::<PersistentVolumeClaim>("") {
            if claim.spec.as_ref().is_none_or(|spec| spec.volume_name.is_none()) {
                self.queue.add(Item::Claim(key(&claim.metadata)));
            }
        }
    }

    fn on_pod(&mut self, change: &Change<Pod>) {
        let (Change::Applied { new: pod, .. } | Change::Deleted(pod)) = change;
        let names = claims_of(pod);
        if names.is_empty() {
            return;
        }
        let (namespace, name) = key(&pod.metadata);
        self.queue.add(Item::Pod((namespace.clone(), name)));
        for (claim, _) in names {
            self.queue.add(Item::Claim((namespace.clone(), claim)));
        }
    }

    fn sync(&mut self, item: &Item) -> Result<(), Status> {
        match item {
            Item::Pod(pod) => self.make_claims(pod),
            Item::Claim(claim) => self.sync_claim(claim),
            Item::Volume(volume) => self.sync_volume(volume),
        }
    }

    /// Makes the claims of a pod's ephemeral volumes.
    fn make_claims(&self, pod: &Key) -> Result<(), Status> {
        let Some(pod) = self.cluster.get::<Pod>(&pod.0, &pod.1) else { return Ok(()) };
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let (namespace, name) = key(&pod.metadata);
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let template = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref());
            let Some(template) = template else { continue };
            let claim = format!("{name}-{}", volume.name);
            if self.cluster.get::<PersistentVolumeClaim>(&namespace, &claim).is_some() {
                continue;
            }
            let metadata = template.metadata.clone().unwrap_or_default();
            let claim = PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some(claim),
                    namespace: Some(namespace.clone()),
                    labels: metadata.labels,
                    annotations: metadata.annotations,
                    owner_references: Some(vec![controller_ref(&*pod)]),
                    ..ObjectMeta::default()
                },
                spec: Some(template.spec.clone()),
                status: None,
            };
            self.cluster.create(&namespace, &claim)?;
        }
        Ok(())
    }

    fn tell(&self, claim: &PersistentVolumeClaim, kind: EventType, reason: &str, message: &str) {
        let regarding = events::reference(claim);
        events::record(&self.cluster, CONTROLLER, None, &regarding, kind, reason, message);
    }
}

/// The claims that a pod's volumes are, and whether they are its own.
fn claims_of(pod: &Pod) -> Vec<(String, bool)> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claim = |volume: &k8s_openapi::api::core::v1::Volume| {
        let claimed = volume.persistent_volume_claim.as_ref();
        let own = volume.ephemeral.as_ref().map(|_| (format!("{name}-{}", volume.name), true));
        claimed.map(|claim| (claim.claim_name.clone(), false)).or(own)
    };
    volumes.filter_map(claim).collect()
}
