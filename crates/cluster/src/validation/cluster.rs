//! Nodes, configuration, leases, quotas.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::place::Place;
use super::{Errors, names, resources, scheduling};

/// A ConfigMap's or Secret's values together, in bytes.
const CONFIG_SIZE: usize = 1024 * 1024;

pub(super) fn node(root: Place, errors: &mut Errors) {
    scheduling::taints(root, errors);
    let status = root.child("status");
    for field in ["capacity", "allocatable"] {
        let amounts = status.child(field);
        for (name, amount) in amounts.value.as_object().into_iter().flatten() {
            resources::amount(amounts.child(name).showing(amount), name, errors);
        }
    }
}

/// Where a node runs does not change.
pub(super) fn node_update(root: Place, old: Place, errors: &mut Errors) {
    let (spec, before) = (root.child("spec"), old.child("spec"));
    for (field, shown) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let (now, then) = (spec.child(field), before.child(field));
        let was_set = then.value.as_array().map_or(!then.text().is_empty(), |l| !l.is_empty());
        if was_set && now.value != then.value {
            let why = format!("node updates may not change {shown} except from \"\" to valid");
            errors.push(now.forbidden(&why));
        }
    }
}

pub(super) fn config_map(root: Place, errors: &mut Errors) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in root.entries(field) {
            config_key(value, key, errors);
            size += value.text().len();
            if field == "data" && !root.value["binaryData"][key].is_null() {
                let shown = Value::from(key);
                let why = "duplicate of key present in binaryData";
                errors.push(value.showing(&shown).invalid(why));
            }
        }
    }
    if size > CONFIG_SIZE {
        // Upstream names no field, and an empty path is shown like this.
        let mut error = root.too_long(CONFIG_SIZE);
        error.field = "[]".into();
        errors.push(error);
    }
}

fn config_key(at: Place, key: &str, errors: &mut Errors) {
    let problems = names::config_key(key);
    if !problems.is_empty() {
        at.showing(&Value::from(key)).each(problems, errors);
    }
}

pub(super) fn config_map_update(root: Place, old: Place, errors: &mut Errors) {
    frozen(root, old, &["data", "binaryData"], errors);
}

pub(super) fn secret(root: Place, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in root.entries("data") {
        config_key(value, key, errors);
        size += value.text().len() / 4 * 3;
    }
    if size > CONFIG_SIZE {
        errors.push(root.child("data").too_long(CONFIG_SIZE));
    }
    let needed: &[&str] = match root.child("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = root.child("metadata");
            let account = metadata.entry("annotations", "kubernetes.io/service-account.name");
            if account.text().is_empty() {
                errors.push(account.required(""));
            }
            &[]
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/basic-auth" => {
            let either = ["username", "password"];
            let none = either.iter().all(|key| !root.entry("data", key).is_set());
            if none { &["username", "password"] } else { &[] }
        }
        _ => &[],
    };
    for key in needed {
        let value = root.entry("data", key);
        if !value.is_set() {
            errors.push(value.required(""));
        } else if key.starts_with(".docker") {
            let bytes = STANDARD.decode(value.text()).unwrap_or_default();
            if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
                let redacted = Value::from("<secret contents redacted>");
                errors.push(value.showing(&redacted).invalid(&error.to_string()));
            }
        }
    }
}

pub(super) fn secret_update(root: Place, old: Place, errors: &mut Errors) {
    root.child("type").immutable(old.child("type").value, errors);
    frozen(root, old, &["data"], errors);
}

/// What is marked immutable stays, and stays marked.
fn frozen(root: Place, old: Place, fields: &[&str], errors: &mut Errors) {
    if old.value["immutable"] != true {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if root.value["immutable"] != true {
        errors.push(root.child("immutable").forbidden(why));
    }
    for field in fields {
        let (now, then) = (root.child(field), old.child(field));
        let empty = |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty);
        if now.value != then.value && !(empty(now.value) && empty(then.value)) {
            errors.push(now.forbidden(why));
        }
    }
}

pub(super) fn lease(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    let duration = spec.child("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        errors.push(duration.invalid("must be greater than 0"));
    }
    spec.child("leaseTransitions").nonnegative(errors);
}

pub(super) fn resource_quota(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    for (name, amount) in spec.entries("hard") {
        resources::amount(amount, name, errors);
    }
}
