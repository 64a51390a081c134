//! What was decided.

use std::collections::BTreeMap;

use aerostat_api::nodepool::{NodeClassRef, NodeSelectorRequirement};
use aerostat_api::{Duration, NillableDuration, Quantity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use crate::pod::PodKey;

/// What to do now. Specific enough that whoever carries it out has no choices left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Claims to create.
    pub launches: Vec<Launch>,
    /// Pods that existing capacity (nodes, claims under way) will take.
    pub nominations: Vec<Nomination>,
    /// Claims to delete.
    pub terminations: Vec<Termination>,
    /// When to look again even if nothing changes.
    pub next: Option<Timestamp>,
}

/// A NodeClaim to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The pool it comes from.
    pub pool: String,
    /// The pool's UID.
    pub pool_uid: String,
    /// Labels of the claim.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the claim.
    pub annotations: BTreeMap<String, String>,
    /// Requirements of the claim, the instance types among them.
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Startup taints.
    pub startup_taints: Vec<Taint>,
    /// Its class.
    pub class: NodeClassRef,
    /// What its pods and daemons ask for.
    pub requests: BTreeMap<String, Quantity>,
    /// How long it may drain.
    pub termination_grace: Option<Duration>,
    /// How old it may grow.
    pub expire_after: Option<NillableDuration>,
    /// The pods it is for; promised ones are only counted.
    pub pods: Vec<PodKey>,
    /// How many promised pods it is for besides.
    pub promised: u32,
}

/// Pods that go on capacity that is there or on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Nomination {
    /// The pod.
    pub pod: PodKey,
    /// The claim, if Aerostat manages the machine.
    pub claim: Option<String>,
    /// The node, if there is one.
    pub node: Option<String>,
}

/// A NodeClaim to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct Termination {
    /// The claim.
    pub claim: String,
    /// Its node.
    pub node: Option<String>,
    /// Its pool.
    pub pool: String,
    /// Why: `Empty`.
    pub reason: String,
}
