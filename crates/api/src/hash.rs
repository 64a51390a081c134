//! Karpenter's hash of a NodePool's template: when it differs from the one that a claim was
//! stamped with, the claim has drifted.
//!
//! The algorithm is mitchellh/hashstructure v2.0.2 `Hash` (FormatV2; SlicesAsSets,
//! IgnoreZeroValue, ZeroNil) over Go's `NodeClaimTemplate`, kubernetes-sigs/karpenter
//! `pkg/apis/v1/nodepool.go`. It walks Go values, so Go's type and field names are part of it,
//! and an empty map that was written differs from one that was not.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassRef};
use crate::{Duration, NillableDuration};

/// What `karpenter.sh/nodepool-hash-version` says of this algorithm.
pub const VERSION: &str = "v3";

/// The value of `karpenter.sh/nodepool-hash` for a pool with this template. Requirements are no
/// part of it.
#[must_use]
pub fn nodepool_hash(template: &NodeClaimTemplate) -> String {
    let metadata = template.metadata.as_ref();
    let metadata = Struct::new("ObjectMeta")
        .field("Labels", metadata.and_then(|m| m.labels.as_ref()).map(map))
        .field("Annotations", metadata.and_then(|m| m.annotations.as_ref()).map(map));
    Struct::new("NodeClaimTemplate")
        .field("ObjectMeta", metadata.unless_zero())
        .field("Spec", template_spec(&template.spec).unless_zero())
        .hash
        .to_string()
}

/// What `eks.amazonaws.com/nodeclass-hash-version` says of [`nodeclass_hash`]. How Auto Mode hashes a
/// class is not known: its own hashes have version `v1`, and are not compared with these.
pub const NODECLASS_VERSION: &str = "aerostat-v1";

/// The value of `eks.amazonaws.com/nodeclass-hash` for a class with this spec: the 64-bit FNV-1 hash
/// of its JSON, keys sorted.
#[must_use]
pub fn nodeclass_hash(spec: &Value) -> String {
    fnv(spec.to_string().as_bytes()).to_string()
}

fn template_spec(spec: &NodeClaimTemplateSpec) -> Struct {
    Struct::new("NodeClaimTemplateSpec")
        .field("Taints", spec.taints.as_deref().map(taints))
        .field("StartupTaints", spec.startup_taints.as_deref().map(taints))
        .field("NodeClassRef", Some(class_ref(&spec.node_class_ref)))
        .field("TerminationGracePeriod", spec.termination_grace_period.map(duration))
        .field("ExpireAfter", spec.expire_after.as_ref().and_then(nillable))
}

fn class_ref(class: &NodeClassRef) -> u64 {
    Struct::new("NodeClassReference")
        .field("Kind", text(&class.kind))
        .field("Name", text(&class.name))
        .field("Group", text(&class.group))
        .hash
}

/// A set: order does not matter, and two equal taints cancel out.
fn taints(taints: &[Taint]) -> u64 {
    taints.iter().map(taint).fold(0, |set, taint| set ^ taint)
}

fn taint(taint: &Taint) -> u64 {
    Struct::new("Taint")
        .field("Key", text(&taint.key))
        .field("Value", taint.value.as_deref().and_then(text))
        .field("Effect", text(&taint.effect))
        .field("TimeAdded", taint.time_added.as_ref().map(time))
        .hash
}

/// `metav1.Duration`: a struct around nanoseconds.
fn duration(duration: Duration) -> u64 {
    let nanos = duration.nanos();
    Struct::new("Duration").field("Duration", (nanos != 0).then(|| int(nanos))).hash
}

/// `NillableDuration`: a pointer to nanoseconds; `Never` is nil and so a zero value.
fn nillable(value: &NillableDuration) -> Option<u64> {
    let nanos = value.duration?.nanos();
    Some(Struct::new("NillableDuration").field("Duration", Some(int(nanos))).hash)
}

