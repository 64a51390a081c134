//! Disruption budgets, priority classes, autoscalers.

use serde_json::Value;

use super::metadata::selector;
use super::place::Place;
use super::workload::{at_most_all, int_or_percent};
use super::{Errors, names};

/// The highest priority that users may give.
const HIGHEST: i64 = 1_000_000_000;

pub(super) fn disruption_budget(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    let (least, most) = (spec.child("minAvailable"), spec.child("maxUnavailable"));
    if least.is_set() && most.is_set() {
        errors.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    for at in [least, most].into_iter().filter(Place::is_set) {
        int_or_percent(at, errors);
        at_most_all(at, errors);
    }
    selector(spec.child("selector"), errors);
    let unhealthy = spec.child("unhealthyPodEvictionPolicy");
    if unhealthy.is_set() {
        unhealthy.one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
    }
}

pub(super) fn priority_class(root: Place, errors: &mut Errors) {
    let metadata = root.child("metadata");
    let name = metadata.child("name");
    let value = root.child("value");
    let number = value.number().unwrap_or(0);
    if name.text().starts_with("system-") {
        if let Err(why) = system_class(name.text(), number, root.value["globalDefault"] == true) {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {why}"
            );
            errors.push(name.forbidden(&why));
        }
    } else if number > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(value.forbidden(&why));
    }
    root.child("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"], errors);
}

fn system_class(name: &str, value: i64, global_default: bool) -> Result<(), String> {
    let known =
        [("system-node-critical", HIGHEST * 2 + 1000), ("system-cluster-critical", HIGHEST * 2)];
    match known.iter().find(|(known, _)| *known == name) {
        None => Err(format!("{name} is not a known system priority class")),
        Some((_, wanted)) if *wanted != value => {
            Err(format!("value of {name} PriorityClass must be {wanted}"))
        }
        Some(_) if global_default => {
            Err(format!("globalDefault of {name} PriorityClass must be false"))
        }
        Some(_) => Ok(()),
    }
}

/// What a class means for pods that exist does not change.
pub(super) fn priority_class_update(root: Place, old: Place, errors: &mut Errors) {
    if root.child("value").value != old.child("value").value {
        errors.push(root.child("value").forbidden("may not be changed in an update."));
    }
    root.child("preemptionPolicy").immutable(old.child("preemptionPolicy").value, errors);
}

pub(super) fn autoscaler(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    let (least, most) = (spec.child("minReplicas"), spec.child("maxReplicas"));
    let (fewest, largest) = (least.number().unwrap_or(1), most.number().unwrap_or(0));
    if fewest < 1 {
        errors.push(least.invalid("must be greater than or equal to 1"));
    }
    if largest == 0 {
        errors.push(most.required("must be set and greater than 0"));
    } else if largest < 0 {
        errors.push(most.invalid("must be greater than or equal to 1"));
    }
    if largest < fewest {
        let shown = Value::from(largest);
        let most = most.showing(&shown);
        errors.push(most.invalid("must be greater than or equal to `minReplicas`"));
    }
    let target = spec.child("scaleTargetRef");
    for field in ["kind", "name"] {
        let part = target.child(field);
        if part.text().is_empty() {
            errors.push(part.required(""));
        } else {
            part.each(names::path_segment(part.text()), errors);
        }
    }
}
