//! Binding: how a pod comes to its node.
//!
//! Source: kubernetes `pkg/registry/core/pod/storage/storage.go` (BindingREST) and
//! `plugin/pkg/admission/podtopologylabels/admission.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::labels;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::Cluster;
use super::write::{Part, WriteOptions, timestamp};
use crate::status::Status;
use crate::store::Object;

/// Labels of the node that its pods get.
const TOPOLOGY: [&str; 2] = [labels::ZONE, labels::REGION];

/// What a `Binding` asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binding {
    /// The UID that the pod must have, if any.
    pub uid: Option<String>,
    /// The node.
    pub node: String,
    /// Labels that the pod gets besides its node's topology labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the pod gets.
    pub annotations: BTreeMap<String, String>,
}

impl Cluster {
    /// Binds a pod to a node: sets its node name and condition, ends its nomination, and copies
    /// zone and region of the node onto it. The node need not be there.
    ///
    /// # Errors
    ///
    /// 404 if the pod is not there; 409 if it has another UID, a node already, is being deleted
    /// or has scheduling gates.
    pub fn bind(
        &self,
        namespace: &str,
        name: &str,
        binding: &Binding,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        let kind = self.kind_of::<Pod>();
        let mut labels = binding.labels.clone();
        if let Ok(node) = self.get_object(&self.kind_of::<Node>(), "", &binding.node) {
            for key in TOPOLOGY {
                if let Some(value) = node.value["metadata"]["labels"][key].as_str() {
                    labels.insert(key.to_owned(), value.to_owned());
                }
            }
        }
        self.update_object(&kind, namespace, name, Part::Whole, options, |old| {
            check(name, old, binding)?;
            let mut pod = old.value.clone();
            pod["spec"]["nodeName"] = binding.node.as_str().into();
            for (field, values) in [("labels", &labels), ("annotations", &binding.annotations)] {
                for (key, value) in values {
                    pod["metadata"][field][key.as_str()] = value.as_str().into();
                }
            }
            if let Some(status) = pod["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            let condition = json!({"type": "PodScheduled", "status": "True"});
            set_pod_condition(&mut pod, condition, self.clock().now());
            Ok(pod)
        })
    }
}

fn check(name: &str, old: &Object, binding: &Binding) -> Result<(), Status> {
    let conflict = |why: &str| Err(Status::conflict("", "pods/binding", name, why));
    let pod = &old.value;
    if let Some(uid) = &binding.uid
        && uid != old.uid()
    {
        let is = old.uid();
        return conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {is}"
        ));
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return conflict(&format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return conflict(&format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

/// Sets one of a pod's conditions; its transition time is `now` only if the status changes.
/// Returns whether anything but times changed.
pub(crate) fn set_pod_condition(
    pod: &mut Value,
    mut condition: Value,
    now: jiff::Timestamp,
) -> bool {
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = timestamp(now).into();
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let Some(list) = pod["status"]["conditions"].as_array_mut() else { return false };
    let Some(old) = list.iter_mut().find(|old| old["type"] == condition["type"]) else {
        list.push(condition);
        return true;
    };
    if old["status"] == condition["status"] {
        condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
    }
    let changed = ["status", "reason", "message"].iter().any(|key| old[*key] != condition[*key]);
    *old = condition;
    changed
}
