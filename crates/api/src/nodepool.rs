//! NodePool `karpenter.sh/v1`: what nodes may be launched, and how they are given up.
//!
//! Source: kubernetes-sigs/karpenter `pkg/apis/v1/nodepool.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::{Condition, Duration, NillableDuration, Quantity};

/// What a NodePool says.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    status = "NodePoolStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// What its claims look like.
    pub template: NodeClaimTemplate,
    /// How its nodes may be given up.
    #[serde(default)]
    pub disruption: Disruption,
    /// How much it may hold in all: `cpu`, `memory`, `nodes`, any extended resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Pools of higher weight are tried first; unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Set: a static pool that holds this many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// The template of a pool's claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    /// Labels and annotations that the nodes get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The rest.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// Labels; `Some(empty)` and `None` hash differently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations; `Some(empty)` and `None` hash differently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The spec of a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints that something else removes before the node counts as initialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What the nodes must be.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Which class they use.
    pub node_class_ref: NodeClassRef,
    /// How long a node may drain before it is forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<Duration>,
    /// How old a node may grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<NillableDuration>,
}

/// A requirement on a node label, with Karpenter's `minValues`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte`, `Lte`.
    pub operator: String,
    /// Values for the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// How many different values must stay possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

/// Points to a NodeClass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeClassRef {
    /// `eks.amazonaws.com` for Auto Mode's.
    pub group: String,
    /// `NodeClass` for Auto Mode's.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// How nodes may be given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must have been quiet before it is consolidated.
    #[serde(default = "zero_seconds")]
    pub consolidate_after: NillableDuration,
    /// `WhenEmpty`, `WhenEmptyOrUnderutilized` or `Balanced`.
    #[serde(default = "default_policy")]
    pub consolidation_policy: String,
    /// How many nodes may go at a time.
    #[serde(default = "default_budgets")]
    pub budgets: Vec<Budget>,
}

/// How many nodes of a pool may be disrupted at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// A number or a percentage.
    pub nodes: String,
    /// For which reasons; unset for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<String>>,
    /// When it begins to hold, as cron in UTC; with `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
}

fn zero_seconds() -> NillableDuration {
    NillableDuration::parse("0s").expect("0s is a duration")
}
fn default_policy() -> String {
    "WhenEmptyOrUnderutilized".to_owned()
}
fn default_budgets() -> Vec<Budget> {
    vec![Budget { nodes: "10%".to_owned(), reasons: None, schedule: None, duration: None }]
}
impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: zero_seconds(),
            consolidation_policy: default_policy(),
            budgets: default_budgets(),
        }
    }
}

/// What is known of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Capacity that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Nodes that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// The NodeClass generation that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// ValidationSucceeded, NodeClassReady, NodeRegistrationHealthy, Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
