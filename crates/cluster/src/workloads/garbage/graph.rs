//! Who owns whom, by UID.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{FOREGROUND, ORPHAN};
use crate::kinds::Kind;
use crate::store::{Key, Object};

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The owner, when it goes in foreground, waits for the object.
    pub(super) blocks: bool,
}

/// An object, as far as ownership is concerned.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Arc<Kind>,
    pub(super) key: Key,
    pub(super) owners: Vec<Owner>,
    /// It has a deletion timestamp.
    pub(super) deleting: bool,
    /// It has the finalizer that waits for dependents.
    pub(super) foreground: bool,
    /// It has the finalizer that leaves dependents behind.
    pub(super) orphan: bool,
}

impl Node {
    /// Reads it from an object's metadata.
    pub(super) fn of(kind: &Arc<Kind>, object: &Object) -> Self {
        let metadata = &object.value["metadata"];
        let list = |field: &str| metadata[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let owner = |reference: &Value| {
            let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
            Owner {
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
                uid: text("uid"),
                blocks: reference["blockOwnerDeletion"] == true,
            }
        };
        Self {
            kind: kind.clone(),
            key: (object.namespace().to_owned(), object.name().to_owned()),
            owners: list("ownerReferences").iter().map(owner).collect(),
            deleting: !metadata["deletionTimestamp"].is_null(),
            foreground: list("finalizers").iter().any(|finalizer| finalizer == FOREGROUND),
            orphan: list("finalizers").iter().any(|finalizer| finalizer == ORPHAN),
        }
    }
}

/// Every object that owns, is owned, or may be.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// The object with this UID.
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The UIDs of the objects that refer to this one.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &String> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Takes in an object, or what it is now.
    pub(super) fn insert(&mut self, uid: String, node: Node) {
        self.forget_owners(&uid);
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        self.nodes.insert(uid, node);
    }

    /// Takes out an object that is gone; returns it and the UIDs of its dependents.
    pub(super) fn remove(&mut self, uid: &str) -> Option<(Node, Vec<String>)> {
        self.forget_owners(uid);
        let node = self.nodes.remove(uid)?;
        let dependents = self.dependents(uid).cloned().collect();
        Some((node, dependents))
    }

    fn forget_owners(&mut self, uid: &str) {
        let Some(node) = self.nodes.get(uid) else { return };
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}
