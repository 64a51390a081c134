//! Admission: what the cluster adds to a request, and what it refuses.
//!
//! A create passes, in the order of Kubernetes v1.36: the plugins that change it (here
//! [`create`]), the kind's own preparation (`prepare`, called last by [`create`]), validation (the
//! module [`crate::validation`]), and the plugins that only look at it ([`check`]).
//!
//! | module | plugin | does |
//! |---|---|---|
//! | `namespace` | NamespaceLifecycle | objects live in namespaces that exist and stay |
//! | `limits` | LimitRanger | default requests and limits, bounds |
//! | `service_account` | ServiceAccount | account, its token, its pull secrets |
//! | `priority` | Priority | number and preemption policy of a priority class |
//! | `tolerations` | DefaultTolerationSeconds | five minutes on a node that fails |
//! | `runtime_class` | RuntimeClass | overhead, selector, tolerations of a runtime |
//! | `storage` | DefaultStorageClass, StorageObjectInUseProtection | class and finalizer |
//! | `policy` | ValidatingAdmissionPolicy | what expressions of the cluster's users allow |
//! | `quota` | ResourceQuota | how much a namespace may hold |
//! | `prepare` | (strategies) | initial status, generated selectors, cleared fields |
//! | `service` | (allocators) | cluster addresses and node ports |

mod limits;
mod namespace;
pub(crate) mod policy;
mod prepare;
mod priority;
pub(crate) mod quota;
mod runtime_class;
mod service;
mod service_account;
mod storage;
#[cfg(test)]
mod tests;
mod tolerations;

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::registry::{Cluster, Part};
use crate::status::Status;

/// Admits a create: may change `value`, may refuse it.
///
/// # Errors
///
/// What Kubernetes' admission plugins would answer.
pub fn create(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    value: &mut Value,
) -> Result<(), Status> {
    if kind.namespaced {
        namespace::create(cluster, kind, namespace, value)?;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            limits::fill(cluster, namespace, value);
            service_account::create(cluster, kind, namespace, value)?;
            priority::pod(cluster, kind, value)?;
            tolerations::add(value);
            runtime_class::create(cluster, kind, value)?;
        }
        ("", "Node") => tolerations::taint_new_node(value),
        ("", "PersistentVolumeClaim") => {
            storage::default_class(cluster, value);
            storage::protect(value, "kubernetes.io/pvc-protection");
        }
        ("", "PersistentVolume") => storage::protect(value, "kubernetes.io/pv-protection"),
        ("", "Service") => service::create(cluster, value)?,
        _ => {}
    }
    if kind.custom.is_none() {
        prepare::create(cluster, kind, value);
    }
    Ok(())
}

/// Looks at a new object that is valid: bounds, quotas, single defaults.
///
/// # Errors
///
/// 403 with the plugin's reason.
pub fn check(cluster: &Cluster, kind: &Kind, namespace: &str, value: &Value) -> Result<(), Status> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            limits::check_pod(cluster, kind, namespace, value)?;
            runtime_class::check(cluster, kind, value)?;
        }
        ("", "PersistentVolumeClaim") => limits::check_claim(cluster, kind, namespace, value)?,
        ("scheduling.k8s.io", "PriorityClass") => priority::class(cluster, kind, value, true)?,
        _ => {}
    }
    if kind.namespaced { quota::charge(cluster, kind, namespace, value) } else { Ok(()) }
}

/// Admits an update.
///
/// # Errors
///
/// As [`create`].
pub fn update(
    cluster: &Cluster,
    kind: &Kind,
    _namespace: &str,
    new: &mut Value,
    old: &Value,
    part: Part,
) -> Result<(), Status> {
    match (kind.group.as_str(), kind.kind.as_str(), part) {
        ("", "Pod", Part::Status) => prepare::pod_status(new, old),
        ("", "Pod", Part::Main) => {
            priority::keep(new, old);
            tolerations::add(new);
        }
        ("", "Service", Part::Main) => service::update(cluster, new, old)?,
        ("", "PersistentVolumeClaim", Part::Main) => storage::default_class(cluster, new),
        ("scheduling.k8s.io", "PriorityClass", Part::Main) => {
            priority::class(cluster, kind, new, false)?;
        }
        _ => {}
    }
    Ok(())
}

/// Admits a delete.
///
/// # Errors
///
/// As [`create`].
pub fn delete(_cluster: &Cluster, kind: &Kind, _namespace: &str, name: &str) -> Result<(), Status> {
    namespace::delete(kind, name)
}

/// 403 from a plugin that changes objects. It sees a generated name before its random letters.
fn forbidden(kind: &Kind, value: &Value, why: &str) -> Status {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let base = value["metadata"]["generateName"].as_str().unwrap_or_default();
    let shown = if !base.is_empty() && name.starts_with(base) { base } else { name };
    Status::forbidden(&kind.group, &kind.plural, shown, why)
}

/// The list in `field`, made if it is not there. `object` must be an object.
fn list_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Vec<Value> {
    if !object[field].is_array() {
        object[field] = json!([]);
    }
    object[field].as_array_mut().expect("it was just made a list")
}

/// The list in `field`; empty if there is none.
fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map(Vec::as_slice).unwrap_or_default()
}
