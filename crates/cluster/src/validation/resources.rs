//! Requests and limits.

use aerostat_api::Quantity;
use serde_json::Value;

use super::place::Place;
use super::{Errors, names};

const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
/// Counted in whole things.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether a container may use more than it requests.
fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// What is wrong with a resource's name, wherever it is used.
fn any_name(name: &str) -> Vec<String> {
    let wrong = names::qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !STANDARD.contains(&name) && !is_huge_pages(name)
    {
        return vec!["must be a standard resource type or fully qualified".into()];
    }
    wrong
}

/// What is wrong with a resource's name on a container.
pub(super) fn container_name(name: &str) -> Vec<String> {
    let mut wrong = any_name(name);
    if !name.contains('/') {
        if !["cpu", "memory", "ephemeral-storage"].contains(&name) && !is_huge_pages(name) {
            wrong.push("must be a standard resource for containers".into());
        }
    } else if !is_native(name) && !is_extended(name) {
        wrong.push("doesn't follow extended resource name standard".into());
    }
    wrong
}

/// What is wrong with a resource's name on a pod as a whole.
pub(super) fn pod_name(name: &str) -> Vec<String> {
    any_name(name)
}

/// Limits and requests of a container or pod.
pub(super) fn requirements(at: Place, name_rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    for (name, limit) in at.entries("limits") {
        check_name(limit, name, name_rule, errors);
        amount(limit, name, errors);
    }
    for (name, request) in at.entries("requests") {
        check_name(request, name, name_rule, errors);
        amount(request, name, errors);
        let requests = at.child("requests").showing(request.value);
        let limit = &at.value["limits"][name];
        let (Some(wanted), Some(most)) = (parse(request.value), parse(limit)) else {
            if limit.is_null() && !is_overcommittable(name) {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(at.child("limits").required(why));
            }
            continue;
        };
        if wanted != most && !is_overcommittable(name) {
            errors.push(requests.invalid(&format!("must be equal to {name} limit of {most}")));
        } else if wanted > most {
            let why = format!("must be less than or equal to {name} limit of {most}");
            errors.push(requests.invalid(&why));
        }
    }
}

fn check_name(at: Place, name: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let problems = rule(name);
    if !problems.is_empty() {
        at.showing(&Value::from(name)).each(problems, errors);
    }
}

/// An amount of a resource: not negative, whole if the resource is counted.
pub(super) fn amount(at: Place, name: &str, errors: &mut Errors) {
    let Some(amount) = parse(at.value) else {
        errors.push(at.invalid(&aerostat_api::quantity::ParseError.to_string()));
        return;
    };
    if amount.is_negative() {
        errors.push(at.invalid("must be greater than or equal to 0"));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && amount.milli() % 1000 != 0 {
        errors.push(at.invalid("must be an integer"));
    }
}

/// A quantity that has been written.
pub(super) fn parse(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}
