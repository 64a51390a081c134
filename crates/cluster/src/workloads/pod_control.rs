//! Creating and deleting pods on behalf of a controller, with the events that tell of it.
//!
//! Event texts: Kubernetes `pkg/controller/controller_utils.go`.

use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::owner::controller_ref;
use crate::events::{self, EventType};
use crate::registry::{Cluster, DeleteOptions, Typed, WriteOptions};
use crate::status::Status;
use crate::store::Object;

/// A controller's hand on its pods.
#[derive(Debug)]
pub(super) struct PodControl<'a> {
    cluster: &'a Cluster,
    component: &'static str,
    owner: ObjectReference,
    namespace: String,
}

/// The pod that `template` describes, owned by `owner`.
pub(super) fn from_template<K>(template: &PodTemplateSpec, owner: &K) -> Pod
where
    K: Typed + Metadata<Ty = ObjectMeta>,
{
    let metadata = template.metadata.clone().unwrap_or_default();
    let name = owner.metadata().name.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: owner.metadata().namespace.clone(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![controller_ref(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

impl<'a> PodControl<'a> {
    /// For the pods of `owner`; `component` as in `job-controller`.
    pub(super) fn new<K>(cluster: &'a Cluster, component: &'static str, owner: &K) -> Self
    where
        K: Typed + Metadata<Ty = ObjectMeta>,
    {
        Self {
            cluster,
            component,
            owner: events::reference(owner),
            namespace: owner.metadata().namespace.clone().unwrap_or_default(),
        }
    }

    /// Creates a pod.
    ///
    /// # Errors
    ///
    /// What the registry answers; already told as an event.
    pub(super) fn create(&self, pod: &Value) -> Result<Arc<Object>, Status> {
        let kind = self.cluster.kind_of::<Pod>();
        let options = WriteOptions::default();
        let result = self.cluster.create_object(&kind, &self.namespace, pod.clone(), options);
        match &result {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.name());
                self.tell(EventType::Normal, "SuccessfulCreate", &message);
            }
            Err(status) if is_namespace_terminating(status) => {}
            Err(status) => {
                let message = format!("Error creating: {status}");
                self.tell(EventType::Warning, "FailedCreate", &message);
            }
        }
        result
    }

    /// Deletes a pod, with its own grace. One that is gone already is no error.
    ///
    /// # Errors
    ///
    /// What the registry answers; already told as an event.
    pub(super) fn delete(&self, pod: &Pod) -> Result<(), Status> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let options = DeleteOptions { uid: pod.metadata.uid.clone(), ..DeleteOptions::default() };
        match self.cluster.delete::<Pod>(&self.namespace, name, &options) {
            Ok(_) => {
                let message = format!("Deleted pod: {name}");
                self.tell(EventType::Normal, "SuccessfulDelete", &message);
                Ok(())
            }
            Err(status) if status.code == 404 || status.code == 409 => Ok(()),
            Err(status) => {
                let message = format!("Error deleting: {status}");
                self.tell(EventType::Warning, "FailedDelete", &message);
                Err(status)
            }
        }
    }

    /// Writes an event about the owner.
    pub(super) fn tell(&self, event_type: EventType, reason: &str, message: &str) {
        events::record(
            self.cluster,
            self.component,
            None,
            &self.owner,
            event_type,
            reason,
            message,
        );
    }
}

/// Whether a create failed only because its namespace is going.
pub(super) fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.as_ref().and_then(|details| details["causes"].as_array());
    causes.into_iter().flatten().any(|cause| cause["reason"] == "NamespaceTerminating")
}
