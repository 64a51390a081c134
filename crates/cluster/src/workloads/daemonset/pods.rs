//! What a daemon's pod looks like, and where it may run.
//!
//! Source: Kubernetes `pkg/controller/daemon/{util/daemonset_util,daemon_controller}.go`.

use aerostat_engine::pod::Pod as EnginePod;
use aerostat_engine::predicates;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use crate::status::Status;
use crate::workloads::pod_control::from_template;
use crate::workloads::pods_by_node::node_of;

/// Label of a pod: the hash of its template.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";
/// Label of a pod: how often the template had changed. An annotation of the DaemonSet holds it.
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// Taints that every daemon tolerates.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// And those that use the node's own network, this one.
const NETWORK_UNAVAILABLE: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// A pod of the DaemonSet's template, for no node yet.
pub(super) fn template(set: &DaemonSet, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = from_template(&template, set);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.into(), hash.to_owned());
    let annotations = set.metadata.annotations.as_ref();
    if let Some(generation) = annotations.and_then(|map| map.get(GENERATION_ANNOTATION)) {
        labels.insert(GENERATION_LABEL.into(), generation.clone());
    }
    let spec = pod.spec.get_or_insert_default();
    TOLERATED.iter().for_each(|taint| tolerate(spec, *taint));
    if spec.host_network == Some(true) {
        tolerate(spec, NETWORK_UNAVAILABLE);
    }
    pod
}

fn tolerate(spec: &mut PodSpec, (key, effect): (&str, &str)) {
    let toleration = Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".into()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let list = spec.tolerations.get_or_insert_default();
    let same = |other: &Toleration| {
        other.key == toleration.key
            && other.effect == toleration.effect
            && other.operator == toleration.operator
            && other.value.as_deref().unwrap_or_default().is_empty()
    };
    match list.iter_mut().find(|other| same(other)) {
        Some(other) => *other = toleration,
        None => list.push(toleration),
    }
}

/// Makes `pod` one that only this node will do for.
pub(super) fn pin(pod: &mut Pod, node: &str) {
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    let affinity = affinity.node_affinity.get_or_insert_default();
    let required =
        affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    required.node_selector_terms = vec![NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".into(),
            operator: "In".into(),
            values: Some(vec![node.to_owned()]),
        }]),
        match_expressions: None,
    }];
}

/// The node that a pod is on, or pinned to.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    if let Some(node) = node_of(pod) {
        return Some(node);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter());
    let mut names = fields.flatten().filter(|field| field.key == "metadata.name");
    names.next()?.values.as_ref()?.first().map(String::as_str)
}

/// Where a daemon may run.
pub(super) struct Placement {
    pod: EnginePod,
}

impl Placement {
    /// For pods like `template`.
    ///
    /// # Errors
    ///
    /// 500 if the template cannot be read, which validation should have seen.
    pub(super) fn of(template: &Pod) -> Result<Self, Status> {
        let mut template = template.clone();
        template.metadata.name = template.metadata.generate_name.clone();
        let pod = EnginePod::from_k8s(&template)
            .map_err(|error| Status::new(500, "InternalError", format!("pod template: {error}")))?;
        Ok(Self { pod })
    }

    /// Whether it should run on `node`; and whether one that does may stay.
    pub(super) fn on(&self, node: &Node) -> (bool, bool) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let constraints = &self.pod.constraints;
        let elsewhere = self.pod.node.as_deref().is_some_and(|wanted| wanted != name);
        if elsewhere || !predicates::matches_affinity(constraints, Some(name), &labels) {
            return (false, false);
        }
        let Some(_) = predicates::untolerated(&constraints.tolerations, taints) else {
            return (true, true);
        };
        let evicting = taints.iter().any(|taint| {
            taint.effect == "NoExecute" && !predicates::tolerates(&constraints.tolerations, taint)
        });
        (false, !evicting)
    }
}
