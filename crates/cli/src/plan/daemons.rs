//! DaemonSets that are known by their pods only.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The DaemonSets that own some of the pods, each as one of its pods shows it: what `kubectl get
/// nodes,pods` prints has no DaemonSets, and still they will run on every new node.
pub fn of(pods: &[Pod]) -> Vec<DaemonSet> {
    let mut found: BTreeMap<(String, String), DaemonSet> = BTreeMap::new();
    for pod in pods {
        let owners = pod.metadata.owner_references.iter().flatten();
        let owner =
            owners.into_iter().find(|o| o.controller == Some(true) && o.kind == "DaemonSet");
        let (Some(owner), Some(spec)) = (owner, &pod.spec) else { continue };
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let key = (namespace.clone(), owner.name.clone());
        found.entry(key).or_insert_with(|| DaemonSet {
            metadata: ObjectMeta {
                name: Some(owner.name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            spec: Some(DaemonSetSpec {
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: pod.metadata.labels.clone(),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(template(spec)),
                },
                ..DaemonSetSpec::default()
            }),
            status: None,
        });
    }
    found.into_values().collect()
}

/// The pod's spec without the node that it is for, which the DaemonSet controller puts into each
/// term of its node affinity. Source: kubernetes `pkg/controller/daemon/util/daemonset_util.go`.
fn template(spec: &PodSpec) -> PodSpec {
    let mut spec = PodSpec { node_name: None, ..spec.clone() };
    let Some(affinity) = spec.affinity.as_mut().and_then(|a| a.node_affinity.as_mut()) else {
        return spec;
    };
    let required = &mut affinity.required_during_scheduling_ignored_during_execution;
    if let Some(selector) = required {
        for term in &mut selector.node_selector_terms {
            term.match_fields = None;
        }
        let is_empty = |expressions: &Vec<_>| expressions.is_empty();
        if selector
            .node_selector_terms
            .iter()
            .any(|term| term.match_expressions.as_ref().is_none_or(is_empty))
        {
            // One term that allows every node is no requirement.
            *required = None;
        }
    }
    spec
}
