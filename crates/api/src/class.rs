//! Node classes of any provider, as far as they have something in common.

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use kube::Resource;
use kube::core::{ObjectMeta, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::nodepool::NodeClassRef;
use crate::{NodeClass, NodeClassStatus};

/// Which kind of class a provider launches machines with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassKind {
    /// `eks.amazonaws.com`.
    pub group: &'static str,
    /// `v1`.
    pub version: &'static str,
    /// `NodeClass`.
    pub kind: &'static str,
    /// `nodeclasses`.
    pub plural: &'static str,
}

impl ClassKind {
    /// Auto Mode's.
    pub const AUTO_MODE: Self = Self {
        group: "eks.amazonaws.com",
        version: "v1",
        kind: "NodeClass",
        plural: "nodeclasses",
    };

    /// That of Karpenter's KWOK provider.
    pub const KWOK: Self = Self {
        group: "karpenter.kwok.sh",
        version: "v1alpha1",
        kind: "KWOKNodeClass",
        plural: "kwoknodeclasses",
    };

    /// Whether a pool or claim refers to a class of this kind.
    #[must_use]
    pub fn is_meant_by(&self, reference: &NodeClassRef) -> bool {
        reference.kind == self.kind && reference.group == self.group
    }
}

/// A class: what it says is its provider's business, how it is its kind's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Kind and API version, where the server gives them.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub types: Option<TypeMeta>,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it says; null if it says nothing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub spec: Value,
    /// What is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeClassStatus>,
}

impl From<NodeClass> for Class {
    fn from(class: NodeClass) -> Self {
        let NodeClass { metadata, spec, status } = class;
        let kind = ClassKind::AUTO_MODE;
        let types = TypeMeta {
            api_version: format!("{}/{}", kind.group, kind.version),
            kind: kind.kind.to_owned(),
        };
        // Every field of it is JSON.
        let spec = serde_json::to_value(spec).unwrap_or_default();
        Self { types: Some(types), metadata, spec, status }
    }
}

impl Resource for Class {
    type DynamicType = ClassKind;
    type Scope = ClusterResourceScope;

    fn kind(kind: &ClassKind) -> Cow<'_, str> {
        kind.kind.into()
    }

    fn group(kind: &ClassKind) -> Cow<'_, str> {
        kind.group.into()
    }

    fn version(kind: &ClassKind) -> Cow<'_, str> {
        kind.version.into()
    }

    fn plural(kind: &ClassKind) -> Cow<'_, str> {
        kind.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_that_says_nothing_is_a_class() {
        let value = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
        });
        let class: Class = serde_json::from_value(value.clone()).unwrap();
        assert!(class.spec.is_null() && class.status.is_none());
        assert_eq!(serde_json::to_value(&class).unwrap(), value);
    }

    #[test]
    fn group_and_kind_both_count() {
        let mut reference = NodeClassRef {
            group: "karpenter.kwok.sh".to_owned(),
            kind: "KWOKNodeClass".to_owned(),
            name: "default".to_owned(),
        };
        assert!(ClassKind::KWOK.is_meant_by(&reference));
        assert!(!ClassKind::AUTO_MODE.is_meant_by(&reference));
        reference.group = "eks.amazonaws.com".to_owned();
        assert!(!ClassKind::KWOK.is_meant_by(&reference));
    }
}
