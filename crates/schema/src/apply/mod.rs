//! Server-side apply, and whose field is whose.
//!
//! `set` is a set of field paths, `merging` says how the parts of a value are told apart, `values`
//! computes with both, `managers` is `metadata.managedFields`. Behaviour follows
//! structured-merge-diff `merge/update.go` and k8s.io/apimachinery `pkg/util/managedfields`.
//! Objects have one version here, so entries of other versions are compared as they are.

mod managers;
mod merging;
mod set;
mod values;

use std::fmt;

use serde_json::{Value, json};

use crate::table::table;
use managers::Manager;
use merging::Merging;
use set::Set;

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// `status` for example; empty for the object itself.
    pub subresource: &'a str,
    /// Top-level fields that this endpoint does not write, `status` for example: nobody comes to
    /// own them through it.
    pub reset: &'a [&'a str],
    /// Now, as metadata has it: `2026-01-02T03:04:05Z`.
    pub time: &'a str,
}

/// What is known of an object's fields.
#[derive(Clone, Copy, Debug)]
pub enum Fields<'a> {
    /// Group, version and kind of a built-in.
    BuiltIn(&'a str, &'a str, &'a str),
    /// A CRD's `openAPIV3Schema`.
    Custom(&'a Value),
}

/// Fields that others own with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(
    /// Manager (`"kubectl" using apps/v1`) and path (`.spec.replicas`).
    pub Vec<(String, String)>,
);

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(manager, path)] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(f, "Apply failed with {} conflicts:", self.0.len())?;
        let mut last = "";
        for (manager, path) in &self.0 {
            if last != manager {
                let with = if last.is_empty() { " conflicts" } else { "\nconflicts" };
                write!(f, "{with} with {manager}:")?;
                last = manager;
            }
            write!(f, "\n- {path}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}

/// Fields that nobody owns.
const UNOWNED: [&str; 8] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What applying `config` makes of `live` (`None`: there is no such object), with its
/// `managedFields`. The live object itself when nothing changes.
///
/// # Errors
///
/// Without `force`, the fields that others own with another value.
pub fn apply(
    fields: Fields<'_>,
    live: Option<&Value>,
    config: &Value,
    writer: Writer<'_>,
    force: bool,
) -> Result<Value, Conflicts> {
    let how = fields.merging();
    let empty = json!({ "metadata": {} });
    let old = live.unwrap_or(&empty);
    let mut managers = managers::read(old);
    if managers.is_empty() && live.is_some() {
        managers.push(Manager {
            name: "before-first-apply".to_owned(),
            applies: false,
            api_version: api_version(config),
            subresource: String::new(),
            time: writer.time.to_owned(),
            fields: owned(how, old, &[]),
        });
    }
    let before = managers.clone();
    let mut own = entry(writer, true, config, owned(how, config, writer.reset));
    let last = managers.iter().find(|manager| manager.is(&own)).cloned();
    let mut config = config.clone();
    if let Some(object) = config.as_object_mut() {
        writer.reset.iter().for_each(|name| drop(object.remove(*name)));
    }
    let mut merged = values::merge(how, old.clone(), &config);
    managers.retain(|manager| !manager.is(&own));
    if let Some(last) = &last {
        let others = managers.iter().fold(own.fields.clone(), |all, m| all.union(&m.fields));
        values::remove(how, &mut merged, &last.fields, &others);
    }
    let changed = changes(how, old, &merged, writer.reset);
    let conflicts = conflicts(&managers, &changed.written);
    if !conflicts.0.is_empty() && !force && !was_applied_by_kubectl(how, old, writer, &conflicts) {
        return Err(conflicts);
    }
    changed.take_from(&mut managers);
    if let Some(last) =
        last.filter(|last| last.fields == own.fields && last.api_version == own.api_version)
    {
        own.time = last.time;
    }
    managers.push(own);
    if live.is_some() && merged == *old && same(&managers, &before) {
        return Ok(old.clone());
    }
    managers::write(managers, &mut merged);
    Ok(merged)
}

/// `new` with the `managedFields` that it has when it replaces `live` by an ordinary write.
///
/// An object without `managedFields` does not begin to have them by an update, only by its
/// creation (`live` is `None`).
#[must_use]
pub fn update(fields: Fields<'_>, live: Option<&Value>, new: &Value, writer: Writer<'_>) -> Value {
    let how = fields.merging();
    let mut new = new.clone();
    let empty = json!({ "metadata": {} });
    let old = live.unwrap_or(&empty);
    let mut managers = managers::read(old);
    if managers.is_empty() && live.is_some() {
        return new;
    }
    let changed = changes(how, old, &new, writer.reset);
    let mut own = entry(writer, false, &new, Set::default());
    if let Some(place) = managers.iter().position(|manager| manager.is(&own)) {
        own = managers.remove(place);
    }
    changed.take_from(&mut managers);
    let now = own.fields.difference(&changed.removed).union(&changed.written);
    if now != own.fields {
        own.time = writer.time.to_owned();
        own.fields = now;
    }
    managers.push(own);
    managers::write(managers, &mut new);
    new
}

impl Fields<'_> {
    fn merging(&self) -> Merging<'_> {
        match self {
            Self::BuiltIn(group, version, kind) => {
                table().kind(group, version, kind).map_or(Merging::Unknown, Merging::Object)
            }
            Self::Custom(schema) => Merging::Schema(schema, true),
        }
    }
}

