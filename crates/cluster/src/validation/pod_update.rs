//! What may change of a pod: hardly anything.
//!
//! Source: `ValidatePodUpdate`.

use serde_json::{Map, Value, json};

use super::Errors;
use super::place::Place;

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
                          `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                          existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to \
                          be set to 1 if it was previously negative)";

/// Checks the spec of a pod against what it was.
pub(super) fn update(at: Place, old: Place, errors: &mut Errors) {
    for field in ["containers", "initContainers"] {
        let (new, old) = (at.list(field), old.list(field));
        if new.len() != old.len() {
            errors.push(at.child(field).forbidden("pod updates may not add or remove containers"));
            return;
        }
    }
    let (deadline, before) =
        (at.child("activeDeadlineSeconds"), old.child("activeDeadlineSeconds"));
    match (deadline.number(), before.number()) {
        (Some(new), Some(old)) if new > old => {
            errors.push(deadline.invalid("must be less than or equal to previous value"));
            return;
        }
        (None, Some(_)) => {
            errors.push(deadline.invalid("must not update from a positive integer to nil value"));
        }
        _ => {}
    }
    tolerations(at, old, errors);
    gates(at, old, errors);
    let gated = !old.list("schedulingGates").is_empty();
    let (Some(new), Some(before)) = (at.value.as_object(), old.value.as_object()) else { return };
    let new = without_changeable(new, before, gated);
    if gated {
        only_added(at.child("nodeSelector"), &old.value["nodeSelector"], errors);
    }
    if new != *before {
        let mut lines = Vec::new();
        differences("spec", &json!(before), &json!(new), &mut lines);
        let why = format!(
            "pod updates may not change fields other than {CHANGEABLE}\n{}\n",
            lines.join("\n")
        );
        errors.push(at.forbidden(&why));
    }
}

/// The new spec, with the old values where changes are allowed or told of already.
fn without_changeable(
    new: &Map<String, Value>,
    old: &Map<String, Value>,
    gated: bool,
) -> Map<String, Value> {
    let mut new = new.clone();
    let mut keep = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    let seconds = |spec: &Map<String, Value>| {
        spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64)
    };
    if seconds(old).is_some_and(|seconds| seconds < 0) && seconds(&new) == Some(1) {
        keep.push("terminationGracePeriodSeconds");
    }
    if gated {
        keep.push("nodeSelector");
    }
    for field in keep {
        match old.get(field) {
            Some(value) => new.insert(field.to_owned(), value.clone()),
            None => new.remove(field),
        };
    }
    for field in ["containers", "initContainers"] {
        let old = old.get(field).and_then(Value::as_array);
        let containers = new.get_mut(field).and_then(Value::as_array_mut);
        for (new, old) in containers.into_iter().flatten().zip(old.into_iter().flatten()) {
            if new.is_object() {
                new["image"] = old["image"].clone();
            }
        }
    }
    if gated {
        // Until a pod is let go, its node affinity may be narrowed down.
        let node = |spec: &Map<String, Value>| spec.get("affinity")?.get("nodeAffinity").cloned();
        let before = node(old);
        if let Some(Value::Object(affinity)) = new.get_mut("affinity") {
            match before {
                Some(before) => affinity.insert("nodeAffinity".into(), before),
                None => affinity.remove("nodeAffinity"),
            };
            if affinity.is_empty() && !old.contains_key("affinity") {
                new.remove("affinity");
            }
        }
    }
    new
}

/// Tolerations may be added; those that are there may only change how long they last.
fn tolerations(at: Place, old: Place, errors: &mut Errors) {
    let lasting = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let new: Vec<Value> = at.list("tolerations").iter().map(lasting).collect();
    if !old.list("tolerations").iter().map(lasting).all(|toleration| new.contains(&toleration)) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(at.child("tolerations").forbidden(why));
    }
}

/// Gates may only be taken away.
fn gates(at: Place, old: Place, errors: &mut Errors) {
    for gate in at.items("schedulingGates") {
        let name = gate.child("name");
        if !old.list("schedulingGates").iter().any(|before| before["name"] == *name.value) {
            let why = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            errors.push(name.forbidden(&why));
        }
    }
}

fn only_added(at: Place, old: &Value, errors: &mut Errors) {
    let kept = |(key, value): (&String, &Value)| at.value.get(key) == Some(value);
    if !old.as_object().into_iter().flatten().all(kept) {
        errors.push(at.invalid(
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        ));
    }
}

/// Every path where two values differ, what was there and what would be.
pub(super) fn differences(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let path = format!("{path}.{key}");
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&path, &of(old), &of(new), lines);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&format!("{path}[{i}]"), old, new, lines);
            }
        }
        _ if old == new => {}
        _ => {
            if !old.is_null() {
                lines.push(format!("- {path}: {old}"));
            }
            if !new.is_null() {
                lines.push(format!("+ {path}: {new}"));
            }
        }
    }
}
