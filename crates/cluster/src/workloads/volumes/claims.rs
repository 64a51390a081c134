//! A claim finds its volume.

use aerostat_engine::storage::{Claim, Class, Volume};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use super::super::owner::{key, uid};
use super::super::pods::is_finished;
use super::{Volumes, claims_of};
use crate::events::EventType;
use crate::scheduler::SELECTED_NODE;
use crate::status::Status;
use crate::store::Key;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The provisioner of classes whose volumes people make.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

impl Volumes {
    pub(super) fn sync_claim(&mut self, at: &Key) -> Result<(), Status> {
        let Some(claim) = self.cluster.get::<PersistentVolumeClaim>(&at.0, &at.1) else {
            self.making.remove(at);
            return Ok(());
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return self.let_go(at, &claim);
        }
        match claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) {
            Some(volume) if !volume.is_empty() => self.keep(&claim, volume),
            _ => self.find(at, &claim),
        }
    }

    /// Takes the finalizer off once no pod uses the claim. Pods without a node do not: no kubelet
    /// would start them with a claim that is being deleted.
    fn let_go(&mut self, at: &Key, claim: &PersistentVolumeClaim) -> Result<(), Status> {
        let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
        let uses = |pod: &Pod| {
            let is_scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            is_scheduled
                && !is_finished(pod)
                && claims_of(pod).iter().any(|(name, _)| *name == at.1)
        };
        let is_protected = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        if !is_protected || self.cluster.list::<Pod>(&at.0).iter().any(|pod| uses(pod)) {
            return Ok(());
        }
        self.cluster.modify::<PersistentVolumeClaim>(&at.0, &at.1, |claim| {
            let finalizers = claim.metadata.finalizers.get_or_insert_default();
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        })?;
        Ok(())
    }

    /// A claim names its volume: binds it, or says that it is lost.
    fn keep(&self, claim: &PersistentVolumeClaim, volume: &str) -> Result<(), Status> {
        let annotations = claim.metadata.annotations.as_ref();
        let was_bound = annotations.is_some_and(|all| all.contains_key(BIND_COMPLETED));
        let lost = match self.cluster.get::<PersistentVolume>("", volume) {
            None => (
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ),
            Some(volume) if is_for(&volume, claim) => return self.bind(&volume, claim),
            Some(_) => (
                "ClaimMisbound",
                "Two claims are bound to the same volume, this one is bound incorrectly",
            ),
        };
        if was_bound && phase(claim) != "Lost" {
            let (namespace, name) = key(&claim.metadata);
            self.cluster.modify_status::<PersistentVolumeClaim>(&namespace, &name, |claim| {
                claim.status.get_or_insert_default().phase = Some("Lost".to_owned());
            })?;
            self.tell(claim, EventType::Warning, lost.0, lost.1);
        }
        Ok(())
    }

    /// A claim names no volume: looks for one, or has one made.
    fn find(&mut self, at: &Key, claim: &PersistentVolumeClaim) -> Result<(), Status> {
        let Ok(wanted) = Claim::from_k8s(claim) else { return Ok(()) };
        let object = self.cluster.get::<StorageClass>("", &wanted.class);
        let class = object.as_ref().map(|class| Class::from_k8s(class));
        let annotations = claim.metadata.annotations.as_ref();
        let node = annotations.and_then(|all| all.get(SELECTED_NODE));
        let waits = class.as_ref().is_some_and(|class| class.waits);
        let mut there: Vec<(Volume, std::sync::Arc<PersistentVolume>)> = Vec::new();
        for volume in self.cluster.list::<PersistentVolume>("") {
            let Ok(read) = Volume::from_k8s(&volume) else { continue };
            // Which of the others a claim that waits may have is for the scheduler to say.
            if read.suits(at, &wanted) && (!waits || read.claim.is_some()) {
                there.push((read, volume));
            }
        }
        there.sort_by_key(|(read, volume)| {
            (read.claim.is_none(), read.size, volume.metadata.name.clone())
        });
        if let Some((_, volume)) = there.first() {
            return self.bind(volume, claim);
        }
        let normal = EventType::Normal;
        let (Some(class), Some(object)) = (class, object) else {
            if wanted.class.is_empty() {
                let why = "no persistent volumes available for this claim and no storage class \
                           is set";
                self.tell(claim, normal, "FailedBinding", why);
            } else {
                let why = format!("storageclass.storage.k8s.io {:?} not found", wanted.class);
                self.tell(claim, EventType::Warning, "ProvisioningFailed", &why);
            }
            return Ok(());
        };
        if waits && node.is_none() {
            return self.tell_that_it_waits(at, claim);
        }
        if class.provisioner == NO_PROVISIONER {
            let why = "no volume plugin matched name: kubernetes.io/no-provisioner";
            self.tell(claim, EventType::Warning, "ProvisioningFailed", why);
            return Ok(());
        }
        self.make(at, claim, &wanted, &class, &object, node.map(String::as_str))
    }

    fn tell_that_it_waits(&self, at: &Key, claim: &PersistentVolumeClaim) -> Result<(), Status> {
        let pods = self.cluster.list::<Pod>(&at.0);
        let waiting = pods.iter().find(|pod| {
            pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none())
                && claims_of(pod).iter().any(|(name, _)| *name == at.1)
        });
        let (reason, message) = match waiting {
            None => (
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding".to_owned(),
            ),
            Some(pod) => (
                "WaitForPodScheduled",
                format!("waiting for pod {} to be scheduled", key(&pod.metadata).1),
            ),
        };
        self.tell(claim, EventType::Normal, reason, &message);
        Ok(())
    }

    /// Makes volume and claim name each other.
    pub(super) fn bind(
        &self,
        volume: &PersistentVolume,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), Status> {
        let (name, at) = (key(&volume.metadata).1, key(&claim.metadata));
        let mut bound = std::sync::Arc::new(volume.clone());
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        if reference.is_none_or(|reference| reference.uid.as_deref() != Some(uid(&claim.metadata)))
        {
            bound = self.cluster.modify::<PersistentVolume>("", &name, |volume| {
                let spec = volume.spec.get_or_insert_default();
                if spec.claim_ref.is_none() {
                    let annotations = volume.metadata.annotations.get_or_insert_default();
                    annotations.insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
                }
                spec.claim_ref = Some(reference_to(claim));
            })?;
        }
        if bound.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
            self.cluster.modify_status::<PersistentVolume>("", &name, |volume| {
                volume.status.get_or_insert_default().phase = Some("Bound".to_owned());
            })?;
        }
        let spec = claim.spec.as_ref();
        let annotations = claim.metadata.annotations.as_ref();
        if spec.is_none_or(|spec| spec.volume_name.is_none())
            || annotations.is_none_or(|all| !all.contains_key(BIND_COMPLETED))
        {
            self.cluster.modify::<PersistentVolumeClaim>(&at.0, &at.1, |claim| {
                let annotations = claim.metadata.annotations.get_or_insert_default();
                annotations.insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
                let spec = claim.spec.get_or_insert_default();
                if spec.volume_name.is_none() {
                    annotations.insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
                    spec.volume_name = Some(name.clone());
                }
            })?;
        }
        if phase(claim) != "Bound" {
            let spec = bound.spec.clone().unwrap_or_default();
            self.cluster.modify_status::<PersistentVolumeClaim>(&at.0, &at.1, |claim| {
                let status = claim.status.get_or_insert_default();
                status.phase = Some("Bound".to_owned());
                status.access_modes.clone_from(&spec.access_modes);
                status.capacity.clone_from(&spec.capacity);
            })?;
        }
        Ok(())
    }
}

/// A volume's reference to its claim.
pub(super) fn reference_to(claim: &PersistentVolumeClaim) -> ObjectReference {
    crate::events::reference(claim)
}

/// Whether a volume is kept for a claim, or for nobody.
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        return true;
    };
    let at = key(&claim.metadata);
    (reference.namespace.as_deref(), reference.name.as_deref()) == (Some(&*at.0), Some(&*at.1))
        && reference.uid.as_deref().is_none_or(|id| id.is_empty() || id == uid(&claim.metadata))
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}
