//! What a kind prepares itself before it is stored: initial status, generated selectors.
//!
//! Source: `PrepareForCreate` of the strategies in `pkg/registry`, and `pkg/apis/core/v1/helper/qos`.

use aerostat_api::Quantity;
use serde_json::{Map, Value, json};

use super::{list, list_mut};
use crate::kinds::Kind;
use crate::registry::{Cluster, timestamp};

/// Prepares a new object; the registry has removed its status if it keeps that apart.
pub(super) fn create(cluster: &Cluster, kind: &Kind, value: &mut Value) {
    let now = || timestamp(cluster.clock().now());
    let status = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod(value, now),
        ("", "Namespace") => {
            finalize_by_kubernetes(value);
            json!({"phase": "Active"})
        }
        ("", "PersistentVolume") => json!({"phase": "Pending", "lastPhaseTransitionTime": now()}),
        ("", "PersistentVolumeClaim") => json!({"phase": "Pending"}),
        ("", "Service") => json!({"loadBalancer": {}}),
        ("batch", "Job") => {
            if value["spec"]["manualSelector"] != true {
                generate_selector(value);
            }
            // A job without labels takes those of its template, the generated ones among them.
            crate::defaults::apply(kind, value);
            json!({})
        }
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({"replicas": 0}),
        ("apps", "StatefulSet") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "DaemonSet") => json!({
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }),
        ("policy", "PodDisruptionBudget") => json!({
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            json!({"desiredReplicas": 0, "currentMetrics": null})
        }
        ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        ("apps", "Deployment") | ("batch", "CronJob") | ("", "ResourceQuota") => json!({}),
        _ => return,
    };
    value["status"] = status;
}

/// A status update of a pod keeps what the writer does not know about.
pub(super) fn pod_status(new: &mut Value, old: &Value) {
    if !new["status"].is_object() {
        return;
    }
    for field in ["qosClass", "observedGeneration"] {
        if new["status"][field].is_null() && !old["status"][field].is_null() {
            new["status"][field] = old["status"][field].clone();
        }
    }
    let before = list(&old["status"], "conditions");
    let conditions = new["status"].get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter(|c| c.is_object()) {
        let same = before.iter().find(|other| other["type"] == condition["type"]);
        if let Some(same) = same
            && condition["observedGeneration"].is_null()
            && !same["observedGeneration"].is_null()
        {
            condition["observedGeneration"] = same["observedGeneration"].clone();
        }
    }
}

fn pod(pod: &mut Value, now: impl Fn() -> String) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": quality_of_service(pod)});
    if !list(&pod["spec"], "schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": now(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    select_by_label_keys(pod);
    status
}

/// Best effort without any request or limit, guaranteed if each container limits CPU and memory to
/// what it requests, else burstable.
fn quality_of_service(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let pod_level = !spec["resources"].is_null();
    let owners: Vec<&Value> = if pod_level {
        vec![spec]
    } else {
        list(spec, "containers").iter().chain(list(spec, "initContainers")).collect()
    };
    let amount = |owner: &Value, side: &str, name: &str| -> Option<Quantity> {
        let amount: Quantity = owner["resources"][side][name].as_str()?.parse().ok()?;
        (amount > Quantity::ZERO).then_some(amount)
    };
    let total = |side: &str, name: &str| {
        owners.iter().filter_map(|owner| amount(owner, side, name)).reduce(|a, b| a + b)
    };
    let names = ["cpu", "memory"];
    let sums = names.map(|name| (total("requests", name), total("limits", name)));
    if sums.iter().all(|(request, limit)| request.is_none() && limit.is_none()) {
        return "BestEffort";
    }
    let limited =
        owners.iter().all(|owner| names.iter().all(|name| amount(owner, "limits", name).is_some()));
    if limited && sums.iter().all(|(request, limit)| request == limit) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Turns `matchLabelKeys` and `mismatchLabelKeys` into selector terms with the pod's own labels.
fn select_by_label_keys(pod: &mut Value) {
    let Some(spec) = pod["spec"].as_object() else { return };
    if !["topologySpreadConstraints", "affinity"].iter().any(|field| spec.contains_key(*field)) {
        return;
    }
    let labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let Some(spec) = pod["spec"].as_object_mut() else { return };
    let mut terms: Vec<&mut Value> = Vec::new();
    for (field, value) in spec.iter_mut() {
        if field == "topologySpreadConstraints" {
            terms.extend(value.as_array_mut().into_iter().flatten());
        } else if field == "affinity" {
            let kinds = value.as_object_mut().into_iter().flatten();
            for (_, kind) in kinds.filter(|(name, _)| *name != "nodeAffinity") {
                let lists = kind.as_object_mut().into_iter().flatten();
                for term in lists.flat_map(|(_, list)| list.as_array_mut()).flatten() {
                    let weighted = term.get("podAffinityTerm").is_some();
                    terms.push(if weighted { &mut term["podAffinityTerm"] } else { term });
                }
            }
        }
    }
    for term in terms.into_iter().filter(|term| term["labelSelector"].is_object()) {
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            for key in list(term, field).to_vec() {
                let Some((key, value)) = key.as_str().and_then(|key| Some((key, labels.get(key)?)))
                else {
                    continue;
                };
                let requirement = json!({"key": key, "operator": operator, "values": [value]});
                list_mut(&mut term["labelSelector"], "matchExpressions").push(requirement);
            }
        }
    }
}

/// Namespaces are emptied before they go.
fn finalize_by_kubernetes(namespace: &mut Value) {
    if !namespace["spec"].is_object() {
        namespace["spec"] = json!({});
    }
    if !list(&namespace["spec"], "finalizers").iter().any(|name| name == "kubernetes") {
        list_mut(&mut namespace["spec"], "finalizers").push("kubernetes".into());
    }
}

/// A job selects its pods by its own UID.
fn generate_selector(job: &mut Value) {
    let uid = job["metadata"]["uid"].clone();
    let name = job["metadata"]["name"].clone();
    let Some(spec) = job["spec"].as_object_mut() else { return };
    let at = |spec: &mut Map<String, Value>, path: [&str; 3], label: &str, value: &Value| {
        let [first, second, third] = path;
        let mut owner = spec.entry(first).or_insert_with(|| json!({}));
        for field in [second, third].iter().filter(|field| !field.is_empty()) {
            if !owner[*field].is_object() {
                owner[*field] = json!({});
            }
            owner = &mut owner[*field];
        }
        if owner[label].is_null() {
            owner[label] = value.clone();
        }
    };
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        at(spec, ["template", "metadata", "labels"], label, value);
    }
    at(spec, ["selector", "matchLabels", ""], "batch.kubernetes.io/controller-uid", &uid);
}
