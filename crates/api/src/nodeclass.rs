//! NodeClass `eks.amazonaws.com/v1`: Auto Mode's machine settings.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Condition;

/// What a NodeClass says. Fields that only a real cloud reads are kept as they came.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "eks.amazonaws.com",
    version = "v1",
    kind = "NodeClass",
    plural = "nodeclasses",
    status = "NodeClassStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassSpec {
    /// The node's disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<EphemeralStorage>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The data volume of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EphemeralStorage {
    /// Its size, `80Gi` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What is known of a NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeClassStatus {
    /// SubnetsReady, SecurityGroupsReady, InstanceProfileReady, Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}