/// `metav1.Time`: a struct around Go's `Time.MarshalBinary`, in a process whose zone is UTC.
fn time(time: &Time) -> u64 {
    /// Seconds from the first of January of the year 1 to the Unix epoch.
    const YEAR_ONE: i64 = 62_135_596_800;
    let mut bytes = vec![1];
    bytes.extend((time.0.as_second() + YEAR_ONE).to_be_bytes());
    bytes.extend(time.0.subsec_nanosecond().to_be_bytes());
    bytes.extend(0_i16.to_be_bytes());
    Struct::new("Time").field("Time", Some(fnv(&bytes))).hash
}

fn map(map: &BTreeMap<String, String>) -> u64 {
    let entry =
        |(key, value): (&String, &String)| ordered(fnv(key.as_bytes()), fnv(value.as_bytes()));
    finish(map.iter().map(entry).fold(0, |sum, entry| sum ^ entry))
}

/// The hash of a string; an empty one is a zero value.
fn text(text: &str) -> Option<u64> {
    (!text.is_empty()).then(|| fnv(text.as_bytes()))
}

fn int(value: i64) -> u64 {
    fnv(&value.to_le_bytes())
}

/// A Go struct as far as its fields have been added.
struct Struct {
    hash: u64,
    zero: bool,
}

impl Struct {
    fn new(go_type: &str) -> Self {
        Self { hash: fnv(go_type.as_bytes()), zero: true }
    }

    /// Adds a field, in the order of Go's declaration; `None` for a zero value, which is skipped.
    fn field(mut self, go_name: &str, value: Option<u64>) -> Self {
        if let Some(value) = value {
            self.hash = finish(self.hash ^ ordered(fnv(go_name.as_bytes()), value));
            self.zero = false;
        }
        self
    }

    fn unless_zero(self) -> Option<u64> {
        (!self.zero).then_some(self.hash)
    }
}

fn ordered(first: u64, second: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    fnv(&bytes)
}

fn finish(hash: u64) -> u64 {
    fnv(&hash.to_le_bytes())
}

/// 64-bit FNV-1 (multiply, then xor; not FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::nodepool_hash;

    fn hash(template: Value) -> String {
        nodepool_hash(&serde_json::from_value(template).unwrap())
    }

    fn auto_mode() -> Value {
        json!({"spec": {
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
            "terminationGracePeriod": "24h0m0s",
            "expireAfter": "336h",
        }})
    }

    fn ec2(expire_after: &str) -> Value {
        json!({"spec": {
            "nodeClassRef":
                {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": expire_after,
        }})
    }

    #[test]
    fn auto_mode_general_purpose_as_observed_on_eks() {
        assert_eq!(hash(auto_mode()), "4012513481623584108");
    }

    #[test]
    fn a_written_empty_map_counts() {
        let mut template = auto_mode();
        template["metadata"] = json!({"labels": {}});
        assert_eq!(hash(template), "7209224805530433458");
    }

    #[test]
    fn expiry_counts_and_never_is_nothing() {
        assert_eq!(hash(ec2("720h")), "6821555240594823858");
        assert_eq!(hash(ec2("Never")), "17369979337536258260");
    }

    #[test]
    fn labels_annotations_and_taints_count() {
        let taint = json!([{"key": "key", "effect": "NoExecute"}]);
        let template = json!({
            "metadata": {
                "labels": {"keyLabel": "valueLabel"},
                "annotations":
                    {"keyAnnotation": "valueAnnotation", "keyAnnotation2": "valueAnnotation2"},
            },
            "spec": {
                "taints": taint,
                "startupTaints": taint,
                "nodeClassRef":
                    {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"},
                "terminationGracePeriod": "5m",
                "expireAfter": "5m",
            },
        });
        assert_eq!(hash(template), "3811377905641173263");
    }

    #[test]
    fn requirements_do_not_count_and_the_order_of_taints_neither() {
        let mut template = auto_mode();
        template["spec"]["requirements"] = json!([]);
        assert_eq!(hash(template.clone()), "4012513481623584108");
        let a = json!({"key": "a", "value": "1", "effect": "NoSchedule"});
        let b = json!({"key": "b", "effect": "NoExecute"});
        template["spec"]["taints"] = json!([a, b]);
        let one = hash(template.clone());
        template["spec"]["taints"] = json!([b, a]);
        assert_eq!(hash(template), one);
        assert_ne!(one, "4012513481623584108");
    }
}
