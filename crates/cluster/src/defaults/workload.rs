//! What makes pods.

use serde_json::{Map, Value, json};

use super::pod::template;
use super::{default, entry, items, member};

type Object = Map<String, Value>;

pub(super) fn replication_controller(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    default(spec, "replicas", 1);
    if spec.get("template").is_none_or(Value::is_null) {
        return;
    }
    template(spec);
    let labels = template_labels(spec);
    if let Some(labels) = &labels
        && spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        spec.insert("selector".into(), labels.clone());
    }
    label_as_template(object, labels);
}

pub(super) fn deployment(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    template(spec);
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    let Some(strategy) = entry(spec, "strategy") else { return };
    default(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = entry(strategy, "rollingUpdate")
    {
        default(rolling, "maxUnavailable", "25%");
        default(rolling, "maxSurge", "25%");
    }
}

pub(super) fn replica_set(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    template(spec);
    default(spec, "replicas", 1);
}

pub(super) fn stateful_set(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    template(spec);
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = entry(spec, "updateStrategy") {
        if super::is_unset(strategy.get("type")) {
            strategy.insert("type".into(), "RollingUpdate".into());
            entry(strategy, "rollingUpdate");
        }
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = member(strategy, "rollingUpdate")
        {
            default(rolling, "partition", 0);
        }
    }
    if let Some(retention) = entry(spec, "persistentVolumeClaimRetentionPolicy") {
        default(retention, "whenDeleted", "Retain");
        default(retention, "whenScaled", "Retain");
    }
    for claim in items(spec, "volumeClaimTemplates") {
        default(claim, "apiVersion", "v1");
        default(claim, "kind", "PersistentVolumeClaim");
        super::storage::claim(claim);
        if let Some(status) = entry(claim, "status") {
            default(status, "phase", "Pending");
        }
    }
}

pub(super) fn daemon_set(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    template(spec);
    default(spec, "revisionHistoryLimit", 10);
    let Some(strategy) = entry(spec, "updateStrategy") else { return };
    default(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = entry(strategy, "rollingUpdate")
    {
        default(rolling, "maxUnavailable", 1);
        default(rolling, "maxSurge", 0);
    }
}

pub(super) fn job(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    template(spec);
    let is_set = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let backoff = if is_set("backoffLimitPerIndex") { i32::MAX } else { 6 };
    let replacement = if is_set("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    if !is_set("completions") && !is_set("parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    default(spec, "parallelism", 1);
    default(spec, "backoffLimit", backoff);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "podReplacementPolicy", replacement);
    default(spec, "manualSelector", false);
    if let Some(policy) = member(spec, "podFailurePolicy") {
        for rule in items(policy, "rules") {
            for condition in items(rule, "onPodConditions") {
                default(condition, "status", "True");
            }
        }
    }
    let labels = template_labels(spec);
    label_as_template(object, labels);
}

pub(super) fn cron_job(object: &mut Object) {
    let Some(spec) = entry(object, "spec") else { return };
    default(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = entry(spec, "jobTemplate") {
        entry(job, "metadata");
        if let Some(spec) = entry(job, "spec") {
            template(spec);
        }
    }
}

fn template_labels(spec: &Object) -> Option<Value> {
    let labels = spec.get("template")?.get("metadata")?.get("labels")?;
    labels.as_object().filter(|labels| !labels.is_empty()).map(|labels| json!(labels))
}

/// An object without labels takes those of its template.
fn label_as_template(object: &mut Object, labels: Option<Value>) {
    if let Some(labels) = labels
        && let Some(metadata) = entry(object, "metadata")
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        metadata.insert("labels".into(), labels);
    }
}
