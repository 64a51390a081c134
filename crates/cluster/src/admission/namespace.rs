//! NamespaceLifecycle. Source: apiserver `pkg/admission/plugin/namespace/lifecycle`.

use serde_json::{Value, json};

use super::forbidden;
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses objects for a namespace that is not there or on its way out.
pub(super) fn create(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    value: &Value,
) -> Result<(), Status> {
    let resource = (String::new(), "namespaces".to_owned());
    let Some(found) = cluster.store().get(&resource, &(String::new(), namespace.to_owned())) else {
        return Err(Status::not_found("", "namespaces", namespace));
    };
    if found.value["metadata"]["deletionTimestamp"].is_null()
        && found.value["status"]["phase"] != "Terminating"
    {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = forbidden(kind, value, &why);
    let cause = json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    });
    if let Some(details) = &mut status.details {
        details["causes"] = json!([cause]);
    }
    Err(status)
}

/// Some namespaces stay for ever.
pub(super) fn delete(kind: &Kind, name: &str) -> Result<(), Status> {
    if kind.group.is_empty() && kind.kind == "Namespace" && IMMORTAL.contains(&name) {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden("", "namespaces", name, why));
    }
    Ok(())
}
