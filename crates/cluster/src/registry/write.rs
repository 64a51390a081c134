//! Creating and updating.

use std::sync::{Arc, PoisonError};

use serde_json::{Map, Value};

use super::{Cluster, custom, definition};
use crate::kinds::Kind;
use crate::status::Status;
use crate::store::{Object, Write};
use crate::{admission, defaults, validation};

/// How often a generated name may clash before the create fails.
const NAME_ATTEMPTS: u32 = 8;

/// Which part of an object a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status, if the kind keeps that apart.
    Main,
    /// The status only.
    Status,
    /// Everything at once; for the control plane's own writes (binding, finalizing).
    Whole,
}

/// How a write is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Say what would be stored, and store nothing.
    pub dry_run: bool,
}

impl Cluster {
    /// Creates an object from its JSON.
    ///
    /// # Errors
    ///
    /// What Kubernetes would answer: 400, 403, 404 for a namespace that is not there, 409, 422.
    pub fn create_object(
        &self,
        kind: &Kind,
        namespace: &str,
        mut value: Value,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        identify(kind, namespace, &mut value)?;
        if value["metadata"].get("resourceVersion").is_some_and(|rv| rv != "") {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "InternalError", message));
        }
        let generate = value["metadata"]["generateName"].as_str().map(str::to_owned);
        let named = value["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
        let base = generate.as_deref().filter(|base| !named && !base.is_empty());
        let Some(base) = base else { return self.create_named(kind, namespace, value, options) };
        let mut attempts = NAME_ATTEMPTS;
        loop {
            attempts -= 1;
            let mut value = value.clone();
            value["metadata"]["name"] = self.names(|names| names.generate(base)).into();
            match self.create_named(kind, namespace, value, options) {
                Err(status) if status.reason == "AlreadyExists" && attempts > 0 => {}
                result => return result,
            }
        }
    }

    fn create_named(
        &self,
        kind: &Kind,
        namespace: &str,
        mut value: Value,
        options: WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        default(kind, &mut value);
        let metadata = metadata_mut(&mut value);
        metadata.insert("uid".into(), self.names(super::names::Names::uid).into());
        metadata.insert("creationTimestamp".into(), timestamp(self.clock().now()).into());
        for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            metadata.remove(field);
        }
        metadata.remove("generation");
        if kind.generation || kind.custom.is_some() {
            metadata.insert("generation".into(), 1.into());
        }
        // Nodes come with what they are; everything else gets its status later.
        if kind.status
            && kind.plural != "nodes"
            && let Some(object) = value.as_object_mut()
        {
            object.remove("status");
            // What the schema says of a status that is not there holds from the start.
            custom::shape(kind, &mut value);
        }
        admission::create(self, kind, namespace, &mut value)?;
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut errors = validation::create(kind, &value);
        errors.extend(custom::validate(kind, &value, None));
        if !errors.is_empty() {
            return Err(Status::invalid(&kind.group, &kind.kind, &name, &errors));
        }
        admission::policy::check(
            self,
            &admission::policy::Write {
                kind,
                namespace,
                name: &name,
                operation: "CREATE",
                part: Part::Main,
                new: &value,
                old: &Value::Null,
                dry_run: options.dry_run,
            },
        )?;
        admission::check(self, kind, namespace, &value)?;
        let key = (namespace.to_owned(), name.clone());
        let exists = || Status::already_exists(&kind.group, &kind.plural, &name);
        if options.dry_run {
            if self.store().get(&kind.resource(), &key).is_some() {
                return Err(exists());
            }
            let mut object = Object::new(value, 0);
            metadata_mut(&mut object.value).remove("resourceVersion");
            return Ok(Arc::new(object));
        }
        let object = self
            .store()
            .commit(&kind.resource(), key, None, Write::Put(value))
            .ok_or_else(exists)?;
        self.after_write(kind, &object);
        Ok(object)
    }

    /// Changes an object: `change` gets its JSON and returns what it should be. When someone else
    /// writes in between and the result names no resourceVersion of its own, it is asked again.
    /// A change that changes nothing writes nothing.
    ///
    /// # Errors
    ///
    /// What `change` returns, and what Kubernetes would answer: 404, 409, 422.
    pub fn update_object(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: Part,
        options: WriteOptions,
        mut change: impl FnMut(&Object) -> Result<Value, Status>,
    ) -> Result<Arc<Object>, Status> {
        loop {
            let old = self.get_object(kind, namespace, name)?;
            let mut new = change(&old)?;
            let stale = || Status::stale(&kind.group, &kind.plural, name);
            let wanted = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            if !wanted.is_empty() && wanted != old.revision.to_string() {
                return Err(stale());
            }
            identify(kind, namespace, &mut new)?;
            self.keep_identity(kind, &old, &mut new)?;
            self.merge_part(kind, part, &old, &mut new);
            if new == old.value {
                return Ok(old);
            }
            if part != Part::Whole {
                admission::update(self, kind, namespace, &mut new, &old.value, part)?;
                let mut errors = validation::update(kind, &new, &old.value, part);
                errors.extend(custom::validate(kind, &new, Some(&old.value)));
                if !errors.is_empty() {
                    return Err(Status::invalid(&kind.group, &kind.kind, name, &errors));
                }
                if new == old.value {
                    return Ok(old);
                }
                let (new, old, dry_run) = (&new, &old.value, options.dry_run);
                let operation = "UPDATE";
                let write = admission::policy::Write {
                    kind,
                    namespace,
                    name,
                    operation,
                    part,
                    new,
                    old,
                    dry_run,
                };
                admission::policy::check(self, &write)?;
            }
            if options.dry_run {
                return Ok(Arc::new(Object::new(new, old.revision)));
            }
            let key = (namespace.to_owned(), name.to_owned());
            // The last finalizer of an object on its way out lets it go.
            let metadata = &new["metadata"];
            let gone = !metadata["deletionTimestamp"].is_null()
                && metadata["finalizers"].as_array().is_none_or(Vec::is_empty)
                && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
                && super::delete::may_vanish(kind, &new);
            let write = |write| {
                self.store().commit(&kind.resource(), key.clone(), Some(old.revision), write)
            };
            let Some(object) = write(Write::Put(new)) else {
                continue;
            };
            if gone {
                let last = self.store().commit(
                    &kind.resource(),
                    key.clone(),
                    Some(object.revision),
                    Write::Remove,
                );
                self.after_remove(kind, &object);
                return Ok(last.unwrap_or(object));
            }
            self.after_write(kind, &object);
            return Ok(object);
        }
    }

    /// What no update may change: UID, birth, the way to deletion.
    fn keep_identity(&self, kind: &Kind, old: &Object, new: &mut Value) -> Result<(), Status> {
        let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && uid != old.uid() {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). \
                 The object might have been deleted and then recreated",
                old.uid()
            );
            return Err(Status::conflict(&kind.group, &kind.plural, old.name(), &why));
        }
        let metadata = metadata_mut(new);
        for field in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "generation",
            "resourceVersion",
            "generateName",
        ] {
            copy_field(&old.value["metadata"], metadata, field);
        }
        Ok(())
    }

    /// Takes from `new` only what `part` may write, and counts the generation.
    fn merge_part(&self, kind: &Kind, part: Part, old: &Object, new: &mut Value) {
        if part == Part::Whole {
            return;
        }
        if part == Part::Status {
            // As upstream: labels and spec are ignored; annotations and finalizers too.
            keep_but_status(&old.value, new);
            custom::shape(kind, new);
            return;
        }
        let metadata = metadata_mut(new);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            copy_field(&old.value["metadata"], metadata, field);
        }
        if kind.status
            && let Some(object) = new.as_object_mut()
        {
            match old.value.get("status") {
                Some(status) => object.insert("status".into(), status.clone()),
                None => object.remove("status"),
            };
        }
        default(kind, new);
        if (kind.generation || kind.custom.is_some()) && spec_differs(&old.value, new) {
            let generation = old.value["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            new["metadata"]["generation"] = generation.into();
        }
    }

    pub(super) fn names<T>(&self, f: impl FnOnce(&mut super::names::Names) -> T) -> T {
        f(&mut self.0.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Five random letters, as in generated names.
    #[must_use]
    pub fn random_suffix(&self) -> String {
        self.names(super::names::Names::suffix)
    }

    /// What follows from a write; CRDs change which kinds are served, policies what is allowed.
    pub(super) fn after_write(&self, kind: &Kind, object: &Object) {
        if custom::is_definition(kind) {
            self.definition_written(object);
        } else if admission::policy::concerns(kind) {
            self.policies_changed();
        }
    }

    /// What follows from a removal.
    pub(super) fn after_remove(&self, kind: &Kind, object: &Object) {
        if custom::is_definition(kind) {
            self.definition_removed(object);
        } else if admission::policy::concerns(kind) {
            self.policies_changed();
        } else if kind.custom.is_some() {
            self.custom_removed(kind);
        }
    }
}

/// A time as `metadata.creationTimestamp` shows it: UTC, whole seconds.
#[must_use]
pub fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `metadata`, made if it is not there.
pub(super) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value["metadata"].is_object() {
        value["metadata"] = Value::Object(Map::new());
    }
    value["metadata"].as_object_mut().expect("metadata was just made an object")
}

