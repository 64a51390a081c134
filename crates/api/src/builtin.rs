//! What is there at the start: Auto Mode's NodePools and its NodeClass.
//!
//! Source: the EKS user guide, and objects of running clusters.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::nodeclass::{EphemeralStorage, NodeClassSpec};
use crate::nodepool::{
    Budget, Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassRef, NodePoolSpec,
    NodeSelectorRequirement,
};
use crate::{Duration, NillableDuration, NodeClass, NodePool, hash, labels};

/// NodePool `general-purpose`: on-demand amd64 machines of the categories c, m and r.
#[must_use]
pub fn general_purpose() -> NodePool {
    pool("general-purpose", &["amd64"], None)
}

/// NodePool `system`: arm64 as well, for critical add-ons only.
#[must_use]
pub fn system() -> NodePool {
    let taint = Taint {
        key: "CriticalAddonsOnly".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    pool("system", &["amd64", "arm64"], Some(vec![taint]))
}

/// NodeClass `default`. Role and storage are Auto Mode's; the subnets and the security group are
/// simulated: they have the form of real ones and exist nowhere.
#[must_use]
pub fn node_class() -> NodeClass {
    let ids = |ids: &[&str]| ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>();
    let other = [
        ("role", json!("AmazonEKSAutoNodeRole")),
        (
            "subnetSelectorTerms",
            json!(ids(&["subnet-0a1e205a70000000a", "subnet-0a1e205a70000000b"])),
        ),
        ("securityGroupSelectorTerms", json!(ids(&["sg-0a1e205a700000001"]))),
        ("snatPolicy", json!("Random")),
        ("networkPolicy", json!("DefaultAllow")),
        ("networkPolicyEventLogs", json!("Disabled")),
    ];
    let storage = [("iops", json!(3000)), ("throughput", json!(125))];
    let own = |(name, value): (&str, serde_json::Value)| (name.to_owned(), value);
    let spec = NodeClassSpec {
        ephemeral_storage: Some(EphemeralStorage {
            size: Some("80Gi".to_owned()),
            other: storage.into_iter().map(own).collect(),
        }),
        other: other.into_iter().map(own).collect(),
    };
    // The algorithm of this hash is not public: the value is that of a real default class, and
    // nothing compares it.
    let annotations = pairs([
        ("eks.amazonaws.com/nodeclass-hash", "3809868827326149578"),
        ("eks.amazonaws.com/nodeclass-hash-version", "v1"),
    ]);
    NodeClass {
        metadata: ObjectMeta {
            name: Some("default".to_owned()),
            labels: Some(managed_by_eks()),
            annotations: Some(annotations),
            finalizers: Some(vec!["eks.amazonaws.com/termination".to_owned()]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

fn pool(name: &str, architectures: &[&str], taints: Option<Vec<Taint>>) -> NodePool {
    let template = NodeClaimTemplate {
        metadata: None,
        spec: NodeClaimTemplateSpec {
            taints,
            startup_taints: None,
            requirements: vec![
                requirement(labels::CAPACITY_TYPE, "In", &["on-demand"]),
                requirement("eks.amazonaws.com/instance-category", "In", &["c", "m", "r"]),
                requirement("eks.amazonaws.com/instance-generation", "Gt", &["4"]),
                requirement(labels::ARCH, "In", architectures),
                requirement(labels::OS, "In", &["linux"]),
            ],
            node_class_ref: NodeClassRef {
                group: "eks.amazonaws.com".to_owned(),
                kind: "NodeClass".to_owned(),
                name: "default".to_owned(),
            },
            termination_grace_period: Some(
                Duration::parse("24h0m0s").expect("24h0m0s is a duration"),
            ),
            expire_after: Some(NillableDuration::parse("336h").expect("336h is a duration")),
        },
    };
    let budget = Budget { nodes: "10%".to_owned(), reasons: None, schedule: None, duration: None };
    let annotations = BTreeMap::from([
        (labels::NODEPOOL_HASH.to_owned(), hash::nodepool_hash(&template)),
        (labels::NODEPOOL_HASH_VERSION.to_owned(), hash::VERSION.to_owned()),
    ]);
    NodePool {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(managed_by_eks()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: NodePoolSpec {
            template,
            disruption: Disruption {
                consolidate_after: NillableDuration::parse("30s").expect("30s is a duration"),
                consolidation_policy: "WhenEmptyOrUnderutilized".to_owned(),
                budgets: vec![budget],
            },
            limits: None,
            weight: None,
            replicas: None,
        },
        status: None,
    }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

fn managed_by_eks() -> BTreeMap<String, String> {
    pairs([("app.kubernetes.io/managed-by", "eks")])
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn general_purpose_is_the_documented_one() {
        let documented = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {
                "name": "general-purpose",
                "labels": {"app.kubernetes.io/managed-by": "eks"},
                "annotations": {
                    "karpenter.sh/nodepool-hash": "4012513481623584108",
                    "karpenter.sh/nodepool-hash-version": "v3",
                },
            },
            "spec": {
                "disruption": {
                    "budgets": [{"nodes": "10%"}],
                    "consolidateAfter": "30s",
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                },
                "template": {"spec": {
                    "expireAfter": "336h",
                    "nodeClassRef":
                        {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In",
                         "values": ["on-demand"]},
                        {"key": "eks.amazonaws.com/instance-category", "operator": "In",
                         "values": ["c", "m", "r"]},
                        {"key": "eks.amazonaws.com/instance-generation", "operator": "Gt",
                         "values": ["4"]},
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    ],
                    "terminationGracePeriod": "24h0m0s",
                }},
            },
        });
        assert_eq!(serde_json::to_value(super::general_purpose()).unwrap(), documented);
    }

    #[test]
    fn system_takes_arm64_and_is_tainted() {
        let system = serde_json::to_value(super::system()).unwrap();
        let spec = &system["spec"]["template"]["spec"];
        assert_eq!(spec["requirements"][3]["values"], json!(["amd64", "arm64"]));
        assert_eq!(spec["taints"], json!([{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]));
    }

    #[test]
    fn the_class_has_the_documented_settings() {
        let class = serde_json::to_value(super::node_class()).unwrap();
        assert_eq!(class["metadata"]["name"], "default");
        assert_eq!(
            class["spec"],
            json!({
                "role": "AmazonEKSAutoNodeRole",
                "subnetSelectorTerms":
                    [{"id": "subnet-0a1e205a70000000a"}, {"id": "subnet-0a1e205a70000000b"}],
                "securityGroupSelectorTerms": [{"id": "sg-0a1e205a700000001"}],
                "snatPolicy": "Random",
                "networkPolicy": "DefaultAllow",
                "networkPolicyEventLogs": "Disabled",
                "ephemeralStorage": {"size": "80Gi", "iops": 3000, "throughput": 125},
            })
        );
    }
}
