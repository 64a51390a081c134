//! Kubernetes' published OpenAPI document, as far as the tables need it.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use serde::Deserialize;

use super::modules::Modules;

/// The document.
#[derive(Deserialize)]
pub struct Document {
    /// Schemas by name: `io.k8s.api.core.v1.Pod`.
    pub definitions: BTreeMap<String, Definition>,
    /// Path templates with their operations.
    pub paths: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
}

/// A named type.
#[derive(Deserialize)]
pub struct Definition {
    /// Prose.
    #[serde(default)]
    pub description: String,
    /// Fields by JSON name.
    #[serde(default)]
    pub properties: BTreeMap<String, Property>,
    /// Names of required fields.
    #[serde(default)]
    pub required: Vec<String>,
    /// Kinds that this is the schema of.
    #[serde(default, rename = "x-kubernetes-group-version-kind")]
    pub kinds: Vec<Kind>,
    /// `atomic`: replaced as a whole by server-side apply.
    #[serde(default, rename = "x-kubernetes-map-type")]
    pub map_type: String,
}

/// A field, or an element of a list or map.
#[derive(Deserialize)]
pub struct Property {
    /// Prose.
    #[serde(default)]
    pub description: String,
    /// JSON type.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// `int32`, `int64`, `double`, `byte`.
    #[serde(default)]
    pub format: String,
    /// `#/definitions/...`.
    #[serde(default, rename = "$ref")]
    pub reference: String,
    /// Element of a list.
    pub items: Option<Box<Property>>,
    /// Value of a map.
    #[serde(rename = "additionalProperties")]
    pub values: Option<Box<Property>>,
    /// `atomic`, `set`, `map`.
    #[serde(default, rename = "x-kubernetes-list-type")]
    pub list_type: String,
    /// Keys of a list of type `map`.
    #[serde(default, rename = "x-kubernetes-list-map-keys")]
    pub map_keys: Vec<String>,
    /// Key by which a strategic merge patch merges.
    #[serde(default, rename = "x-kubernetes-patch-merge-key")]
    pub merge_key: String,
    /// `merge`, `replace`, `retainKeys`, comma-separated.
    #[serde(default, rename = "x-kubernetes-patch-strategy")]
    pub strategy: String,
    /// `atomic`.
    #[serde(default, rename = "x-kubernetes-map-type")]
    pub map_type: String,
}

/// Group, version and kind.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Empty for core.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `Pod`.
    pub kind: String,
}

/// Reads the document of the emulated version.
///
/// # Errors
///
/// It is not where the module has it, or has another form.
pub fn read(modules: &Modules) -> anyhow::Result<Document> {
    let path = modules.kubernetes.join("api/openapi-spec/swagger.json");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
}
