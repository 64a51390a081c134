//! Kinds that come and go at runtime: what follows from writes of CustomResourceDefinitions.
//!
//! Registering is part of the write: whoever has created a definition can use its kind at once.
//! Source: apiextensions-apiserver `pkg/controller/{status,finalizer,establish}`.

use std::sync::{Arc, PoisonError};

use aerostat_schema::custom::CustomSchema;
use serde_json::{Value, json};

use super::write::{WriteOptions, timestamp};
use super::{Cluster, DeleteOptions, Part, definition};
use crate::kinds::Kind;
use crate::status::FieldError;
use crate::store::{Object, Resource};

/// Keeps a definition until its objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether objects of a kind define kinds.
pub(super) fn is_definition(kind: &Kind) -> bool {
    kind.group == "apiextensions.k8s.io" && kind.plural == "customresourcedefinitions"
}

/// Gives a custom object the form in which it is kept: without fields that its schema does not
/// have, with the schema's defaults.
pub(super) fn shape(kind: &Kind, value: &mut Value) {
    if let Some(schema) = schema(kind) {
        schema.prune(value);
        schema.default(value);
    }
}

/// What is wrong with a definition or a custom object; nothing with any other.
pub(super) fn validate(kind: &Kind, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if is_definition(kind) {
        return definition::validate(value);
    }
    let problems = schema(kind).map(|schema| schema.validate(value, old)).unwrap_or_default();
    problems.into_iter().map(definition::field_error).collect()
}

fn schema(kind: &Kind) -> Option<&CustomSchema> {
    kind.custom.as_ref()?.schemas.get(&kind.version)
}

impl Cluster {
    /// Serves the kind of a definition that was written, and says so in its status.
    pub(super) fn definition_written(&self, definition: &Object) {
        let value = &definition.value;
        let spec = &value["spec"];
        let served = self.kind(
            spec["group"].as_str().unwrap_or_default(),
            spec["names"]["plural"].as_str().unwrap_or_default(),
        );
        let source = definition::source(value);
        if served.and_then(|kind| Some(kind.custom.as_ref()?.source == source)) == Some(true) {
            return;
        }
        let Some(kind) = definition::kind(value) else { return };
        let resource = kind.resource();
        let terminating = is_terminating(&kind);
        let conflict = self.name_in_use(&kind);
        if conflict.is_none() {
            let mut kinds = self.0.kinds.write().unwrap_or_else(PoisonError::into_inner);
            kinds.insert(resource.clone(), Arc::new(kind));
        }
        self.write_definition_status(definition.name(), conflict.as_deref());
        if terminating {
            self.delete_all_of(&resource);
            self.finish_definition(definition.name(), &resource);
        }
    }

