//! Persistent volumes as the watches tell of them.

use std::fmt::Display;
use std::sync::Arc;

use aerostat_engine::storage::{Claim, Class, Storage, Volume};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::runtime::watcher::Event;

use super::mirror::Mirror;

/// Claims, volumes and classes, and what the planner makes of them.
#[derive(Debug, Default)]
pub struct Volumes {
    claims: Mirror<PersistentVolumeClaim>,
    volumes: Mirror<PersistentVolume>,
    classes: Mirror<StorageClass>,
    storage: Arc<Storage>,
}

impl Volumes {
    /// As the planner sees them.
    #[must_use]
    pub fn storage(&self) -> Arc<Storage> {
        self.storage.clone()
    }

    /// Applies an event; returns whether a full list has just ended.
    pub(super) fn apply_claim(&mut self, event: Event<PersistentVolumeClaim>) -> bool {
        let storage = Arc::make_mut(&mut self.storage);
        self.claims.apply(event, |name, _, claim| {
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let key = (namespace.to_owned(), name.to_owned());
            let read = claim.and_then(|claim| readable(name, Claim::from_k8s(claim)));
            match read {
                Some(read) => drop(storage.claims.insert(key, read)),
                None => drop(storage.claims.remove(&key)),
            }
        })
    }

    /// Applies an event; returns whether a full list has just ended.
    pub(super) fn apply_volume(&mut self, event: Event<PersistentVolume>) -> bool {
        let storage = Arc::make_mut(&mut self.storage);
        self.volumes.apply(event, |name, _, volume| {
            let read = volume.and_then(|volume| readable(name, Volume::from_k8s(volume)));
            match read {
                Some(read) => drop(storage.volumes.insert(name.to_owned(), read)),
                None => drop(storage.volumes.remove(name)),
            }
        })
    }

    /// Applies an event; returns whether a full list has just ended.
    pub(super) fn apply_class(&mut self, event: Event<StorageClass>) -> bool {
        let storage = Arc::make_mut(&mut self.storage);
        self.classes.apply(event, |name, _, class| match class {
            Some(class) => drop(storage.classes.insert(name.to_owned(), Class::from_k8s(class))),
            None => drop(storage.classes.remove(name)),
        })
    }
}

/// What cannot be read counts as not there.
fn readable<T>(name: &str, read: Result<T, impl Display>) -> Option<T> {
    read.inspect_err(|error| tracing::warn!(name, %error, "cannot be read")).ok()
}
