//! Volumes without a claim: which wait for one, which stay, which go.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::Volumes;
use super::claims::is_for;
use super::making::{PLAYED, PROVISIONED_BY};
use crate::registry::DeleteOptions;
use crate::status::Status;

const FINALIZER: &str = "kubernetes.io/pv-protection";

impl Volumes {
    pub(super) fn sync_volume(&self, name: &str) -> Result<(), Status> {
        let Some(volume) = self.cluster.get::<PersistentVolume>("", name) else { return Ok(()) };
        let spec = volume.spec.clone().unwrap_or_default();
        let claim = spec.claim_ref.as_ref().and_then(|reference| {
            let (namespace, name) = (reference.namespace.as_ref()?, reference.name.as_ref()?);
            self.cluster.get::<PersistentVolumeClaim>(namespace, name)
        });
        if let Some(claim) = claim.filter(|claim| is_for(&volume, claim)) {
            let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
            let is_going = claim.metadata.deletion_timestamp.is_some();
            return if named == Some(name) && !is_going {
                self.bind(&volume, &claim)
            } else {
                Ok(())
            };
        }
        // One that names a claim without its UID is kept for a claim to come.
        let was_bound = spec.claim_ref.as_ref().is_some_and(|r| r.uid.is_some());
        let phase = if was_bound { "Released" } else { "Available" };
        if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some(phase) {
            self.cluster.modify_status::<PersistentVolume>("", name, |volume| {
                volume.status.get_or_insert_default().phase = Some(phase.to_owned());
            })?;
        }
        if volume.metadata.deletion_timestamp.is_some() {
            self.cluster.modify::<PersistentVolume>("", name, |volume| {
                let finalizers = volume.metadata.finalizers.get_or_insert_default();
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            })?;
            return Ok(());
        }
        let annotations = volume.metadata.annotations.as_ref();
        let maker = annotations.and_then(|all| all.get(PROVISIONED_BY));
        let is_ours = maker.is_some_and(|maker| PLAYED.contains(&maker.as_str()));
        let goes = spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
        if was_bound && goes && is_ours {
            self.cluster.delete::<PersistentVolume>("", name, &DeleteOptions::default())?;
        }
        Ok(())
    }
}