    /// Stops serving the kind of a definition that is gone.
    pub(super) fn definition_removed(&self, definition: &Object) {
        let spec = &definition.value["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let mut kinds = self.0.kinds.write().unwrap_or_else(PoisonError::into_inner);
        let is_its = |kind: &Arc<Kind>| {
            kind.custom.as_ref().is_some_and(|custom| custom.definition == definition.name())
        };
        if kinds.get(&resource).is_some_and(is_its) {
            kinds.remove(&resource);
        }
    }

    /// Lets go of a definition that waits for its objects, if this was the last of them.
    pub(super) fn custom_removed(&self, kind: &Kind) {
        if let Some(custom) = kind.custom.as_ref()
            && self.kind(&kind.group, &kind.plural).is_some_and(|kind| is_terminating(&kind))
        {
            self.finish_definition(&custom.definition, &kind.resource());
        }
    }

    fn delete_all_of(&self, resource: &Resource) {
        let Some(kind) = self.kind(&resource.0, &resource.1) else { return };
        for object in self.store().list(resource, "").0 {
            let options = DeleteOptions::default();
            let result = self.delete_object(&kind, object.namespace(), object.name(), &options);
            if let Err(error) = result.map(|_| ()) {
                tracing::debug!(%error, "an object of a kind on its way out was already gone");
            }
        }
    }

    fn finish_definition(&self, name: &str, resource: &Resource) {
        if !self.store().list(resource, "").0.is_empty() {
            return;
        }
        let kind = self.kind("apiextensions.k8s.io", "customresourcedefinitions");
        let kind = kind.expect("definitions are built in");
        let options = WriteOptions::default();
        let result = self.update_object(&kind, "", name, Part::Whole, options, |old| {
            let mut new = old.value.clone();
            if let Some(finalizers) = new["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != CLEANUP);
            }
            Ok(new)
        });
        if let Err(error) = result.map(|_| ()) {
            tracing::debug!(%error, name, "the definition was already gone");
        }
    }

    /// A name of `kind` that another kind of its group has already.
    fn name_in_use(&self, kind: &Kind) -> Option<String> {
        self.kinds().iter().filter(|other| other.group == kind.group).find_map(|other| {
            let same_definition = other.custom.as_ref().map(|custom| &custom.definition)
                == kind.custom.as_ref().map(|custom| &custom.definition);
            if same_definition {
                return None;
            }
            let taken = [
                (&kind.plural, &other.plural),
                (&kind.singular, &other.singular),
                (&kind.kind, &other.kind),
            ];
            taken.iter().find(|(mine, theirs)| mine == theirs).map(|(name, _)| (*name).clone())
        })
    }

    fn write_definition_status(&self, name: &str, conflict: Option<&str>) {
        let kind = self.kind("apiextensions.k8s.io", "customresourcedefinitions");
        let kind = kind.expect("definitions are built in");
        let now = timestamp(self.clock().now());
        let options = WriteOptions::default();
        let result = self.update_object(&kind, "", name, Part::Status, options, |old| {
            let mut new = old.value.clone();
            let mut set = |type_: &str, status: &str, reason: &str, message: &str| {
                set_condition(&mut new, [type_, status, reason, message], &now);
            };
            match conflict {
                None => {
                    set("NamesAccepted", "True", "NoConflicts", "no conflicts found");
                    set(
                        "Established",
                        "True",
                        "InitialNamesAccepted",
                        "the initial names have been accepted",
                    );
                }
                Some(taken) => {
                    let message = format!("{taken:?} is already in use");
                    set("NamesAccepted", "False", "NameConflict", &message);
                    set("Established", "False", "NotAccepted", "not all names are accepted");
                }
            }
            if !old.value["metadata"]["deletionTimestamp"].is_null() {
                set(
                    "Terminating",
                    "True",
                    "InstanceDeletionInProgress",
                    "CustomResource deletion is in progress",
                );
            }
            if conflict.is_none() {
                new["status"]["acceptedNames"] = old.value["spec"]["names"].clone();
            }
            let stored = definition::storage_version(&old.value)["name"].clone();
            let versions = &mut new["status"]["storedVersions"];
            match versions.as_array_mut() {
                Some(list) if list.contains(&stored) => {}
                Some(list) => list.push(stored),
                None => *versions = json!([stored]),
            }
            Ok(new)
        });
        if let Err(error) = result.map(|_| ()) {
            tracing::warn!(%error, name, "the status of a definition cannot be written");
        }
    }
}

/// Whether the definition of a kind is on its way out: nothing more of the kind is created.
#[must_use]
pub fn is_terminating(kind: &Kind) -> bool {
    kind.custom.as_ref().is_some_and(|custom| custom.terminating)
}

/// Sets a condition: type, status, reason, message.
fn set_condition(object: &mut Value, condition: [&str; 4], now: &str) {
    let [type_, status, reason, message] = condition;
    let mut condition =
        json!({"type": type_, "status": status, "reason": reason, "message": message});
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let list = conditions.as_array_mut().expect("conditions are a list now");
    condition["lastTransitionTime"] = now.into();
    match list.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}
