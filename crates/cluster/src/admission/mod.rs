//! Admission: what the cluster adds to a request, and what it refuses.

use serde_json::Value;

use crate::kinds::Kind;
use crate::registry::{Cluster, Part};
use crate::status::Status;

/// Admits a create: may change `value`, may refuse it.
///
/// # Errors
///
/// What Kubernetes' admission plugins would answer.
pub fn create(
    _cluster: &Cluster,
    _kind: &Kind,
    _namespace: &str,
    _value: &mut Value,
) -> Result<(), Status> {
    Ok(())
}

/// Admits an update.
///
/// # Errors
///
/// As [`create`].
pub fn update(
    _cluster: &Cluster,
    _kind: &Kind,
    _namespace: &str,
    _new: &mut Value,
    _old: &Value,
    _part: Part,
) -> Result<(), Status> {
    Ok(())
}

/// Admits a delete.
///
/// # Errors
///
/// As [`create`].
pub fn delete(
    _cluster: &Cluster,
    _kind: &Kind,
    _namespace: &str,
    _name: &str,
) -> Result<(), Status> {
    Ok(())
}
