//! Where pods may run: affinity, spread, tolerations, taints, gates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::metadata::{selector, wrong_text};
use super::place::Place;
use super::{Errors, names};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn tolerations(spec: Place, errors: &mut Errors) {
    for at in spec.items("tolerations") {
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|field| at.child(field).text());
        let shown = |field: &'static str, text: &str, why: &str| {
            at.child(field).showing(&Value::from(text)).invalid(why)
        };
        if !key.is_empty() {
            wrong_text(at.child("key"), key, names::qualified_name, errors);
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all \
                       values and all keys\"";
            errors.push(shown("operator", operator, why));
        }
        if at.child("tolerationSeconds").is_set() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(shown("effect", effect, why));
        }
        match operator {
            "Equal" | "" => {
                let problems = names::label_value(value);
                if !problems.is_empty() {
                    errors.push(shown("operator", value, &problems.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(shown("operator", value, why));
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                let supported = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(at.child("operator").not_supported(&supported));
            }
            _ => errors.push(at.child("operator").not_supported(&["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            at.child("effect").one_of(&EFFECTS, errors);
        }
    }
}

/// The taints of a node.
pub(super) fn taints(node: Place, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    let spec = node.child("spec");
    // The path is that of Kubernetes, which looks under `metadata` by mistake.
    let metadata = node.child("metadata");
    let listed = json!({"taints": spec.child("taints").value});
    for at in metadata.showing(&listed).items("taints") {
        let (key, effect) = (at.child("key"), at.child("effect"));
        wrong_text(key, key.text(), names::qualified_name, errors);
        let value = at.child("value");
        let problems = names::label_value(value.text());
        if !problems.is_empty() {
            errors.push(value.invalid(&problems.join(";")));
        }
        effect.one_of(&EFFECTS, errors);
        if !seen.insert((key.text().to_owned(), effect.text().to_owned())) {
            let mut duplicate = at.duplicate();
            duplicate.detail.push_str(": taints must be unique by key and effect pair");
            errors.push(duplicate);
        }
    }
}

pub(super) fn gates(spec: Place, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for at in spec.items("schedulingGates") {
        let name = at.child("name").text();
        wrong_text(at, name, names::qualified_name, errors);
        if !seen.insert(name) {
            errors.push(at.showing(&Value::from(name)).duplicate());
        }
    }
}

pub(super) fn spread_constraints(spec: Place, errors: &mut Errors) {
    let pair = |value: &Value| {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    let all: Vec<_> = spec.list("topologySpreadConstraints").iter().map(pair).collect();
    for (i, at) in spec.items("topologySpreadConstraints").enumerate() {
        positive(at.child("maxSkew"), errors);
        let key = at.child("topologyKey");
        if key.text().is_empty() {
            errors.push(key.required("can not be empty"));
        }
        let action = at.child("whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action.text()) {
            let shown = Value::from(action.text());
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(action.showing(&shown).not_supported(&supported));
        }
        if all[i + 1..].contains(&all[i]) {
            let (key, action) = &all[i];
            let shown = Value::from(format!("{{{key}, {action}}}"));
            let at = at.child("{topologyKey, whenUnsatisfiable}");
            let at = at.showing(&shown);
            errors.push(at.duplicate());
        }
        let domains = at.child("minDomains");
        if domains.is_set() {
            positive(domains, errors);
            if action.text() != "DoNotSchedule" {
                let why = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.text()
                );
                errors.push(domains.invalid(&why));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if at.child(field).is_set() {
                at.child(field).one_of(&["Honor", "Ignore"], errors);
            }
        }
        label_keys(at, errors);
        selector(at.child("labelSelector"), errors);
    }
}

fn positive(at: Place, errors: &mut Errors) {
    let number = at.number().unwrap_or(0);
    if number <= 0 {
        errors.push(at.showing(&Value::from(number)).invalid("must be greater than zero"));
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` need a selector to add to.
fn label_keys(at: Place, errors: &mut Errors) {
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        if at.list(field).is_empty() {
            continue;
        }
        if !at.child("labelSelector").is_set() {
            let why = "must not be specified when labelSelector is not set";
            errors.push(at.child(field).forbidden(why));
            continue;
        }
        for key in at.items(field) {
            key.each(names::qualified_name(key.text()), errors);
        }
    }
    for key in at.items("matchLabelKeys") {
        if at.list("mismatchLabelKeys").contains(key.value) {
            errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}

pub(super) fn affinity(at: Place, errors: &mut Errors) {
    let node = at.child("nodeAffinity");
    node_selector(node.child(REQUIRED), errors);
    for term in node.items(PREFERRED) {
        weight(term, errors);
        // Values are not looked at: what matches nothing does no harm here.
        node_term(term.child("preference"), false, errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = at.child(kind);
        for term in pods.items(REQUIRED) {
            pod_term(term, errors);
        }
        for term in pods.items(PREFERRED) {
            weight(term, errors);
            pod_term(term.child("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: Place, errors: &mut Errors) {
    let weight = term.child("weight");
    let number = weight.number().unwrap_or(0);
    if !(1..=100).contains(&number) {
        let shown = Value::from(number);
        errors.push(weight.showing(&shown).invalid("must be in the range 1-100"));
    }
}

/// A node selector: terms of which one must match.
pub(super) fn node_selector(at: Place, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    if at.list("nodeSelectorTerms").is_empty() {
        let why = "must have at least one node selector term";
        errors.push(at.child("nodeSelectorTerms").required(why));
    }
    for term in at.items("nodeSelectorTerms") {
        node_term(term, true, errors);
    }
}

fn node_term(term: Place, values_too: bool, errors: &mut Errors) {
    for at in term.items("matchExpressions") {
        let values = at.child("values");
        let count = at.list("values").len();
        match at.child("operator").text() {
            "In" | "NotIn" if count == 0 => {
                errors
                    .push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                errors.push(values.forbidden(
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ))
            }
            "Gt" | "Lt" if count != 1 => errors.push(
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"),
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => errors.push(at.child("operator").invalid("not a valid selector operator")),
        }
        let key = at.child("key");
        wrong_text(key, key.text(), names::qualified_name, errors);
        if values_too {
            for value in at.items("values") {
                value.each(names::label_value(value.text()), errors);
            }
        }
    }
    for at in term.items("matchFields") {
        match at.child("operator").text() {
            "In" | "NotIn" if at.list("values").len() != 1 => errors
                .push(at.child("values").required(
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )),
            "In" | "NotIn" => {}
            _ => errors.push(at.child("operator").invalid("not a valid selector operator")),
        }
        let key = at.child("key");
        if key.text() != "metadata.name" {
            errors.push(key.invalid("not a valid field selector key"));
        }
    }
}

fn pod_term(at: Place, errors: &mut Errors) {
    selector(at.child("labelSelector"), errors);
    selector(at.child("namespaceSelector"), errors);
    for name in at.list("namespaces").iter().filter_map(Value::as_str) {
        wrong_text(at.child("namespace"), name, names::dns_label, errors);
    }
    label_keys(at, errors);
    let key = at.child("topologyKey");
    if key.text().is_empty() {
        errors.push(key.required("can not be empty"));
    }
    wrong_text(key, key.text(), names::qualified_name, errors);
}
