//! Pods made up out of bytes.

use aerostat_api::labels;
use aerostat_engine::pod::{Owner, Pod};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use super::{Bytes, DEDICATED};

const APPS: [&str; 3] = ["x", "y", "z"];
const KEYS: [&str; 3] = [labels::HOSTNAME, labels::ZONE, labels::CAPACITY_TYPE];

/// A pod that waits; `has_company` if it may want something of other pods.
pub(super) fn pod(bytes: &mut Bytes<'_>, name: &str, has_company: bool) -> Pod {
    let app = *bytes.one(&APPS);
    let cpu = format!("{}m", bytes.one(&[500, 100, 250, 1000, 1900, 3500]));
    let memory = format!("{}Mi", bytes.one(&[512, 128, 1000, 3000, 7000]));
    let mut spec = json!({});
    match bytes.below(12) {
        1 => spec["nodeSelector"] = json!({labels::ZONE: "a"}),
        2 => spec["nodeSelector"] = json!({labels::CAPACITY_TYPE: "spot"}),
        3 => spec["nodeSelector"] = json!({labels::ARCH: "arm64"}),
        4 => spec["nodeSelector"] = json!({"team": "red"}),
        5 => node_affinity(&mut spec, json!([expression(labels::ZONE, "NotIn", &["a"])])),
        6 => node_affinity(
            &mut spec,
            json!([expression("eks.amazonaws.com/instance-cpu", "Gt", &["2"])]),
        ),
        7 => node_affinity(&mut spec, json!([expression("team", "DoesNotExist", &[])])),
        _ => {}
    }
    if bytes.rarely(3) {
        spec["tolerations"] = json!([{"key": DEDICATED, "operator": "Exists"}]);
    }
    let ports =
        if bytes.rarely(8) { json!([{"containerPort": 80, "hostPort": 8080}]) } else { json!([]) };
    spec["containers"] = json!([{
        "name": "c", "ports": ports,
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }]);
    if has_company && bytes.rarely(3) {
        company(bytes, &mut spec, app, name);
    }
    let pod: core::Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app, "class": name}},
        "spec": spec,
    }))
    .unwrap();
    Pod {
        unschedulable_since: Some(Timestamp::UNIX_EPOCH),
        owner: Some(Owner {
            kind: "ReplicaSet".to_owned(),
            name: app.to_owned(),
            uid: format!("{app}-{cpu}"),
        }),
        priority: *bytes.one(&[0, 0, 100]),
        ..Pod::from_k8s(&pod).unwrap()
    }
}

/// What pods want of other pods.
fn company(bytes: &mut Bytes<'_>, spec: &mut Value, app: &str, class: &str) {
    let whom = if bytes.rarely(3) { *bytes.one(&APPS) } else { app };
    let key = *bytes.one(&KEYS);
    let selector = json!({"matchLabels": {"app": whom}});
    let term = json!({"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": key, "labelSelector": selector}]});
    // Its own kind, or whoever has the label.
    let shunned =
        if bytes.rarely(2) { selector.clone() } else { json!({"matchLabels": {"class": class}}) };
    let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": key, "labelSelector": shunned}]});
    match bytes.below(4) {
        0 => {
            spec["topologySpreadConstraints"] = json!([{
                "topologyKey": key, "maxSkew": 1 + bytes.below(2),
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
            }]);
        }
        1 => merge_affinity(spec, "podAntiAffinity", apart),
        2 => merge_affinity(spec, "podAffinity", term),
        _ => {
            merge_affinity(spec, "podAntiAffinity", apart);
            spec["topologySpreadConstraints"] = json!([{
                "topologyKey": labels::ZONE, "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }]);
        }
    }
}

fn merge_affinity(spec: &mut Value, name: &str, what: Value) {
    if spec.get("affinity").is_none() {
        spec["affinity"] = json!({});
    }
    spec["affinity"][name] = what;
}

fn node_affinity(spec: &mut Value, expressions: Value) {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": expressions}]}});
    merge_affinity(spec, "nodeAffinity", required);
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// A pod as a DaemonSet would create it.
pub(super) fn daemon(bytes: &mut Bytes<'_>) -> Pod {
    let pod = pod(bytes, "daemon", false);
    let mut constraints = pod.constraints;
    constraints.pod_affinity.clear();
    constraints.pod_anti_affinity.clear();
    constraints.spread.clear();
    let owner = Owner { kind: "DaemonSet".into(), name: "daemon".into(), uid: "daemon".into() };
    let mut requests = pod.requests;
    (requests.cpu, requests.memory) = (requests.cpu.min(250), requests.memory.min(1 << 28));
    Pod { constraints, requests, owner: Some(owner), unschedulable_since: None, ..pod }
}
