//! Namespaces, nodes, secrets, limits, classes, roles.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{default, entry, items, member, quantities};

type Object = Map<String, Value>;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn namespace(object: &mut Object) {
    let Some(metadata) = entry(object, "metadata") else { return };
    let name = metadata.get("name").cloned().filter(|name| name != "");
    if let Some(name) = name
        && let Some(labels) = entry(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

pub(super) fn node(object: &mut Object) {
    let Some(status) = member(object, "status") else { return };
    quantities(status, "capacity");
    quantities(status, "allocatable");
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
}

/// `stringData` is written into `data` and never read back.
pub(super) fn secret(object: &mut Object) {
    default(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object.remove("stringData") else { return };
    if let Some(data) = entry(object, "data") {
        for (key, text) in texts {
            let text = text.as_str().unwrap_or_default();
            data.insert(key, STANDARD.encode(text).into());
        }
    }
}

pub(super) fn limit_range(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    for limit in items(spec, "limits") {
        for field in ["default", "defaultRequest", "max", "min", "maxLimitRequestRatio"] {
            quantities(limit, field);
        }
        if limit.get("type").is_none_or(|kind| kind != "Container") {
            continue;
        }
        // A default limit comes from the maximum; a default request from the default limit, else
        // from the minimum.
        fill(limit, "default", "max");
        fill(limit, "defaultRequest", "default");
        fill(limit, "defaultRequest", "min");
    }
}

fn fill(limit: &mut Object, to: &str, from: &str) {
    let amounts = member(limit, from).map(|amounts| amounts.clone()).unwrap_or_default();
    if amounts.is_empty() {
        return;
    }
    if let Some(to) = entry(limit, to) {
        for (name, amount) in amounts {
            to.entry(name).or_insert(amount);
        }
    }
}

pub(super) fn resource_quota(object: &mut Object) {
    if let Some(spec) = entry(object, "spec") {
        quantities(spec, "hard");
    }
}

pub(super) fn runtime_class(object: &mut Object) {
    if let Some(overhead) = member(object, "overhead") {
        quantities(overhead, "podFixed");
    }
}

pub(super) fn priority_class(object: &mut Object) {
    default(object, "value", 0);
    default(object, "preemptionPolicy", "PreemptLowerPriority");
}

pub(super) fn role_binding(object: &mut Object) {
    if let Some(role) = member(object, "roleRef") {
        default(role, "apiGroup", RBAC);
    }
    for subject in items(object, "subjects") {
        if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
            default(subject, "apiGroup", RBAC);
        }
    }
}
