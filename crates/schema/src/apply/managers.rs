//! `metadata.managedFields`: who owns which fields.
//!
//! Source: k8s.io/apimachinery `pkg/util/managedfields/internal`.

use serde_json::{Value, json};

use super::set::Set;

/// An entry of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manager {
    pub name: String,
    /// `Apply`, or else `Update`.
    pub applies: bool,
    pub api_version: String,
    pub subresource: String,
    pub time: String,
    pub fields: Set,
}

impl Manager {
    /// Whether two entries are of the same manager.
    pub fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.applies == other.applies
            && self.subresource == other.subresource
            && (self.applies || self.api_version == other.api_version)
    }
}

/// Update entries that are kept apart; older ones are folded into one.
const MAX_UPDATERS: usize = 10;

/// The entries of an object.
pub(super) fn read(object: &Value) -> Vec<Manager> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            Manager {
                name: text("manager"),
                applies: entry["operation"] == "Apply",
                api_version: text("apiVersion"),
                subresource: text("subresource"),
                time: text("time"),
                fields: Set::read(&entry["fieldsV1"]),
            }
        })
        .collect()
}

/// Writes entries in Kubernetes' order: Apply first, then by time, then by name.
pub(super) fn write(mut managers: Vec<Manager>, object: &mut Value) {
    managers.retain(|manager| !manager.fields.is_empty());
    managers.sort_by(|one, other| {
        (!one.applies, &one.time, &one.name).cmp(&(!other.applies, &other.time, &other.name))
    });
    fold_old(&mut managers);
    let entries: Vec<Value> = managers
        .iter()
        .map(|manager| {
            let mut entry = json!({
                "manager": manager.name,
                "operation": if manager.applies { "Apply" } else { "Update" },
                "apiVersion": manager.api_version,
                "time": manager.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": manager.fields.write(),
            });
            if !manager.subresource.is_empty() {
                entry["subresource"] = manager.subresource.clone().into();
            }
            entry
        })
        .collect();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        if entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), entries.into());
        }
    }
}

/// Folds the oldest Update entries into `ancient-changes` while there are too many.
fn fold_old(managers: &mut Vec<Manager>) {
    let updaters = managers.iter().filter(|manager| !manager.applies).count();
    let Some(first) = managers.iter().position(|manager| !manager.applies) else { return };
    for _ in MAX_UPDATERS..updaters {
        let oldest = managers.remove(first);
        if let Some(next) = managers.get_mut(first) {
            next.name = "ancient-changes".to_owned();
            next.fields = next.fields.union(&oldest.fields);
        }
    }
}
