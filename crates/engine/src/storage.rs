//! Persistent volumes: claims, volumes and classes, and what they demand of a pod's node.
//!
//! The types are here; `read` makes them of Kubernetes' objects, `resolve` says what a pod's claims
//! demand.

mod read;
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelectorTerm;

use crate::pod::Selector;

pub use read::{attach_limits, topology_label};
pub use resolve::Unresolved;

/// Namespace and name of a claim.
pub type ClaimKey = (String, String);

/// Everything that is known of persistent volumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    /// PersistentVolumeClaims.
    pub claims: BTreeMap<ClaimKey, Claim>,
    /// PersistentVolumes, by name.
    pub volumes: BTreeMap<String, Volume>,
    /// StorageClasses, by name.
    pub classes: BTreeMap<String, Class>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// The volume that it names.
    pub volume: Option<String>,
    /// Whether that volume is bound to it.
    pub is_bound: bool,
    /// Whether its volume is gone.
    pub is_lost: bool,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
    /// Its class; empty for none.
    pub class: String,
    /// The UID of its owner, if it was made for a pod's ephemeral volume.
    pub owner: Option<String>,
    /// What a volume must have to be bound to it.
    pub wanted: Wanted,
}

/// What a claim asks of its volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Bytes.
    pub size: i64,
    /// Access modes.
    pub modes: Vec<String>,
    /// `Block` instead of `Filesystem`.
    pub is_block: bool,
    /// The labels that it must have.
    pub selector: Option<Selector>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// Its class; empty for none.
    pub class: String,
    /// Its node affinity: one of these terms must hold; `None` if it can be used on every node.
    pub terms: Option<Vec<NodeSelectorTerm>>,
    /// Its CSI driver.
    pub driver: Option<String>,
    /// The claim that it is kept for.
    pub claim: Option<ClaimKey>,
    /// Whether it may be bound: neither released, failed nor being deleted.
    pub is_available: bool,
    /// Bytes.
    pub size: i64,
    /// Access modes.
    pub modes: Vec<String>,
    /// `Block` instead of `Filesystem`.
    pub is_block: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// Who makes volumes of it.
    pub provisioner: String,
    /// `WaitForFirstConsumer` instead of `Immediate`.
    pub waits: bool,
    /// Where volumes can be: one of these terms must hold; `None` for everywhere.
    pub terms: Option<Vec<NodeSelectorTerm>>,
}

/// What a pod's volumes demand of its node; [`Storage::resolve`] finds it out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// For each volume that is there and cannot be used everywhere, the terms of its node affinity,
    /// of which one must hold.
    pub bound: Vec<Vec<NodeSelectorTerm>>,
    /// The same for each volume that is still to be bound or made.
    pub unbound: Vec<Vec<NodeSelectorTerm>>,
    /// How many volumes are attached, by CSI driver. A volume that two pods share counts twice.
    pub attached: BTreeMap<String, u32>,
}

impl Volume {
    /// Whether a claim may be bound to it.
    #[must_use]
    pub fn suits(&self, key: &ClaimKey, claim: &Claim) -> bool {
        let wanted = &claim.wanted;
        self.is_available
            && self.claim.as_ref().is_none_or(|kept| kept == key)
            && self.class == claim.class
            && self.size >= wanted.size
            && self.is_block == wanted.is_block
            && wanted.modes.iter().all(|mode| self.modes.contains(mode))
            && wanted.selector.as_ref().is_none_or(|s| s.matches(&self.labels))
    }
}
