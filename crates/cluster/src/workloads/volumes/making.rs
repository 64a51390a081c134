//! Volumes of the drivers that are played here: EBS, of Auto Mode and as an add-on.
//!
//! Texts and objects are those of kubernetes-csi/external-provisioner `pkg/controller`.

use std::collections::BTreeMap;

use aerostat_api::labels;
use aerostat_engine::storage::{Claim, Class};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::owner::key;
use super::claims::reference_to;
use super::{Item, Volumes};
use crate::events::{self, EventType};
use crate::status::Status;
use crate::store::Key;

/// The drivers that are played here.
pub(super) const PLAYED: [&str; 2] = ["ebs.csi.eks.amazonaws.com", "ebs.csi.aws.com"];
/// Says which driver has made a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// How long a volume of EBS takes to become available.
const TAKES: SignedDuration = SignedDuration::from_secs(2);
/// When to look again for a zone.
const RETRY: SignedDuration = SignedDuration::from_secs(5);
const GIB: i64 = 1 << 30;

impl Volumes {
    /// Has the volume of a claim made: begins, waits, and ends here.
    pub(super) fn make(
        &mut self,
        at: &Key,
        claim: &PersistentVolumeClaim,
        wanted: &Claim,
        class: &Class,
        object: &StorageClass,
        node: Option<&str>,
    ) -> Result<(), Status> {
        let driver = class.provisioner.as_str();
        let annotations = claim.metadata.annotations.as_ref();
        if annotations.and_then(|all| all.get(PROVISIONER)).is_none_or(|known| known != driver) {
            self.cluster.modify::<PersistentVolumeClaim>(&at.0, &at.1, |claim| {
                let annotations = claim.metadata.annotations.get_or_insert_default();
                annotations.insert(PROVISIONER.to_owned(), driver.to_owned());
            })?;
            let waits = format!(
                "Waiting for a volume to be created either by the external provisioner '{driver}' \
                 or manually by the system administrator. If volume creation is delayed, please \
                 verify that the provisioner is running and correctly registered."
            );
            self.tell(claim, EventType::Normal, "ExternalProvisioning", &waits);
        }
        if !PLAYED.contains(&driver) {
            return Ok(());
        }
        let now = self.cluster.clock().now();
        let say = |kind: EventType, reason: &str, message: &str| {
            let regarding = events::reference(claim);
            events::record(&self.cluster, driver, None, &regarding, kind, reason, message);
        };
        let Some(zone) = self.zone(class, node) else {
            let why = format!(
                "failed to provision volume with StorageClass {:?}: error generating \
                 accessibility requirements: no available topology found",
                wanted.class
            );
            say(EventType::Warning, "ProvisioningFailed", &why);
            self.queue.add_at(now + RETRY, Item::Claim(at.clone()));
            return Ok(());
        };
        let due = self.making.get(at).copied().unwrap_or_else(|| {
            let message = format!(
                "External provisioner is provisioning volume for claim \"{}/{}\"",
                at.0, at.1
            );
            say(EventType::Normal, "Provisioning", &message);
            now + TAKES
        });
        if now < due {
            self.making.insert(at.clone(), due);
            self.queue.add_at(due, Item::Claim(at.clone()));
            return Ok(());
        }
        let made = volume(claim, wanted, object, driver, &zone);
        let name = key(&made.metadata).1;
        match self.cluster.create("", &made) {
            Err(status) if status.reason != "AlreadyExists" => return Err(status),
            _ => {}
        }
        self.making.remove(at);
        let message = format!("Successfully provisioned volume {name}");
        say(EventType::Normal, "ProvisioningSucceeded", &message);
        // Its news lead to the binding.
        Ok(())
    }

    /// The zone of a new volume: that of the pod's node; for a claim that does not wait, the first
    /// one with nodes that its class allows.
    fn zone(&self, class: &Class, node: Option<&str>) -> Option<String> {
        let zone_of = |node: &Node| node.metadata.labels.as_ref()?.get(labels::ZONE).cloned();
        if let Some(node) = node {
            return zone_of(&*self.cluster.get::<Node>("", node)?);
        }
        let allowed = |node: &Node| {
            let node_labels = node.metadata.labels.clone().unwrap_or_default();
            class.terms.as_ref().is_none_or(|terms| {
                let holds =
                    |term| aerostat_engine::predicates::matches_term(term, None, &node_labels);
                terms.iter().any(holds)
            })
        };
        let nodes = self.cluster.list::<Node>("");
        nodes.iter().filter(|node| allowed(node)).filter_map(|node| zone_of(node)).min()
    }
}

/// The volume of a claim.
fn volume(
    claim: &PersistentVolumeClaim,
    wanted: &Claim,
    class: &StorageClass,
    driver: &str,
    zone: &str,
) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    // EBS has whole gibibytes.
    let size = wanted.wanted.size.max(1).saturating_add(GIB - 1) / GIB;
    let in_zone = NodeSelectorRequirement {
        key: labels::ZONE.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![zone.to_owned()]),
    };
    let term = NodeSelectorTerm { match_expressions: Some(vec![in_zone]), match_fields: None };
    let file_system = class.parameters.as_ref();
    let file_system = file_system.and_then(|all| all.get("csi.storage.k8s.io/fstype").cloned());
    let id: String = wanted.uid.chars().filter(char::is_ascii_hexdigit).take(17).collect();
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(format!("pvc-{}", wanted.uid)),
            annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), driver.to_owned())])),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: Some([("storage".to_owned(), Quantity(format!("{size}Gi")))].into()),
            claim_ref: Some(reference_to(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: driver.to_owned(),
                fs_type: Some(file_system.unwrap_or_else(|| "ext4".to_owned())),
                volume_handle: format!("vol-{id:0<17}"),
                ..CSIPersistentVolumeSource::default()
            }),
            mount_options: class.mount_options.clone(),
            node_affinity: Some(VolumeNodeAffinity {
                required: Some(NodeSelector { node_selector_terms: vec![term] }),
            }),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}
