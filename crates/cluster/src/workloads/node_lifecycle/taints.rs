//! The taints that a node's conditions ask for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Condition, its status, taint.
const BY_CONDITION: &[(&str, &str, &str)] = &[
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
/// A label that older programs read, and where its value comes from.
const LEGACY_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
];

/// The taints that `node` should have: of its `own` those that nobody else's business are stay.
pub(super) fn wanted(node: &Node, own: Vec<Taint>, now: Timestamp) -> Vec<Taint> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let has = |type_: &str, status: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition.type_ == type_ && condition.status == status)
    };
    // Without a Ready condition nothing is known yet: what admission set stays.
    let known = conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready");
    let mut wanted: Vec<(&str, &str)> = BY_CONDITION
        .iter()
        .filter(|(type_, status, _)| has(type_, status))
        .map(|(_, _, taint)| (*taint, "NoSchedule"))
        .collect();
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    for (status, taint) in [("False", NOT_READY), ("Unknown", UNREACHABLE)] {
        if has("Ready", status) {
            wanted.push((taint, "NoExecute"));
        }
    }
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut taints: Vec<Taint> = own
        .into_iter()
        .filter(|taint| {
            let ours = match (taint.key.as_str(), taint.effect.as_str()) {
                (NOT_READY | UNREACHABLE, "NoSchedule" | "NoExecute") => known,
                (UNSCHEDULABLE, "NoSchedule") => true,
                (key, "NoSchedule") => BY_CONDITION.iter().any(|(_, _, taint)| *taint == key),
                _ => false,
            };
            !ours || is_wanted(taint)
        })
        .collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            taints.push(Taint {
                key: key.into(),
                effect: effect.into(),
                time_added: Some(Time(now)),
                value: None,
            });
        }
    }
    taints
}

/// The old names of labels that `node` lacks or has wrong.
pub(super) fn legacy_labels(node: &Node) -> BTreeMap<String, String> {
    let Some(labels) = &node.metadata.labels else { return BTreeMap::new() };
    LEGACY_LABELS
        .iter()
        .filter_map(|(old, new)| Some((*old, labels.get(*new)?)))
        .filter(|(old, value)| labels.get(*old) != Some(*value))
        .map(|(old, value)| (old.to_owned(), value.clone()))
        .collect()
}
