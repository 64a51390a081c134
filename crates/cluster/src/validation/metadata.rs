//! Names, labels, annotations, owners, finalizers.
//!
//! Source: apimachinery `pkg/api/validation/objectmeta.go`.

use serde_json::Value;

use super::place::Place;
use super::{Errors, names};
use crate::kinds::Kind;

/// All annotations of an object together, in bytes.
const ANNOTATIONS: usize = 256 * 1024;

type Rule = fn(&str) -> Vec<String>;

/// How objects of a kind may be called.
fn name_rule(kind: &Kind) -> Rule {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => names::dns_label,
        ("rbac.authorization.k8s.io", _) => names::path_segment,
        _ => names::dns_subdomain,
    }
}

pub(super) fn create(kind: &Kind, at: Place, errors: &mut Errors) {
    let rule = name_rule(kind);
    let base = at.child("generateName");
    if !base.text().is_empty() {
        base.each(rule(&with_ending(base.text())), errors);
    }
    let name = at.child("name");
    if name.text().is_empty() {
        errors.push(name.required("name or generateName is required"));
    } else {
        name.each(rule(name.text()), errors);
    }
    if kind.namespaced {
        let namespace = at.child("namespace");
        namespace.each(names::dns_label(namespace.text()), errors);
    }
    common(at, errors);
}

/// A base for generated names may end with a dash; the name will not.
fn with_ending(base: &str) -> String {
    match base.strip_suffix('-') {
        Some(start) if !start.is_empty() => {
            let mut start = start.to_owned();
            start.pop();
            start + "a"
        }
        _ => base.to_owned(),
    }
}

pub(super) fn update(at: Place, old: Place, errors: &mut Errors) {
    if old.child("deletionTimestamp").is_set() {
        let before = old.list("finalizers");
        let extra: Vec<&str> = at
            .list("finalizers")
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        if !extra.is_empty() {
            let extra: Vec<String> = extra.iter().map(|name| format!("{name:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                extra.join(", ")
            );
            errors.push(at.child("finalizers").forbidden(&why));
        }
    }
    common(at, errors);
}

fn common(at: Place, errors: &mut Errors) {
    labels(at.child("labels"), errors);
    annotations(at.child("annotations"), errors);
    owners(at.child("ownerReferences"), errors);
    let finalizers = at.child("finalizers");
    let listed = at.list("finalizers");
    for finalizer in listed.iter().filter_map(Value::as_str) {
        wrong_text(finalizers, finalizer, names::qualified_name, errors);
    }
    let has = |name: &str| listed.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(finalizers.invalid(why));
    }
}

/// A map of labels, or of what has the form of labels.
pub(super) fn labels(at: Place, errors: &mut Errors) {
    for (key, value) in at.value.as_object().into_iter().flatten() {
        wrong_text(at, key, names::qualified_name, errors);
        wrong_text(at, value.as_str().unwrap_or_default(), names::label_value, errors);
    }
}

pub(super) fn annotations(at: Place, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in at.value.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        let problems = names::qualified_name(&key.to_ascii_lowercase());
        let shown = Value::from(key.as_str());
        let found = problems.iter().map(|why| at.showing(&shown).invalid(why));
        errors.extend(found.collect::<Vec<_>>());
    }
    if size > ANNOTATIONS {
        errors.push(at.too_long(ANNOTATIONS));
    }
}

/// Tells what is wrong with a text within `at`, at the path of `at` itself.
pub(super) fn wrong_text(at: Place, text: &str, rule: Rule, errors: &mut Errors) {
    let problems = rule(text);
    if !problems.is_empty() {
        at.showing(&Value::from(text)).each(problems, errors);
    }
}

fn owners(at: Place, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for owner in at.value.as_array().into_iter().flatten() {
        let owner = at.showing(owner);
        let version = owner.child("apiVersion");
        if version.text().rsplit('/').next().unwrap_or_default().is_empty() {
            errors.push(version.invalid("version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            let field = owner.child(field);
            if field.text().is_empty() {
                errors.push(field.showing(&Value::from("")).invalid("must not be empty"));
            }
        }
        if version.text() == "v1" && owner.child("kind").text() == "Event" {
            errors.push(owner.invalid("/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.value["controller"] == true {
            let shown = format!("{}/{}", owner.child("kind").text(), owner.child("name").text());
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {first} and {shown}"
                );
                errors.push(at.invalid(&why));
            } else {
                controller = Some(shown);
            }
        }
    }
}

/// A label selector.
pub(super) fn selector(at: Place, errors: &mut Errors) {
    labels(at.child("matchLabels"), errors);
    for requirement in at.items("matchExpressions") {
        let values = requirement.child("values");
        let any = !requirement.list("values").is_empty();
        match requirement.child("operator").text() {
            "In" | "NotIn" if !any => {
                errors
                    .push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" => {
                if any {
                    errors.push(values.forbidden(
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    ));
                }
            }
            _ => {
                let operator = requirement.child("operator");
                errors.push(operator.invalid("not a valid selector operator"));
            }
        }
        let key = requirement.child("key");
        wrong_text(key, key.text(), names::qualified_name, errors);
        for value in requirement.items("values") {
            value.each(names::label_value(value.text()), errors);
        }
    }
}
