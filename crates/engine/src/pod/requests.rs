//! How much a pod asks for. Source: k8s.io/component-helpers `resource/helpers.go`.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

use crate::resources::Resources;

type List = BTreeMap<String, Quantity>;

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
/// pod-level requests override the sum. A container that is resized in place counts with the
/// largest of what it asks for, was promised and has; with the latter two if its node can never
/// give it more.
pub(super) fn of(spec: &core::PodSpec, status: &core::PodStatus) -> Result<Requests, String> {
    let sizes = Sizes::of(status);
    let read = |container: &core::Container, list: &str| {
        let requests = sizes.requests(container, list);
        let asked = Resources::from_k8s(&requests).map_err(|error| {
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
    let whole = sizes.whole(pod_level(spec)?);
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

/// The sizes that the kubelet says containers have.
struct Sizes<'a> {
    status: &'a core::PodStatus,
    /// Whether a resize that is asked for will never happen.
    infeasible: bool,
}

impl<'a> Sizes<'a> {
    fn of(status: &'a core::PodStatus) -> Self {
        let mut conditions = status.conditions.iter().flatten();
        let pending = conditions.find(|condition| condition.type_ == "PodResizePending");
        let infeasible = pending.is_some_and(|c| c.reason.as_deref() == Some("Infeasible"));
        Self { status, infeasible }
    }

    /// What a container counts with. Init containers that end are never resized.
    fn requests(&self, container: &core::Container, list: &str) -> List {
        let asked = container.resources.as_ref().and_then(|r| r.requests.clone());
        let asked = asked.unwrap_or_default();
        let statuses = match list {
            "containers" => self.status.container_statuses.as_ref(),
            _ if is_sidecar(container) => self.status.init_container_statuses.as_ref(),
            _ => None,
        };
        let mut statuses = statuses.into_iter().flatten();
        let Some(status) = statuses.find(|status| status.name == container.name) else {
            return asked;
        };
        let Some(has) = &status.resources else { return asked };
        self.largest(asked, has.requests.as_ref(), status.allocated_resources.as_ref())
    }

    /// What the pod as a whole counts with, of the kinds that its own requests name.
    fn whole(&self, asked: List) -> List {
        let Some(has) = &self.status.resources else { return asked };
        let names: Vec<String> = asked.keys().cloned().collect();
        let promised = self.status.allocated_resources.as_ref();
        let mut largest = self.largest(asked, has.requests.as_ref(), promised);
        largest.retain(|name, _| names.contains(name));
        largest
    }

    fn largest(&self, asked: List, has: Option<&List>, promised: Option<&List>) -> List {
        let mut largest = if self.infeasible { List::new() } else { asked };
        for (name, quantity) in [has, promised].into_iter().flatten().flatten() {
            let amount = |quantity: &Quantity| {
                quantity.0.parse::<aerostat_api::Quantity>().map(|quantity| quantity.milli()).ok()
            };
            let known = largest.entry(name.clone()).or_insert_with(|| quantity.clone());
            if amount(quantity) > amount(known) {
                *known = quantity.clone();
            }
        }
        largest
    }
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
