//! What makes pods. Source: `pkg/apis/apps/validation`.

use serde_json::{Value, json};

use super::metadata::selector;
use super::place::Place;
use super::{Errors, names, pod, storage};

pub(super) fn replication_controller(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    spec.child("minReadySeconds").nonnegative(errors);
    let selects = spec.child("selector");
    if selects.value.as_object().is_none_or(serde_json::Map::is_empty) {
        errors.push(selects.required(""));
    }
    spec.child("replicas").nonnegative(errors);
    let template = spec.child("template");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    matches(&json!({"matchLabels": selects.value}), template, errors);
    pod::template(template, errors);
    always_runs(template, "ReplicationController", errors);
}

pub(super) fn replica_set(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    spec.child("replicas").nonnegative(errors);
    spec.child("minReadySeconds").nonnegative(errors);
    // Kubernetes says "deployment" here, too.
    selected(spec, "deployment", true, errors);
    pod::template(spec.child("template"), errors);
    always_runs(spec.child("template"), "ReplicaSet", errors);
}

pub(super) fn deployment(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    spec.child("replicas").nonnegative(errors);
    selected(spec, "deployment", true, errors);
    pod::template(spec.child("template"), errors);
    always_runs(spec.child("template"), "ReplicaSet", errors);
    let strategy = spec.child("strategy");
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(rolling.forbidden(why));
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
            int_or_percent(unavailable, errors);
            int_or_percent(surge, errors);
            if amount(unavailable.value) == 0 && amount(surge.value) == 0 {
                errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
            }
            at_most_all(unavailable, errors);
        }
        _ => errors.push(strategy.not_supported(&["Recreate", "RollingUpdate"])),
    }
    spec.child("minReadySeconds").nonnegative(errors);
    spec.child("revisionHistoryLimit").nonnegative(errors);
    let deadline = spec.child("progressDeadlineSeconds");
    deadline.nonnegative(errors);
    let ready = spec.child("minReadySeconds").number().unwrap_or(0);
    if deadline.number().is_some_and(|seconds| seconds <= ready) {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

pub(super) fn daemon_set(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    selected(spec, "daemonset", false, errors);
    pod::template(spec.child("template"), errors);
    always_runs(spec.child("template"), "DaemonSet", errors);
    spec.child("minReadySeconds").nonnegative(errors);
    let strategy = spec.child("updateStrategy");
    match strategy.child("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.child("rollingUpdate");
            let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
            for at in [unavailable, surge] {
                int_or_percent(at, errors);
                at_most_all(at, errors);
            }
            match (amount(unavailable.value) != 0, amount(surge.value) != 0) {
                (true, true) => {
                    errors.push(surge.invalid("may not be set when maxUnavailable is non-zero"));
                }
                (false, false) => {
                    errors.push(unavailable.required("cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => errors.push(strategy.not_supported(&["RollingUpdate", "OnDelete"])),
    }
    spec.child("revisionHistoryLimit").nonnegative(errors);
}

pub(super) fn stateful_set(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    let management = spec.child("podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&management.text()) {
        errors.push(management.invalid("must be 'OrderedReady' or 'Parallel'"));
    }
    let strategy = spec.child("updateStrategy");
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "OnDelete" if rolling.is_set() => {
            errors.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.child("partition").nonnegative(errors);
            let unavailable = rolling.child("maxUnavailable");
            if unavailable.is_set() {
                int_or_percent(unavailable, errors);
                if amount(unavailable.value) == 0 {
                    errors.push(unavailable.invalid("cannot be 0"));
                }
                at_most_all(unavailable, errors);
            }
        }
        _ => errors.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
    let retention = spec.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        retention.child(field).one_of(&["Retain", "Delete"], errors);
    }
    for claim in spec.items("volumeClaimTemplates") {
        storage::claim(claim.child("spec"), errors);
    }
    spec.child("replicas").nonnegative(errors);
    spec.child("minReadySeconds").nonnegative(errors);
    let service = spec.child("serviceName");
    if !service.text().is_empty() {
        service.each(names::dns_label(service.text()), errors);
    }
    selected(spec, "statefulset", true, errors);
    let template = with_claims(spec);
    pod::template(spec.child("template").showing(&template), errors);
    always_runs(spec.child("template"), "StatefulSet", errors);
}

/// The template with a volume for each claim template, as its pods will have it.
fn with_claims(spec: Place) -> Value {
    let mut template = spec.child("template").value.clone();
    let claims = spec.list("volumeClaimTemplates");
    if claims.is_empty() || !template["spec"].is_object() {
        return template;
    }
    let names: Vec<&Value> = claims.iter().map(|claim| &claim["metadata"]["name"]).collect();
    let own = template["spec"]["volumes"].take();
    let own = own.as_array().map(Vec::as_slice).unwrap_or_default();
    let claimed = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let others = own.iter().filter(|volume| !names.contains(&&volume["name"])).cloned();
    template["spec"]["volumes"] = claimed.chain(others).collect();
    template
}

const STATEFUL_SET_CHANGES: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn stateful_set_update(root: Place, old: Place, errors: &mut Errors) {
    let rest = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, _| !STATEFUL_SET_CHANGES.contains(&field.as_str()));
        }
        spec
    };
    let spec = root.child("spec");
    if rest(spec.value) != rest(old.child("spec").value) {
        errors.push(spec.forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        ));
    }
}

/// The selector is there, is not empty and selects the template.
fn selected(spec: Place, kind: &str, required: bool, errors: &mut Errors) {
    let at = spec.child("selector");
    if !at.is_set() {
        if required {
            errors.push(at.required(""));
        }
        return;
    }
    selector(at, errors);
    let labels = at.child("matchLabels").value.as_object().map_or(0, serde_json::Map::len);
    if labels + at.list("matchExpressions").len() == 0 {
        errors.push(at.invalid(&format!("empty selector is invalid for {kind}")));
    } else {
        matches(at.value, spec.child("template"), errors);
    }
}

/// A selector selects the pods of a template.
pub(super) fn matches(selector: &Value, template: Place, errors: &mut Errors) {
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if !selects(selector, labels.value) {
        errors.push(labels.invalid("`selector` does not match template `labels`"));
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().all(|requirement| {
            let label = labels.get(requirement["key"].as_str().unwrap_or_default());
            let listed = || {
                let values = requirement["values"].as_array();
                label.is_some_and(|label| values.is_some_and(|values| values.contains(label)))
            };
            match requirement["operator"].as_str() {
                Some("In") => listed(),
                Some("NotIn") => !listed(),
                Some("Exists") => label.is_some(),
                Some("DoesNotExist") => label.is_none(),
                _ => true,
            }
        })
}

/// The pods of most workloads run for ever.
fn always_runs(template: Place, kind: &str, errors: &mut Errors) {
    let spec = template.child("spec");
    let policy = spec.child("restartPolicy");
    if policy.text() != "Always" {
        errors.push(policy.not_supported(&["Always"]));
    }
    let deadline = spec.child("activeDeadlineSeconds");
    if deadline.is_set() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(deadline.forbidden(&why));
    }
}

/// A count or a percentage, not negative.
pub(super) fn int_or_percent(at: Place, errors: &mut Errors) {
    match at.value {
        Value::String(text) => at.each(names::percent(text), errors),
        _ => at.nonnegative(errors),
    }
}

/// At most 100 %.
pub(super) fn at_most_all(at: Place, errors: &mut Errors) {
    if at.value.is_string() && amount(at.value) > 100 {
        errors.push(at.invalid("must not be greater than 100%"));
    }
}

/// The number of a count or percentage.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        _ => value.as_i64().unwrap_or(0),
    }
}