fn api_version(object: &Value) -> String {
    object["apiVersion"].as_str().unwrap_or_default().to_owned()
}

fn entry(writer: Writer<'_>, applies: bool, object: &Value, fields: Set) -> Manager {
    Manager {
        name: writer.manager.to_owned(),
        applies,
        api_version: api_version(object),
        subresource: writer.subresource.to_owned(),
        time: writer.time.to_owned(),
        fields,
    }
}

/// The paths in an object that can be owned.
fn owned(how: Merging<'_>, object: &Value, reset: &[&str]) -> Set {
    ownable(values::paths(how, object), reset)
}

fn ownable(mut set: Set, reset: &[&str]) -> Set {
    for name in ["apiVersion", "kind"].iter().chain(reset) {
        set.remove(&format!("f:{name}"));
    }
    let mut metadata = set.below("f:metadata").cloned().unwrap_or_default();
    for name in UNOWNED {
        metadata.remove(&format!("f:{name}"));
    }
    set.remove("f:metadata");
    set.insert_below("f:metadata", metadata);
    set
}

/// What a write does.
struct Changes {
    /// Paths that are new or have another value.
    written: Set,
    /// Paths that are gone.
    removed: Set,
}

fn changes(how: Merging<'_>, old: &Value, new: &Value, reset: &[&str]) -> Changes {
    let (before, after) = (values::paths(how, old), values::paths(how, new));
    let written = values::modified(how, old, new).union(&after.difference(&before));
    Changes { written: ownable(written, reset), removed: ownable(before.difference(&after), reset) }
}

impl Changes {
    /// Whoever does not write a changed field owns it no more.
    fn take_from(&self, managers: &mut Vec<Manager>) {
        for manager in managers.iter_mut() {
            manager.fields = manager.fields.difference(&self.written).difference(&self.removed);
        }
        managers.retain(|manager| !manager.fields.is_empty());
    }
}

fn conflicts(managers: &[Manager], written: &Set) -> Conflicts {
    let mut found = Vec::new();
    for manager in managers {
        let mut name = format!("{:?}", manager.name);
        if !manager.subresource.is_empty() {
            name = format!("{name} with subresource {:?}", manager.subresource);
        }
        if !manager.applies {
            name = format!("{name} using {}", manager.api_version);
        }
        let paths = manager.fields.intersection(written).paths();
        found.extend(paths.into_iter().map(|path| (name.clone(), path)));
    }
    found.sort();
    Conflicts(found)
}

/// kubectl may change what it had applied client-side.
fn was_applied_by_kubectl(
    how: Merging<'_>,
    live: &Value,
    writer: Writer<'_>,
    conflicts: &Conflicts,
) -> bool {
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last = last.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(last) = last.filter(|_| writer.manager == "kubectl") else { return false };
    let applied = owned(how, &last, &[]).paths();
    conflicts.0.iter().all(|(_, path)| applied.contains(path))
}

/// Whether two lists have the same entries, whatever their times.
fn same(one: &[Manager], other: &[Manager]) -> bool {
    let has = |list: &[Manager], manager: &Manager| {
        list.iter().any(|other| other.is(manager) && other.fields == manager.fields)
    };
    one.len() == other.len() && one.iter().all(|manager| has(other, manager))
}

#[cfg(test)]
mod tests;
