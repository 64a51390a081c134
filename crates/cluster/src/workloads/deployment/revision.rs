//! Template hash, revision numbers, and the annotations that carry them.
//!
//! Source: Kubernetes `pkg/controller/deployment/util/deployment_util.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::limits::{max_surge, wanted};

/// Label of ReplicaSets and pods: which template they are of.
pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// Counts the templates of a Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a ReplicaSet that was rolled back to.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Replicas that the Deployment wanted when it last scaled the ReplicaSet.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The same and its surge.
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
/// The longest history, in characters.
const MAX_HISTORY: usize = 2000;

/// Whether a ReplicaSet is of the Deployment's template.
pub(super) fn is_of(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(mut own) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else {
        return false;
    };
    let mut template = template.clone();
    for template in [&mut own, &mut template] {
        if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
            labels.remove(HASH_LABEL);
        }
    }
    own == template
}

/// The order of age: creation, then name.
pub(super) fn age(set: &ReplicaSet) -> (Option<Timestamp>, Option<&str>) {
    let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, set.metadata.name.as_deref())
}

/// The revision of a ReplicaSet; 0 if it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The replicas that the Deployment wanted when it last scaled the set.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    annotation(set, DESIRED)?.parse().ok().filter(|number| *number >= 0)
}

/// The most replicas that the Deployment allowed when it last scaled the set.
pub(super) fn max(set: &ReplicaSet) -> Option<i32> {
    annotation(set, MAX)?.parse().ok().filter(|number| *number >= 0)
}

fn annotation<'a>(set: &'a ReplicaSet, name: &str) -> Option<&'a str> {
    set.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Writes down what the Deployment wants of the set.
pub(super) fn note_scale(annotations: &mut BTreeMap<String, String>, deployment: &Deployment) {
    let wanted = wanted(deployment);
    annotations.insert(DESIRED.into(), wanted.to_string());
    annotations.insert(MAX.into(), (wanted + max_surge(deployment)).to_string());
}

/// The annotations that the set of the current template has: the Deployment's own, and the newest
/// revision, with the earlier ones remembered.
pub(super) fn annotations(
    old: &BTreeMap<String, String>,
    deployment: &Deployment,
    newest: i64,
) -> BTreeMap<String, String> {
    let mut annotations = old.clone();
    for (name, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            annotations.insert(name.clone(), value.clone());
        }
    }
    let before = old.get(REVISION);
    if before.is_none_or(|text| text.parse::<i64>().is_ok_and(|number| number < newest)) {
        annotations.insert(REVISION.into(), newest.to_string());
        if let Some(before) = before {
            let history = old.get(HISTORY).map_or("", String::as_str);
            let mut kept = history.split(',').filter(|entry| !entry.is_empty()).collect::<Vec<_>>();
            kept.push(before);
            while kept.len() > 1 && kept.join(",").len() > MAX_HISTORY {
                kept.remove(0);
            }
            annotations.insert(HISTORY.into(), kept.join(","));
        }
    }
    annotations
}
