//! Pods out of Kubernetes' objects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::affinity;
use super::requests::{self, Requests};
use super::{ClaimRef, Constraints, Owner, Pod, PodTerm, PreferredPodTerm};
use crate::storage::Volumes;

impl Pod {
    /// Reads a pod.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read: a quantity, or a missing name or creation time.
    pub fn from_k8s(pod: &core::Pod) -> Result<Self, String> {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref().ok_or("spec: missing")?;
        let empty = core::PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&empty);
        let Requests { requests, scored } = requests::of(spec, status)?;
        let unschedulable = status.conditions.iter().flatten().find(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("Unschedulable")
        });
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        Ok(Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: named(&meta.name).ok_or("metadata.name: missing")?,
            uid: meta.uid.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: annotations(meta.annotations.as_ref()),
            owner: owner(meta.owner_references.as_deref().unwrap_or_default()),
            requests,
            scored,
            constraints: constraints(spec, meta),
            priority: spec.priority.unwrap_or(0),
            preempts: spec.preemption_policy.as_deref() != Some("Never"),
            node: named(&spec.node_name),
            nominated_node: named(&status.nominated_node_name),
            created: meta.creation_timestamp.as_ref().map_or(jiff::Timestamp::UNIX_EPOCH, |t| t.0),
            started: status.start_time.as_ref().map(|t| t.0),
            unschedulable_since: unschedulable
                .and_then(|condition| condition.last_transition_time.as_ref())
                .map(|t| t.0),
            gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
            deleting: meta.deletion_timestamp.is_some(),
            ends: meta.deletion_timestamp.as_ref().map(|t| t.0),
            grace_seconds: spec.termination_grace_period_seconds.unwrap_or(30),
            terminal: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            claims: claims(spec, meta),
            unsupported: unsupported(spec),
        })
    }
}

/// The annotations that decisions look at.
fn annotations(all: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let matters = |name: &str| {
        name.starts_with("karpenter.sh/")
            || name.starts_with("aerostat.dev/")
            || name == "controller.kubernetes.io/pod-deletion-cost"
    };
    let all = all.into_iter().flatten().filter(|(name, _)| matters(name));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn owner(references: &[OwnerReference]) -> Option<Owner> {
    let owner = references.iter().find(|reference| reference.controller == Some(true))?;
    Some(Owner { kind: owner.kind.clone(), name: owner.name.clone(), uid: owner.uid.clone() })
}

fn constraints(spec: &core::PodSpec, meta: &ObjectMeta) -> Constraints {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let preferred =
        affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let empty = BTreeMap::new();
    let labels = meta.labels.as_ref().unwrap_or(&empty);
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let affinity = spec.affinity.as_ref();
    let together = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let demanded = |terms: Option<&Vec<core::PodAffinityTerm>>| -> Vec<PodTerm> {
        let terms = terms.into_iter().flatten();
        terms.map(|term| affinity::term(term, namespace, labels)).collect()
    };
    let wished = |terms: Option<&Vec<core::WeightedPodAffinityTerm>>, sign| {
        let terms = terms.into_iter().flatten();
        let terms = terms.map(|term| weighted(term, sign, namespace, labels));
        terms.collect::<Vec<PreferredPodTerm>>()
    };
    let towards =
        together.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let away = apart.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let pod_affinity = demanded(
        together.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
    );
    let pod_anti_affinity = demanded(
        apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
    );
    Constraints {
        node_selector: spec.node_selector.clone().unwrap_or_default(),
        node_affinity: required.map(|selector| selector.node_selector_terms.clone()),
        preferred_affinity: preferred.cloned().unwrap_or_default(),
        tolerations: spec.tolerations.clone().unwrap_or_default(),
        host_ports: host_ports(spec),
        pod_affinity,
        pod_anti_affinity,
        preferred_pods: [wished(towards, 1), wished(away, -1)].concat(),
        spread: affinity::spread(spec, labels),
        volumes: Volumes::default(),
    }
}

type Labels = BTreeMap<String, String>;

fn weighted(
    preferred: &core::WeightedPodAffinityTerm,
    sign: i32,
    namespace: &str,
    labels: &Labels,
) -> PreferredPodTerm {
    let term = affinity::term(&preferred.pod_affinity_term, namespace, labels);
    PreferredPodTerm { weight: preferred.weight.saturating_mul(sign), term }
}

/// Ports of the containers that stay. Source: kubernetes `pkg/scheduler/util/utils.go`.
fn host_ports(spec: &core::PodSpec) -> Vec<(String, String, i32)> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| requests::is_sidecar(c));
    let ports = sidecars.chain(&spec.containers).flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let protocol = port.protocol.clone().filter(|p| !p.is_empty());
            let ip = port.host_ip.clone().filter(|ip| !ip.is_empty());
            let protocol = protocol.unwrap_or_else(|| "TCP".into());
            Some((protocol, ip.unwrap_or_else(|| super::ANY_IP.into()), number))
        })
        .collect()
}

/// The claims that a pod's volumes are.
fn claims(spec: &core::PodSpec, meta: &ObjectMeta) -> Vec<ClaimRef> {
    let pod = meta.name.as_deref().unwrap_or_default();
    let claim = |volume: &core::Volume| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(ClaimRef { name: claim.claim_name.clone(), is_ephemeral: false });
        }
        volume.ephemeral.as_ref()?;
        Some(ClaimRef { name: format!("{pod}-{}", volume.name), is_ephemeral: true })
    };
    spec.volumes.iter().flatten().filter_map(claim).collect()
}

/// Names the hard constraints that nothing here judges; soft ones do no harm.
fn unsupported(spec: &core::PodSpec) -> Vec<String> {
    let devices = spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty());
    devices.then(|| "resource claims".to_owned()).into_iter().collect()
}
