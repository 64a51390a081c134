//! How far the deletion of a namespace is.
//!
//! Source: Kubernetes `pkg/controller/namespace/deletion/status_condition_utils.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What is left in a namespace.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// How many objects, by `<plural>.<group>`.
    pub(super) objects: BTreeMap<String, usize>,
    /// How many objects, by finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What went wrong.
    pub(super) errors: Vec<String>,
}

impl Remaining {
    /// Nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.errors.is_empty()
    }
}

/// Writes all five conditions.
pub(super) fn update(status: &mut NamespaceStatus, remaining: &Remaining, now: Timestamp) {
    let mut set = |type_: &str, truth: bool, reason: &str, message: String| {
        let truth = if truth { "True" } else { "False" };
        let conditions = status.conditions.get_or_insert_default();
        let mut condition = NamespaceCondition {
            type_: type_.into(),
            status: truth.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        };
        match conditions.iter_mut().find(|other| other.type_ == type_) {
            Some(other) => {
                if other.status == truth {
                    condition.last_transition_time = other.last_transition_time.take();
                }
                *other = condition;
            }
            None => conditions.push(condition),
        }
    };
    set(
        "NamespaceDeletionDiscoveryFailure",
        false,
        "ResourcesDiscovered",
        "All resources successfully discovered".into(),
    );
    set(
        "NamespaceDeletionGroupVersionParsingFailure",
        false,
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed".into(),
    );
    let errors = &remaining.errors;
    if errors.is_empty() {
        let message = "All content successfully deleted, may be waiting on finalization";
        set("NamespaceDeletionContentFailure", false, "ContentDeleted", message.into());
    } else {
        let (count, list) = (errors.len(), errors.join(", "));
        let message = format!("Failed to delete all resource types, {count} remaining: {list}");
        set("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", message);
    }
    if remaining.objects.is_empty() {
        let message = "All content successfully removed".into();
        set("NamespaceContentRemaining", false, "ContentRemoved", message);
    } else {
        let list = join(&remaining.objects, |kind, n| format!("{kind} has {n} resource instances"));
        let message = format!("Some resources are remaining: {list}");
        set("NamespaceContentRemaining", true, "SomeResourcesRemain", message);
    }
    if remaining.finalizers.is_empty() {
        let message = "All content-preserving finalizers finished".into();
        set("NamespaceFinalizersRemaining", false, "ContentHasNoFinalizers", message);
    } else {
        let list =
            join(&remaining.finalizers, |name, n| format!("{name} in {n} resource instances"));
        let message = format!("Some content in the namespace has finalizers remaining: {list}");
        set("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message);
    }
}

fn join(counts: &BTreeMap<String, usize>, text: impl Fn(&str, usize) -> String) -> String {
    counts.iter().map(|(name, count)| text(name, *count)).collect::<Vec<_>>().join(", ")
}
