//! What Kubernetes refuses of a well-formed object.
//!
//! The rules that users meet, with the texts and field paths of Kubernetes v1.36
//! (`pkg/apis/*/validation/validation.go`, apimachinery `pkg/api/validation`). Shapes and types
//! have been checked before, when the object was decoded; what has another shape nevertheless is
//! treated as absent.
//!
//! | module | rules |
//! |---|---|
//! | `place` | a value with its path: how errors are made |
//! | `names` | what names, labels and keys look like |
//! | `metadata` | names, labels, owners, finalizers |
//! | `pod`, `pod_update` | pod specs; what may change of a pod |
//! | `container`, `resources`, `volume`, `scheduling` | parts of pod specs |
//! | `workload`, `job` | what makes pods |
//! | `service`, `storage`, `cluster`, `policy` | other kinds |

mod cluster;
mod container;
mod job;
mod metadata;
mod names;
mod place;
mod pod;
mod pod_update;
mod policy;
mod resources;
mod scheduling;
mod service;
mod storage;
#[cfg(test)]
mod tests;
mod volume;
mod workload;

use serde_json::Value;

use crate::kinds::Kind;
use crate::registry::Part;
use crate::status::FieldError;
use place::Place;

/// What is wrong so far.
type Errors = Vec<FieldError>;

/// Everything wrong with a new object.
#[must_use]
pub fn create(kind: &Kind, value: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let root = Place::root(value);
    metadata::create(kind, root.child("metadata"), &mut errors);
    if kind.custom.is_some() {
        return errors;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod::create(root, &mut errors),
        ("batch", "Job") => job::create(root, &mut errors),
        ("batch", "CronJob") => job::cron_name(root.child("metadata"), &mut errors),
        _ => {}
    }
    common(kind, root, &mut errors);
    errors
}

/// Everything wrong with a changed object; immutable fields among it.
#[must_use]
pub fn update(kind: &Kind, new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    let mut errors = Errors::new();
    if part != Part::Main {
        return errors;
    }
    let (root, old) = (Place::root(new), Place::root(old));
    metadata::update(root.child("metadata"), old.child("metadata"), &mut errors);
    if kind.custom.is_some() {
        return errors;
    }
    if (kind.group.as_str(), kind.kind.as_str()) == ("", "Pod") {
        // The spec of a pod hardly ever changes; most updates are of labels and finalizers.
        if root.child("spec").value != old.child("spec").value {
            pod::pod(root, &mut errors);
            pod_update::update(root.child("spec"), old.child("spec"), &mut errors);
        }
        return errors;
    }
    common(kind, root, &mut errors);
    changes(kind, root, old, &mut errors);
    errors
}

/// What a change may not do.
fn changes(kind: &Kind, root: Place, old: Place, errors: &mut Errors) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
            let selector = &old.value["spec"]["selector"];
            root.child("spec").child("selector").immutable(selector, errors);
        }
        ("apps", "StatefulSet") => workload::stateful_set_update(root, old, errors),
        ("apps", "ControllerRevision") => {
            root.child("data").immutable(old.child("data").value, errors);
        }
        ("batch", "Job") => job::update(root, old, errors),
        ("", "Service") => service::update(root, old, errors),
        ("", "PersistentVolumeClaim") => storage::claim_update(root, old, errors),
        ("", "PersistentVolume") => storage::volume_update(root, old, errors),
        ("storage.k8s.io", "StorageClass") => storage::class_update(root, old, errors),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class_update(root, old, errors),
        ("", "Secret") => cluster::secret_update(root, old, errors),
        ("", "ConfigMap") => cluster::config_map_update(root, old, errors),
        ("", "Node") => cluster::node_update(root, old, errors),
        _ => {}
    }
}

/// Rules that hold for an object whether it is new or changed.
fn common(kind: &Kind, root: Place, errors: &mut Errors) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "PodTemplate") => pod::template(root.child("template"), errors),
        ("", "ReplicationController") => workload::replication_controller(root, errors),
        ("apps", "Deployment") => workload::deployment(root, errors),
        ("apps", "ReplicaSet") => workload::replica_set(root, errors),
        ("apps", "StatefulSet") => workload::stateful_set(root, errors),
        ("apps", "DaemonSet") => workload::daemon_set(root, errors),
        ("batch", "Job") => job::job(root, errors),
        ("batch", "CronJob") => job::cron_job(root, errors),
        ("", "Service") => service::service(root, errors),
        ("", "PersistentVolumeClaim") => storage::claim(root.child("spec"), errors),
        ("", "PersistentVolume") => storage::volume(root.child("spec"), errors),
        ("storage.k8s.io", "StorageClass") => storage::class(root, errors),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget(root, errors),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(root, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => policy::autoscaler(root, errors),
        ("", "Secret") => cluster::secret(root, errors),
        ("", "ConfigMap") => cluster::config_map(root, errors),
        ("", "Node") => cluster::node(root, errors),
        ("coordination.k8s.io", "Lease") => cluster::lease(root, errors),
        ("", "ResourceQuota") => cluster::resource_quota(root, errors),
        ("admissionregistration.k8s.io", _) => {
            errors.extend(crate::admission::policy::validate(kind, root.value));
        }
        _ => {}
    }
}
