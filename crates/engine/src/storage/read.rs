//! Claims, volumes and classes out of Kubernetes' objects.

use std::collections::BTreeMap;

use aerostat_api::labels;
use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::{Claim, Class, Volume, Wanted};
use crate::pod::Selector;

/// Says that a claim's binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation that named a class before there was a field.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Labels by which CSI drivers mean the zone.
const ZONES: [&str; 5] = [
    "topology.ebs.csi.aws.com/zone",
    "topology.ebs.csi.eks.amazonaws.com/zone",
    "topology.gke.io/zone",
    "topology.disk.csi.azure.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

/// The label that new nodes are known to have in place of a driver's own.
#[must_use]
pub fn topology_label(key: &str) -> &str {
    match key {
        key if ZONES.contains(&key) => labels::ZONE,
        "failure-domain.beta.kubernetes.io/region" => labels::REGION,
        key => key,
    }
}

impl Claim {
    /// Reads a claim.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read.
    pub fn from_k8s(claim: &PersistentVolumeClaim) -> Result<Self, String> {
        let meta = &claim.metadata;
        let spec = claim.spec.clone().unwrap_or_default();
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let owners = meta.owner_references.iter().flatten();
        let mut owners = owners.filter(|o| o.controller == Some(true) && o.kind == "Pod");
        let requests = spec.resources.and_then(|resources| resources.requests).unwrap_or_default();
        let volume = spec.volume_name.filter(|name| !name.is_empty());
        Ok(Self {
            uid: meta.uid.clone().unwrap_or_default(),
            is_bound: volume.is_some() && annotation(BIND_COMPLETED).is_some(),
            volume,
            is_lost: phase == Some("Lost"),
            is_deleting: meta.deletion_timestamp.is_some(),
            class: annotation(BETA_CLASS).cloned().or(spec.storage_class_name).unwrap_or_default(),
            owner: owners.next().map(|owner| owner.uid.clone()),
            wanted: Wanted {
                size: size(&requests)
                    .map_err(|error| format!("spec.resources.requests.storage: {error}"))?,
                modes: spec.access_modes.unwrap_or_default(),
                is_block: spec.volume_mode.as_deref() == Some("Block"),
                selector: spec.selector.as_ref().map(Selector::from_k8s),
            },
        })
    }
}

impl Volume {
    /// Reads a volume.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read.
    pub fn from_k8s(volume: &PersistentVolume) -> Result<Self, String> {
        let meta = &volume.metadata;
        let spec = volume.spec.clone().unwrap_or_default();
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let required = spec.node_affinity.and_then(|affinity| affinity.required);
        let claim = spec.claim_ref.as_ref();
        let claim = claim.map(|claim| {
            (claim.namespace.clone().unwrap_or_default(), claim.name.clone().unwrap_or_default())
        });
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        Ok(Self {
            class: annotation(BETA_CLASS).cloned().or(spec.storage_class_name).unwrap_or_default(),
            terms: required.map(|selector| translated(selector.node_selector_terms)),
            driver: spec.csi.map(|csi| csi.driver).or_else(|| {
                let ebs = spec.aws_elastic_block_store.is_some();
                ebs.then(|| "ebs.csi.aws.com".to_owned())
            }),
            claim,
            is_available: meta.deletion_timestamp.is_none()
                && !matches!(phase, Some("Released" | "Failed" | "Bound")),
            size: size(&spec.capacity.unwrap_or_default())
                .map_err(|error| format!("spec.capacity.storage: {error}"))?,
            modes: spec.access_modes.unwrap_or_default(),
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            labels: meta.labels.clone().unwrap_or_default(),
        })
    }
}

impl Class {
    /// Reads a class.
    #[must_use]
    pub fn from_k8s(class: &StorageClass) -> Self {
        let topologies = class.allowed_topologies.clone().filter(|terms| !terms.is_empty());
        let terms = topologies.map(|terms| {
            let term = |term: k8s_openapi::api::core::v1::TopologySelectorTerm| {
                let expressions = term.match_label_expressions.unwrap_or_default().into_iter();
                let expressions = expressions.map(|expression| NodeSelectorRequirement {
                    key: expression.key,
                    operator: "In".to_owned(),
                    values: Some(expression.values),
                });
                let expressions = expressions.collect();
                NodeSelectorTerm { match_expressions: Some(expressions), match_fields: None }
            };
            translated(terms.into_iter().map(term).collect())
        });
        Self {
            provisioner: class.provisioner.clone(),
            waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            terms,
        }
    }
}

/// How many volumes of each driver a node can attach; drivers without a limit are left out.
#[must_use]
pub fn attach_limits(node: &CSINode) -> BTreeMap<String, u32> {
    let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.clone(), u32::try_from(count).unwrap_or(0)))
    };
    node.spec.drivers.iter().filter_map(limit).collect()
}

fn translated(mut terms: Vec<NodeSelectorTerm>) -> Vec<NodeSelectorTerm> {
    for expression in terms.iter_mut().flat_map(|term| term.match_expressions.iter_mut().flatten())
    {
        let label = topology_label(&expression.key);
        if label != expression.key {
            expression.key = label.to_owned();
        }
    }
    terms
}

fn size(amounts: &BTreeMap<String, Text>) -> Result<i64, String> {
    let Some(text) = amounts.get("storage") else { return Ok(0) };
    let amount: aerostat_api::Quantity = text.0.parse().map_err(|error| format!("{error}"))?;
    Ok(amount.units())
}
