//! Whose field is whose: `managedFields` of ordinary writes, and server-side apply.
//!
//! Ownership is recorded from a creation that names its `fieldManager` on. Objects that were
//! created without (by programs, mostly) go without, which keeps them small and their writes quick.

use std::sync::Arc;

use aerostat_schema::apply::{self, Conflicts, Fields, Writer};
use serde_json::{Value, json};

use super::Call;
use super::path::Target;
use super::resource::Served;
use super::view::View;
use crate::registry::{Cluster, timestamp};
use crate::status::{FieldError, Status};
use crate::store::Object;

/// Who makes a request, and what is known of the fields of its object.
pub(super) struct Ownership<'a> {
    served: &'a Served,
    /// `fieldManager`, if the request names one.
    manager: Option<&'a str>,
    agent: &'a str,
    subresource: &'a str,
    force: bool,
    time: String,
    /// The definition of a custom kind.
    definition: Option<Arc<Object>>,
}

impl<'a> Ownership<'a> {
    pub(super) fn of(call: &'a Call<'_>, served: &'a Served, target: &'a Target) -> Self {
        let cluster = call.service.cluster();
        let agent = call.head.headers.get(http::header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("unknown");
        Self {
            served,
            manager: call.query.get("fieldManager"),
            agent: agent.split('/').next().unwrap_or_default(),
            subresource: target.subresource.as_deref().unwrap_or_default(),
            force: call.query.flag("force"),
            time: timestamp(cluster.clock().now()),
            definition: definition(cluster, served),
        }
    }

    /// `value` as it is created, with its owner if the request names one.
    pub(super) fn created(&self, mut value: Value) -> Value {
        if self.manager.is_none() || self.served.view != View::Stored {
            return value;
        }
        // Defaults belong to whoever did not say otherwise.
        crate::defaults::apply(&self.served.kind, &mut value);
        apply::update(self.fields(), None, &value, self.writer())
    }

    /// `new` as it replaces `old`, with its owners if `old` has any.
    pub(super) fn updated(&self, old: &Value, mut new: Value) -> Value {
        let tracked = old["metadata"]["managedFields"].as_array().is_some_and(|l| !l.is_empty());
        if !tracked || self.served.view != View::Stored {
            return new;
        }
        // A client that empties the list ends the tracking; all else of it is the server's.
        let emptied = new["metadata"]["managedFields"].as_array();
        if emptied.is_some_and(|list| list.is_empty() || *list == [json!({})]) {
            if let Some(metadata) = new["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            return new;
        }
        crate::defaults::apply(&self.served.kind, &mut new);
        apply::update(self.fields(), Some(old), &new, self.writer())
    }

    /// What applying `config` makes of `old`.
    ///
    /// # Errors
    ///
    /// 409 if others own fields with other values; 422 if the request does not say who applies.
    pub(super) fn applied(&self, old: Option<&Value>, config: &Value) -> Result<Value, Status> {
        if self.manager.is_none() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        if !config["metadata"]["managedFields"].is_null() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        apply::apply(self.fields(), old, config, self.writer(), self.force)
            .map_err(|c| conflict(&c))
    }

    fn writer(&self) -> Writer<'_> {
        let reset: &[&str] = match self.subresource {
            "status" => &["spec"],
            _ if self.served.kind.status => &["status"],
            _ => &[],
        };
        Writer {
            manager: self.manager.unwrap_or(self.agent),
            subresource: self.subresource,
            reset,
            time: &self.time,
        }
    }

    fn fields(&self) -> Fields<'_> {
        let kind = &self.served.kind;
        match &self.definition {
            Some(definition) => {
                let versions = definition.value["spec"]["versions"].as_array();
                let mut versions = versions.into_iter().flatten();
                let version = versions.find(|version| version["name"] == kind.version.as_str());
                let schema = version.map(|version| &version["schema"]["openAPIV3Schema"]);
                Fields::Custom(schema.unwrap_or(&Value::Null))
            }
            None => Fields::BuiltIn(&kind.group, &kind.version, &kind.kind),
        }
    }
}

fn definition(cluster: &Cluster, served: &Served) -> Option<Arc<Object>> {
    let custom = served.kind.custom.as_ref()?;
    let kind = cluster.kind("apiextensions.k8s.io", "customresourcedefinitions")?;
    cluster.get_object(&kind, "", &custom.definition).ok()
}

fn conflict(conflicts: &Conflicts) -> Status {
    let causes: Vec<Value> = conflicts
        .0
        .iter()
        .map(|(manager, path)| {
            let message = format!("conflict with {manager}");
            json!({"reason": "FieldManagerConflict", "message": message, "field": path})
        })
        .collect();
    let mut status = Status::new(409, "Conflict", conflicts.to_string());
    status.details = Some(json!({"causes": causes}));
    status
}
