//! An object of another cluster, as this one can take it.

use aerostat_cluster::Cluster;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// Kinds that a cluster makes by itself, or that only its machines have.
const OWN: [&str; 8] = [
    "Node",
    "NodeClaim",
    "Event",
    "Lease",
    "CSINode",
    "ControllerRevision",
    "Endpoints",
    "EndpointSlice",
];

/// The object without what the other cluster has made of it: status, identity, owners, and the
/// names of what pods find there only. `None` for what every cluster makes by itself.
pub(super) fn fresh(value: &Value) -> Option<Value> {
    if OWN.iter().any(|kind| value["kind"] == *kind) {
        return None;
    }
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.retain(|field, _| {
            matches!(field.as_str(), "name" | "namespace" | "labels" | "annotations")
        });
    }
    forget(&mut value);
    let pod = match value["kind"].as_str() {
        Some("Pod") => Some("/spec"),
        Some("CronJob") => Some("/spec/jobTemplate/spec/template/spec"),
        _ => Some("/spec/template/spec"),
    };
    let spec = pod.and_then(|path| value.pointer_mut(path)).and_then(Value::as_object_mut);
    if let Some(spec) = spec {
        for field in ["serviceAccountName", "serviceAccount", "nodeName", "priority"] {
            spec.remove(field);
        }
        // Tokens are mounted anew.
        let is_token = |item: &Value| {
            item["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"))
        };
        if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
            volumes.retain(|volume| !is_token(volume));
        }
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let mounts = container.get_mut("volumeMounts").and_then(Value::as_array_mut);
                if let Some(mounts) = mounts {
                    mounts.retain(|mount| !is_token(mount));
                }
            }
        }
    }
    Some(value)
}

/// Takes away what the other cluster's control plane has filled in.
fn forget(value: &mut Value) {
    let (fields, labels): (&[&str], &[&str]) = match value["kind"].as_str() {
        Some("Job") => (
            &["selector", "manualSelector"],
            &[
                "batch.kubernetes.io/controller-uid",
                "batch.kubernetes.io/job-name",
                "controller-uid",
                "job-name",
            ],
        ),
        Some("Service") => (&["clusterIP", "clusterIPs"], &[]),
        _ => return,
    };
    if let Some(spec) = value["spec"].as_object_mut() {
        spec.retain(|field, _| !fields.contains(&field.as_str()));
    }
    let template = value.pointer_mut("/spec/template/metadata/labels");
    if let Some(all) = template.and_then(Value::as_object_mut) {
        all.retain(|label, _| !labels.contains(&label.as_str()));
    }
}

/// How many pods an object is or wants.
pub(super) fn pods(value: &Value) -> u64 {
    match value["kind"].as_str() {
        Some("Pod") => 1,
        Some("Deployment" | "ReplicaSet" | "StatefulSet") => {
            value["spec"]["replicas"].as_u64().unwrap_or(1)
        }
        Some("Job") => value["spec"]["completions"].as_u64().unwrap_or(1),
        _ => 0,
    }
}

/// Makes the namespace that an object lives in, if it is not there, with its service account.
pub(super) fn provide_namespace(cluster: &Cluster, value: &Value) {
    let Some(name) = value["metadata"]["namespace"].as_str().filter(|name| !name.is_empty()) else {
        return;
    };
    if cluster.get::<Namespace>("", name).is_none() {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let metadata = ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() };
        // Pods ask for it, and its controller has not had its turn yet.
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        // If one is refused, so is the object, and that is told.
        let _ = cluster.create("", &namespace);
        let _ = cluster.create(name, &account);
    }
}
