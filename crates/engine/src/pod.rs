//! Pods as the predicates see them.
//!
//! The types are here; `read` makes them of Kubernetes' objects, `requests` does the arithmetic,
//! `affinity` has what a pod says of other pods.

mod affinity;
mod read;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;

use crate::resources::Resources;
use crate::storage::Volumes;

pub use affinity::{Expression, PodSet, PodTerm, PreferredPodTerm, Selector, Spread};

/// Namespace and name of a pod.
pub type PodKey = (String, String);

/// The host IP that stands for all.
pub(crate) const ANY_IP: &str = "0.0.0.0";

/// What a pod asks of a node, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID; empty for a pod that is only promised.
    pub uid: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations that matter to decisions (`karpenter.sh/…`, deletion cost).
    pub annotations: BTreeMap<String, String>,
    /// Kind, name and UID of the controlling owner.
    pub owner: Option<Owner>,
    /// What it asks for, `pods: 1` included.
    pub requests: Resources,
    /// The cpu and memory that scores count it with: as [`Pod::requests`], but at least 100m and
    /// 200Mi for a container that asks for none.
    pub scored: Resources,
    /// Constraints on its node.
    pub constraints: Constraints,
    /// Its priority.
    pub priority: i32,
    /// Whether it may preempt others.
    pub preempts: bool,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// The node that a preemption makes room on for it.
    pub nominated_node: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When its kubelet took it up.
    pub started: Option<Timestamp>,
    /// Since when the scheduler has found it unschedulable.
    pub unschedulable_since: Option<Timestamp>,
    /// Whether scheduling gates hold it.
    pub gated: bool,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// When its deletion is over: the deletion timestamp.
    pub ends: Option<Timestamp>,
    /// How many seconds it may take to stop.
    pub grace_seconds: i64,
    /// Whether it has ended (Succeeded or Failed).
    pub terminal: bool,
    /// The claims of its volumes.
    pub claims: Vec<ClaimRef>,
    /// Constraints that this version cannot judge, named for people.
    pub unsupported: Vec<String>,
}

/// A PersistentVolumeClaim that a pod uses, of its own namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// Its name; of an ephemeral volume, `<pod>-<volume>`.
    pub name: String,
    /// Whether it is made for this pod's ephemeral volume and goes with the pod.
    pub is_ephemeral: bool,
}

/// Who controls a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its kind, `ReplicaSet` for example.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What a pod demands of its node besides room.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of these terms must hold; `None` if there is none.
    pub node_affinity: Option<Vec<core::NodeSelectorTerm>>,
    /// Preferred node affinity, weighted.
    pub preferred_affinity: Vec<core::PreferredSchedulingTerm>,
    /// `spec.tolerations`.
    pub tolerations: Vec<core::Toleration>,
    /// Host ports: protocol, host IP, port.
    pub host_ports: Vec<(String, String, i32)>,
    /// Required pod affinity: all of these.
    pub pod_affinity: Vec<PodTerm>,
    /// Required pod anti-affinity: none of these.
    pub pod_anti_affinity: Vec<PodTerm>,
    /// Preferred pod affinity and anti-affinity.
    pub preferred_pods: Vec<PreferredPodTerm>,
    /// Topology spread constraints, required ones and wishes.
    pub spread: Vec<Spread>,
    /// What its volumes demand; nothing until somebody has looked its claims up.
    pub volumes: Volumes,
}
