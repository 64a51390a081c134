//! Priority. Source: `plugin/pkg/admission/priority/admission.go`.

use std::sync::Arc;

use serde_json::Value;

use super::forbidden;
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::{Object, Resource};

fn resource() -> Resource {
    ("scheduling.k8s.io".to_owned(), "priorityclasses".to_owned())
}

/// Resolves a pod's priority class to its number and preemption policy.
pub(super) fn pod(cluster: &Cluster, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
    let wanted = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if wanted.is_empty() {
        global_default(cluster)
    } else {
        let found = cluster.store().get(&resource(), &(String::new(), wanted.clone()));
        if found.is_none() {
            let why = format!("no PriorityClass with name {wanted} was found");
            return Err(forbidden(kind, pod, &why));
        }
        found
    };
    let (name, priority, policy) = match &class {
        Some(class) => (
            class.name(),
            class.value["value"].as_i64().unwrap_or(0),
            class.value["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority"),
        ),
        None => ("", 0, "PreemptLowerPriority"),
    };
    if let Some(given) = pod["spec"]["priority"].as_i64()
        && given != priority
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority \
             admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(kind, pod, &why));
    }
    if let Some(given) = pod["spec"]["preemptionPolicy"].as_str()
        && given != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(kind, pod, &why));
    }
    if !name.is_empty() {
        pod["spec"]["priorityClassName"] = name.into();
    }
    pod["spec"]["priority"] = priority.into();
    pod["spec"]["preemptionPolicy"] = policy.into();
    Ok(())
}

/// The class for pods that name none: the lowest of those that offer themselves.
fn global_default(cluster: &Cluster) -> Option<Arc<Object>> {
    let (classes, _) = cluster.store().list(&resource(), "");
    classes
        .into_iter()
        .filter(|class| class.value["globalDefault"] == true)
        .min_by_key(|class| class.value["value"].as_i64())
}

/// An update that leaves priority out keeps it.
pub(super) fn keep(new: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if new["spec"][field].is_null() && !old["spec"][field].is_null() {
            new["spec"][field] = old["spec"][field].clone();
        }
    }
}

/// Only one class may be the default.
pub(super) fn class(
    cluster: &Cluster,
    kind: &Kind,
    class: &Value,
    created: bool,
) -> Result<(), Status> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    match global_default(cluster) {
        Some(other) if created || class["metadata"]["name"] != other.name() => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.name()
            );
            Err(forbidden(kind, class, &why))
        }
        _ => Ok(()),
    }
}
