//! How much a pod asks for. Source: k8s.io/component-helpers `resource/helpers.go`.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

use crate::resources::Resources;

/// What scores count for a container that says nothing of cpu (milli-cores).
/// Source: kubernetes `pkg/scheduler/util/pod_resources.go`.
const SCORED_CPU: i64 = 100;
/// What scores count for a container that says nothing of memory (bytes).
const SCORED_MEMORY: i64 = 200 * 1024 * 1024;

/// What a pod asks for, and what scores count.
pub(super) struct Requests {
    pub(super) requests: Resources,
    pub(super) scored: Resources,
}

/// Adds up a pod: the larger of what runs at once and what starting up takes, plus overhead;
/// pod-level requests override the sum.
pub(super) fn of(spec: &core::PodSpec) -> Result<Requests, String> {
    let read = |container: &core::Container, list: &str| {
        let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
        let empty = BTreeMap::new();
        let requests = requests.unwrap_or(&empty);
        let asked = Resources::from_k8s(requests).map_err(|error| {
            format!("spec.{list}[{}].resources.requests: {error}", container.name)
        })?;
        let mut scored = asked.clone();
        if !requests.contains_key("cpu") {
            scored.cpu = SCORED_CPU;
        }
        if !requests.contains_key("memory") {
            scored.memory = SCORED_MEMORY;
        }
        Ok::<_, String>([asked, scored])
    };
    let mut sums = [Resources::default(), Resources::default()];
    let mut sidecars = sums.clone();
    let mut starting = sums.clone();
    for container in &spec.containers {
        let asked = read(container, "containers")?;
        for (sum, asked) in sums.iter_mut().zip(&asked) {
            sum.add(asked);
        }
    }
    for container in spec.init_containers.iter().flatten() {
        let asked = read(container, "initContainers")?;
        for (i, asked) in asked.iter().enumerate() {
            if is_sidecar(container) {
                sums[i].add(asked);
                sidecars[i].add(asked);
                starting[i].raise_to(&sidecars[i]);
            } else {
                let mut now = sidecars[i].clone();
                now.add(asked);
                starting[i].raise_to(&now);
            }
        }
    }
    let whole = pod_level(spec)?;
    let overhead = Resources::from_k8s(spec.overhead.as_ref().unwrap_or(&BTreeMap::new()))
        .map_err(|error| format!("spec.overhead: {error}"))?;
    for (sum, starting) in sums.iter_mut().zip(&starting) {
        sum.raise_to(starting);
        override_with(sum, &whole);
        sum.add(&overhead);
        sum.pods = 1;
    }
    let [requests, scored] = sums;
    Ok(Requests { requests, scored })
}

/// Whether an init container stays while the pod runs.
pub(super) fn is_sidecar(container: &core::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// `spec.resources.requests`, only the kinds that may stand there.
fn pod_level(spec: &core::PodSpec) -> Result<BTreeMap<String, Quantity>, String> {
    let requests = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    let mut list = requests.cloned().unwrap_or_default();
    list.retain(|name, _| {
        matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-")
    });
    Resources::from_k8s(&list).map_err(|error| format!("spec.resources.requests: {error}"))?;
    Ok(list)
}

fn override_with(sum: &mut Resources, list: &BTreeMap<String, Quantity>) {
    let Ok(whole) = Resources::from_k8s(list) else { return };
    for name in list.keys() {
        match name.as_str() {
            "cpu" => sum.cpu = whole.cpu,
            "memory" => sum.memory = whole.memory,
            _ => {
                sum.other.insert(name.clone(), whole.get(name));
            }
        }
    }
    sum.other.retain(|_, amount| *amount != 0);
}
