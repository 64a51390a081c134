//! Deleting: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::write::{metadata_mut, timestamp};
use super::{Cluster, Part, custom};
use crate::admission;
use crate::kinds::Kind;
use crate::status::Status;
use crate::store::{Object, Write};

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteOptions {
    /// Seconds that a pod gets to end; its own choice if unset.
    pub grace_period: Option<i64>,
    /// What becomes of its dependents; background if unset.
    pub propagation: Option<Propagation>,
    /// The UID it must have.
    pub uid: Option<String>,
    /// The resourceVersion it must have.
    pub resource_version: Option<String>,
    /// Say what would happen, and do nothing.
    pub dry_run: bool,
}

/// What a delete did.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Object>),
    /// It waits for grace or finalizers.
    Lingers(Arc<Object>),
}

/// Whether a kind that ends gracefully may vanish in this state.
pub(super) fn may_vanish(kind: &Kind, value: &Value) -> bool {
    if kind.group.is_empty() && kind.kind == "Namespace" {
        return value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    }
    true
}

impl Cluster {
    /// Deletes an object.
    ///
    /// # Errors
    ///
    /// 404, 409 if a precondition does not hold, 403 if it is protected.
    pub fn delete_object(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        loop {
            let old = self.get_object(kind, namespace, name)?;
            check_preconditions(kind, &old, options)?;
            admission::delete(self, kind, namespace, name)?;
            admission::policy::check(
                self,
                &admission::policy::Write {
                    kind,
                    namespace,
                    name,
                    operation: "DELETE",
                    part: Part::Main,
                    new: &Value::Null,
                    old: &old.value,
                    dry_run: options.dry_run,
                },
            )?;
            let mut new = old.value.clone();
            let grace = grace_period(kind, &new, options);
            let metadata = metadata_mut(&mut new);
            match options.propagation {
                Some(Propagation::Foreground) => add_finalizer(metadata, "foregroundDeletion"),
                Some(Propagation::Orphan) => add_finalizer(metadata, "orphan"),
                Some(Propagation::Background) | None => {}
            }
            if custom::is_definition(kind) {
                add_finalizer(metadata, custom::CLEANUP);
            }
            let held = metadata
                .get("finalizers")
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty());
            let first = !metadata.contains_key("deletionTimestamp");
            let shorter = metadata
                .get("deletionGracePeriodSeconds")
                .and_then(Value::as_i64)
                .is_none_or(|old| grace < old);
            if first || shorter {
                let at = self.clock().now() + SignedDuration::from_secs(grace);
                metadata.insert("deletionTimestamp".into(), timestamp(at).into());
                metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
                if first
                    && let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
                {
                    metadata.insert("generation".into(), (generation + 1).into());
                }
            }
            if kind.group.is_empty() && kind.kind == "Namespace" {
                new["status"]["phase"] = "Terminating".into();
            }
            let lingers = grace > 0 || held || !may_vanish(kind, &new);
            if options.dry_run {
                let object = Arc::new(Object::new(new, old.revision));
                return Ok(if lingers { Deleted::Lingers(object) } else { Deleted::Gone(object) });
            }
            let key = (namespace.to_owned(), name.to_owned());
            let resource = kind.resource();
            if lingers {
                if new == old.value {
                    return Ok(Deleted::Lingers(old));
                }
                let write = Write::Put(new);
                if let Some(object) = self.store().commit(&resource, key, Some(old.revision), write)
                {
                    self.after_write(kind, &object);
                    return Ok(Deleted::Lingers(object));
                }
            } else if let Some(object) =
                self.store().commit(&resource, key, Some(old.revision), Write::Remove)
            {
                self.after_remove(kind, &object);
                return Ok(Deleted::Gone(object));
            }
        }
    }
}

pub(super) fn check_preconditions(
    kind: &Kind,
    old: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let conflict = |what: &str, wanted: &str, is: &str| {
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({is}). \
             The object might have been deleted and then recreated"
        );
        Err(Status::conflict(&kind.group, &kind.plural, old.name(), &why))
    };
    if let Some(uid) = &options.uid
        && uid != old.uid()
    {
        return conflict("UID", uid, old.uid());
    }
    if let Some(version) = &options.resource_version
        && *version != old.revision.to_string()
    {
        return conflict("ResourceVersion", version, &old.revision.to_string());
    }
    Ok(())
}

/// Seconds until the object may go. Only pods on a node have any.
fn grace_period(kind: &Kind, value: &Value, options: &DeleteOptions) -> i64 {
    if !(kind.group.is_empty() && kind.kind == "Pod") {
        return 0;
    }
    let ended = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if ended || value["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return 0;
    }
    let own = value["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let grace = options.grace_period.unwrap_or(own);
    if grace < 0 { 1 } else { grace }
}

fn add_finalizer(metadata: &mut serde_json::Map<String, Value>, name: &str) {
    let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|finalizer| finalizer == name)
    {
        list.push(name.into());
    }
}
