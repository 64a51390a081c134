//! Services and what belongs to them.

use serde_json::{Map, Value, json};

use super::{default, entry, is_unset, items, member};

type Object = Map<String, Value>;

/// Three hours.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn service(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    default(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        spec.remove("sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP"
        && let Some(client) =
            entry(spec, "sessionAffinityConfig").and_then(|config| entry(config, "clientIP"))
    {
        default(client, "timeoutSeconds", AFFINITY_SECONDS);
    }
    default(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        default(port, "protocol", "TCP");
        if is_unset(port.get("targetPort")) || port["targetPort"] == 0 {
            let number = port.get("port").cloned().unwrap_or_default();
            port.insert("targetPort".into(), number);
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default();
    let (balanced, external) =
        (kind == "LoadBalancer", matches!(kind, "LoadBalancer" | "NodePort"));
    let has_external_ips =
        spec.get("externalIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if external || (kind == "ClusterIP" && has_external_ips) {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if spec["type"] != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

pub(super) fn endpoints(object: &mut Object) {
    for subset in items(object, "subsets") {
        for port in items(subset, "ports") {
            default(port, "protocol", "TCP");
        }
    }
}

pub(super) fn endpoint_slice(object: &mut Object) {
    for port in items(object, "ports") {
        if port.get("name").is_none_or(Value::is_null) {
            port.insert("name".into(), "".into());
        }
        default(port, "protocol", "TCP");
    }
}

pub(super) fn network_policy(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    entry(spec, "podSelector");
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            for port in items(rule, "ports") {
                default(port, "protocol", "TCP");
            }
        }
    }
    let has = |field: &str| {
        spec.get(field).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    };
    if !has("policyTypes") {
        let types = if has("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".into(), types);
    }
}

pub(super) fn ingress_class(object: &mut Object) {
    if let Some(spec) = entry(object, "spec")
        && let Some(parameters) = member(spec, "parameters")
    {
        default(parameters, "scope", "Cluster");
    }
}
