//! RuntimeClass. Source: `plugin/pkg/admission/runtimeclass/admission.go`.

use std::sync::Arc;

use serde_json::Value;

use super::{forbidden, list, list_mut};
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::Object;

/// Gives a pod the overhead, node selector and tolerations of its runtime class.
pub(super) fn create(cluster: &Cluster, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
    let Some(class) = class_of(cluster, kind, pod)? else { return Ok(()) };
    let overhead = &class.value["overhead"]["podFixed"];
    if !overhead.is_null() {
        let given = &pod["spec"]["overhead"];
        if given.as_object().is_some_and(|given| !given.is_empty()) && given != overhead {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(forbidden(kind, pod, why));
        }
        pod["spec"]["overhead"] = overhead.clone();
    }
    let scheduling = &class.value["scheduling"];
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let own = &pod["spec"]["nodeSelector"][key];
        if !own.is_null() && own != value {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                 pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(own)
            );
            return Err(forbidden(kind, pod, &why));
        }
        pod["spec"]["nodeSelector"][key] = value.clone();
    }
    for toleration in list(scheduling, "tolerations") {
        if !list(&pod["spec"], "tolerations").contains(toleration) {
            list_mut(&mut pod["spec"], "tolerations").push(toleration.clone());
        }
    }
    Ok(())
}

/// Overhead comes from a runtime class only.
pub(super) fn check(cluster: &Cluster, kind: &Kind, pod: &Value) -> Result<(), Status> {
    let class = class_of(cluster, kind, pod)?;
    let overhead =
        class.as_ref().map_or(&Value::Null, |class| &class.value["overhead"]["podFixed"]);
    if overhead.is_null() && !pod["spec"]["overhead"].is_null() {
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                   Overhead";
        return Err(forbidden(kind, pod, why));
    }
    Ok(())
}

fn class_of(cluster: &Cluster, kind: &Kind, pod: &Value) -> Result<Option<Arc<Object>>, Status> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    let resource = ("node.k8s.io".to_owned(), "runtimeclasses".to_owned());
    let class = cluster.store().get(&resource, &(String::new(), name.to_owned()));
    if class.is_none() {
        let why = format!("pod rejected: RuntimeClass {name:?} not found");
        return Err(forbidden(kind, pod, &why));
    }
    Ok(class)
}
