//! ResourceQuota: how much a namespace may hold.
//!
//! Use is counted from what is stored, not from `status.used`, so it is exact at any moment.
//! Source of the rules: `pkg/quota/v1/evaluator/core`, apiserver `plugin/resourcequota`.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::Quantity;
use serde_json::Value;

use super::limits::pod_total;
use super::{forbidden, list};
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;

type Amounts = BTreeMap<String, Quantity>;

/// What each container must say if a quota counts it.
const REQUIRED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Refuses a new object that is too much for a quota of its namespace.
pub(super) fn charge(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    value: &Value,
) -> Result<(), Status> {
    let resource = (String::new(), "resourcequotas".to_owned());
    let (quotas, _) = cluster.store().list(&resource, namespace);
    for quota in quotas {
        let hard = amounts(&quota.value["spec"]["hard"]);
        let requested: Amounts =
            usage(kind, value).into_iter().filter(|(name, _)| hard.contains_key(name)).collect();
        let limits_pods = kind.kind == "Pod"
            && hard.keys().any(|name| name == "pods" || REQUIRED.contains(&name.as_str()));
        if (requested.is_empty() && !limits_pods) || !in_scope(&quota.value["spec"], value) {
            continue;
        }
        if limits_pods {
            require(kind, value, quota.name(), &hard)?;
        }
        let mut used = Amounts::new();
        for other in cluster.store().list(&kind.resource(), namespace).0 {
            if in_scope(&quota.value["spec"], &other.value) {
                for (name, amount) in usage(kind, &other.value) {
                    let sum = used.get(&name).map_or(amount, |have| *have + amount);
                    used.insert(name, sum);
                }
            }
        }
        let used_of = |name: &String| used.get(name).copied().unwrap_or(Quantity::ZERO);
        let exceeded: Vec<&String> = requested
            .keys()
            .filter(|name| used_of(name) + requested[*name] > hard[*name])
            .collect();
        if exceeded.is_empty() {
            continue;
        }
        let shown = |amount: &dyn Fn(&String) -> Quantity| {
            exceeded
                .iter()
                .map(|name| format!("{name}={}", amount(name)))
                .collect::<Vec<_>>()
                .join(",")
        };
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            shown(&|name| requested[name]),
            shown(&used_of),
            shown(&|name| hard[name]),
        );
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        return Err(Status::forbidden(&kind.group, &kind.plural, name, &why));
    }
    Ok(())
}

/// How much is used of each amount that a quota with this spec allows.
pub(crate) fn used(cluster: &Cluster, namespace: &str, spec: &Value) -> BTreeMap<String, String> {
    let mut used: Amounts =
        amounts(&spec["hard"]).into_keys().map(|name| (name, Quantity::ZERO)).collect();
    for kind in cluster.kinds().iter().filter(|kind| kind.namespaced) {
        for object in cluster.store().list(&kind.resource(), namespace).0 {
            if !in_scope(spec, &object.value) {
                continue;
            }
            for (name, amount) in usage(kind, &object.value) {
                if let Some(sum) = used.get_mut(&name) {
                    *sum = *sum + amount;
                }
            }
        }
    }
    used.into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
}

fn amounts(map: &Value) -> Amounts {
    let map = map.as_object().into_iter().flatten();
    map.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?))).collect()
}

/// What an object counts for, by the names that quotas use.
fn usage(kind: &Kind, value: &Value) -> Amounts {
    let one = Quantity::from_units(1);
    let count = if kind.group.is_empty() {
        format!("count/{}", kind.plural)
    } else {
        format!("count/{}.{}", kind.plural, kind.group)
    };
    let mut usage = Amounts::from([(count, one)]);
    let spec = &value["spec"];
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            if matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                return usage;
            }
            usage.insert("pods".into(), one);
            for (name, amount) in amounts(&pod_total(spec, "requests")) {
                usage.insert(format!("requests.{name}"), amount);
                if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                    usage.insert(name, amount);
                }
            }
            for (name, amount) in amounts(&pod_total(spec, "limits")) {
                usage.insert(format!("limits.{name}"), amount);
            }
        }
        ("", "PersistentVolumeClaim") => {
            usage.insert("persistentvolumeclaims".into(), one);
            if let Some(size) = amounts(&spec["resources"]["requests"]).get("storage") {
                usage.insert("requests.storage".into(), *size);
                if let Some(class) = spec["storageClassName"].as_str() {
                    let prefix = format!("{class}.storageclass.storage.k8s.io");
                    usage.insert(format!("{prefix}/requests.storage"), *size);
                    usage.insert(format!("{prefix}/persistentvolumeclaims"), one);
                }
            }
        }
        ("", "Service") => {
            usage.insert("services".into(), one);
            let ports = list(spec, "ports").iter().filter(|port| !port["nodePort"].is_null());
            let ports = i64::try_from(ports.count()).unwrap_or(i64::MAX);
            usage.insert("services.nodeports".into(), Quantity::from_units(ports));
            if spec["type"] == "LoadBalancer" {
                usage.insert("services.loadbalancers".into(), one);
            }
        }
        ("", "ConfigMap" | "Secret" | "ReplicationController" | "ResourceQuota") => {
            usage.insert(kind.plural.clone(), one);
        }
        _ => {}
    }
    usage
}

/// Each container must say how much CPU and memory it wants, if the quota counts them.
fn require(kind: &Kind, pod: &Value, quota: &str, hard: &Amounts) -> Result<(), Status> {
    let spec = &pod["spec"];
    if !spec["resources"].is_null() {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in REQUIRED.into_iter().filter(|name| hard.contains_key(*name)) {
        let (side, resource) = match name.split_once('.') {
            Some((side, resource)) => (side, resource),
            None => ("requests", name),
        };
        for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
            if container["resources"][side][resource].is_null() {
                let container = container["name"].as_str().unwrap_or_default();
                missing.entry(name).or_default().insert(container);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = missing
        .iter()
        .map(|(name, containers)| {
            let containers: Vec<&str> = containers.iter().copied().collect();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    let why = format!("failed quota: {quota}: must specify {}", texts.join("; "));
    Err(forbidden(kind, pod, &why))
}

/// Whether a quota counts an object at all; only pods have scopes.
fn in_scope(quota: &Value, value: &Value) -> bool {
    let spec = &value["spec"];
    let class = spec["priorityClassName"].as_str().unwrap_or_default();
    let holds = |scope: &str| match scope {
        "Terminating" => spec["activeDeadlineSeconds"].as_i64().is_some(),
        "NotTerminating" => spec["activeDeadlineSeconds"].as_i64().is_none(),
        "BestEffort" => value["status"]["qosClass"] == "BestEffort",
        "NotBestEffort" => value["status"]["qosClass"] != "BestEffort",
        "PriorityClass" => !class.is_empty(),
        _ => false,
    };
    let by_name = list(quota, "scopes").iter().filter_map(Value::as_str).all(holds);
    by_name
        && list(&quota["scopeSelector"], "matchExpressions").iter().all(|expression| {
            let scope = expression["scopeName"].as_str().unwrap_or_default();
            let listed = list(expression, "values").iter().any(|value| *value == class);
            match expression["operator"].as_str() {
                Some("In") if scope == "PriorityClass" => listed,
                Some("NotIn") if scope == "PriorityClass" => !listed,
                Some("DoesNotExist") => !holds(scope),
                _ => holds(scope),
            }
        })
}
