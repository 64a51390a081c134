//! NodeOverlay `karpenter.sh/v1alpha1`: prices and resources that the provider does not know of.
//!
//! Source: kubernetes-sigs/karpenter `pkg/apis/v1alpha1/nodeoverlay.go`.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::nodepool::NodeSelectorRequirement;
use crate::{Condition, Quantity};

/// What a NodeOverlay says.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    status = "NodeOverlayStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// Which offerings it is about: labels of their nodes.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// What is added to their price: `+0.5`, `-0.25` (USD per hour), `+10%`, `-15%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Their price instead, USD per hour; not together with `price_adjustment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Extended resources that their machines have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// Of overlays that say different things the one of higher weight holds; unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// What is known of a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// ValidationSucceeded, Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