fn default(kind: &Kind, value: &mut Value) {
    if custom::is_definition(kind) {
        definition::default(value);
    }
    custom::shape(kind, value);
    defaults::apply(kind, value);
}

fn copy_field(from: &Value, to: &mut Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Makes everything in `new` what it is in `old`, but for the status and who wrote what.
fn keep_but_status(old: &Value, new: &mut Value) {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) else { return };
    new.retain(|field, _| field == "status" || old.contains_key(field));
    for (field, value) in old.iter().filter(|(field, _)| *field != "status") {
        // Most writers of a status change nothing else, and comparing costs less than copying.
        if new.get(field) == Some(value) {
            continue;
        }
        let mut kept = value.clone();
        if field == "metadata"
            && let (Some(given), Some(kept)) = (new.get(field), kept.as_object_mut())
        {
            copy_field(given, kept, "managedFields");
        }
        new.insert(field.clone(), kept);
    }
}

fn spec_differs(old: &Value, new: &Value) -> bool {
    fn rest(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let fields = value.as_object().into_iter().flatten();
        fields.filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status"))
    }
    !rest(old).eq(rest(new))
}

/// Checks kind, apiVersion and namespace of a body against its URL, and fills in what it left out.
/// What is empty in the metadata is as good as absent.
fn identify(kind: &Kind, namespace: &str, value: &mut Value) -> Result<(), Status> {
    if !value.is_object() {
        return Err(Status::bad_request("the body of the request is not an object"));
    }
    let api_version = kind.api_version();
    let expected = [("apiVersion", api_version.as_str()), ("kind", kind.kind.as_str())];
    for (field, wanted) in expected {
        match value[field].as_str() {
            None | Some("") => value[field] = wanted.into(),
            Some(given) if given == wanted => {}
            Some(_) => {
                let message = format!(
                    "{} in version {:?} cannot be handled as a {}: expected {api_version}, Kind={}",
                    value["kind"].as_str().unwrap_or_default(),
                    value["apiVersion"].as_str().unwrap_or_default(),
                    kind.kind,
                    kind.kind,
                );
                return Err(Status::bad_request(message));
            }
        }
    }
    let given = value["metadata"]["namespace"].as_str().unwrap_or_default();
    if !given.is_empty() && given != namespace {
        let message =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    let metadata = metadata_mut(value);
    if kind.namespaced {
        metadata.insert("namespace".into(), namespace.into());
    } else {
        metadata.remove("namespace");
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if metadata.get(field).is_some_and(is_empty) {
            metadata.remove(field);
        }
    }
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
