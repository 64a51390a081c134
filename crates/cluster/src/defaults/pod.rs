//! Pods, and the pod templates in everything else.

use aerostat_api::Quantity;
use serde_json::{Map, Value, json};

use super::container::container;
use super::{default, default_nonzero, entry, items, member, quantities};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A pod itself. What follows here but not in [`pod_spec`] shows only on pods, not on templates.
pub(super) fn pod(pod: &mut Map<String, Value>) {
    let Some(spec) = entry(pod, "spec") else { return };
    pod_spec(spec);
    default(spec, "enableServiceLinks", true);
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            if let Some(resources) = member(container, "resources") {
                requests_from_limits(resources);
            }
            if host_network {
                for port in items(container, "ports") {
                    if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
                        default_nonzero(port, "hostPort", number);
                    }
                }
            }
        }
    }
    pod_requests(spec);
}

/// The `template` of a workload.
pub(super) fn template(object: &mut Map<String, Value>) {
    let Some(template) = entry(object, "template") else { return };
    entry(template, "metadata");
    if let Some(spec) = entry(template, "spec") {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Map<String, Value>) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    entry(spec, "securityContext");
    // The deprecated field and its successor always say the same.
    let account = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|field| spec.get(*field)?.as_str().filter(|name| !name.is_empty()))
        .map(str::to_owned);
    if let Some(account) = account {
        spec.insert("serviceAccount".into(), account.clone().into());
        spec.insert("serviceAccountName".into(), account.into());
    }
    quantities(spec, "overhead");
    if let Some(resources) = member(spec, "resources") {
        quantities(resources, "limits");
        quantities(resources, "requests");
    }
    for volume in items(spec, "volumes") {
        super::volume::volume(volume);
    }
    for list in CONTAINERS {
        items(spec, list).for_each(container);
    }
}

/// What is limited but not requested is requested as much as it is limited.
fn requests_from_limits(resources: &mut Map<String, Value>) {
    let Some(limits) = member(resources, "limits").filter(|limits| !limits.is_empty()) else {
        return;
    };
    let limits = limits.clone();
    if let Some(requests) = entry(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Requests of the pod as a whole, where it limits itself as a whole: what its containers request
/// together, else the limit. Source: `defaultPodRequests`; huge pages are not handled.
fn pod_requests(spec: &mut Map<String, Value>) {
    let limits = |spec: &Map<String, Value>| {
        spec.get("resources")?.get("limits")?.as_object().filter(|l| !l.is_empty()).cloned()
    };
    let Some(limits) = limits(spec) else { return };
    let mut wanted = Map::new();
    for name in ["cpu", "memory"] {
        if let Some(total) = container_requests(spec, name) {
            wanted.insert(name.into(), total.to_string().into());
        } else if let Some(limit) = limits.get(name) {
            wanted.insert(name.into(), limit.clone());
        }
    }
    if let Some(requests) = member(spec, "resources").and_then(|r| entry(r, "requests")) {
        for (name, amount) in wanted {
            requests.entry(name).or_insert(amount);
        }
    }
}

/// What the containers of a pod need at most at the same time; `None` if none says anything.
fn container_requests(spec: &Map<String, Value>, name: &str) -> Option<Quantity> {
    let of = |container: &Value| -> Option<Quantity> {
        container["resources"]["requests"][name].as_str()?.parse().ok()
    };
    let list = |field: &str| {
        spec.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    };
    let add = |sum: Option<Quantity>, more: Option<Quantity>| match (sum, more) {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    };
    let mut running = list("containers").iter().map(of).fold(None, add);
    let (mut sidecars, mut peak) = (None, None);
    for container in list("initContainers") {
        if container["restartPolicy"] == json!("Always") {
            running = add(running, of(container));
            sidecars = add(sidecars, of(container));
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(add(sidecars, of(container)));
        }
    }
    running.max(peak)
}
