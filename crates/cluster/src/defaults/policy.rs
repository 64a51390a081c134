//! Admission policies and their bindings.
//!
//! Source: `pkg/apis/admissionregistration/v1/defaults.go`.

use serde_json::{Map, Value};

use super::{default, entry, items, member};

type Object = Map<String, Value>;

pub(super) fn policy(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = member(spec, "matchConstraints") {
        resources(constraints);
    }
}

pub(super) fn binding(object: &mut Object) {
    let spec = member(object, "spec");
    if let Some(resources_of) = spec.and_then(|spec| member(spec, "matchResources")) {
        resources(resources_of);
    }
}

fn resources(matching: &mut Object) {
    default(matching, "matchPolicy", "Equivalent");
    for selector in ["namespaceSelector", "objectSelector"] {
        entry(matching, selector);
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in items(matching, list) {
            default(rule, "scope", "*");
        }
    }
}
