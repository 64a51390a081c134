//! Reads and writes with Kubernetes' types, for in-process controllers.

use std::sync::Arc;

use k8s_openapi::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cluster, DeleteOptions, Deleted, Part, WriteOptions};
use crate::informer::Informer;
use crate::kinds::Kind;
use crate::status::Status;
use crate::store::Object;

/// A built-in kind with its Rust type.
pub trait Typed: Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}
impl<K> Typed for K where K: Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl Cluster {
    /// The kind of a Rust type.
    ///
    /// # Panics
    ///
    /// If the cluster does not serve it: a mistake of this program.
    #[must_use]
    pub fn kind_of<K: Resource>(&self) -> Arc<Kind> {
        self.kind(K::GROUP, K::URL_PATH_SEGMENT)
            .unwrap_or_else(|| panic!("{} {} is not served", K::API_VERSION, K::KIND))
    }

    /// One object, if it is there.
    #[must_use]
    pub fn get<K: Typed>(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let object = self.get_object(&self.kind_of::<K>(), namespace, name).ok()?;
        decode(&object).ok()
    }

    /// All objects of a type, in one namespace or (with `""`) in all, by namespace and name.
    #[must_use]
    pub fn list<K: Typed>(&self, namespace: &str) -> Vec<Arc<K>> {
        let kind = self.kind_of::<K>();
        self.renew_leases(&kind);
        let (objects, _) = self.store().list(&kind.resource(), namespace);
        objects.iter().filter_map(|object| decode(object).ok()).collect()
    }

    /// Creates an object.
    ///
    /// # Errors
    ///
    /// As [`Cluster::create_object`].
    pub fn create<K: Typed>(&self, namespace: &str, object: &K) -> Result<Arc<K>, Status> {
        let value = encode(object)?;
        let kind = self.kind_of::<K>();
        decode(&*self.create_object(&kind, namespace, value, WriteOptions::default())?)
    }

    /// Changes everything but the status of an object.
    ///
    /// # Errors
    ///
    /// As [`Cluster::update_object`].
    pub fn modify<K: Typed>(
        &self,
        namespace: &str,
        name: &str,
        change: impl FnMut(&mut K),
    ) -> Result<Arc<K>, Status> {
        self.modify_part(namespace, name, Part::Main, change)
    }

    /// Changes the status of an object.
    ///
    /// # Errors
    ///
    /// As [`Cluster::update_object`].
    pub fn modify_status<K: Typed>(
        &self,
        namespace: &str,
        name: &str,
        change: impl FnMut(&mut K),
    ) -> Result<Arc<K>, Status> {
        self.modify_part(namespace, name, Part::Status, change)
    }

    /// Changes a part of an object.
    ///
    /// # Errors
    ///
    /// As [`Cluster::update_object`].
    pub fn modify_part<K: Typed>(
        &self,
        namespace: &str,
        name: &str,
        part: Part,
        mut change: impl FnMut(&mut K),
    ) -> Result<Arc<K>, Status> {
        let kind = self.kind_of::<K>();
        let options = WriteOptions::default();
        let object = self.update_object(&kind, namespace, name, part, options, |old| {
            let mut typed = K::clone(&*decode::<K>(old)?);
            change(&mut typed);
            encode(&typed)
        })?;
        decode(&object)
    }

    /// Deletes an object.
    ///
    /// # Errors
    ///
    /// As [`Cluster::delete_object`].
    pub fn delete<K: Typed>(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        self.delete_object(&self.kind_of::<K>(), namespace, name, options)
    }

    /// Follows a type: everything there is, then every change.
    #[must_use]
    pub fn informer<K: Typed>(&self) -> Informer<K> {
        Informer::new(self.store().subscribe(&self.kind_of::<K>().resource()))
    }

    /// Follows a kind that came with a definition; `None` if it is not served.
    pub fn informer_of<K>(&self, group: &str, plural: &str) -> Option<Informer<K>>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let kind = self.kind(group, plural)?;
        Some(Informer::new(self.store().subscribe(&kind.resource())))
    }
}

fn encode<K: Serialize>(object: &K) -> Result<serde_json::Value, Status> {
    serde_json::to_value(object)
        .map_err(|error| Status::new(500, "InternalError", format!("cannot be written: {error}")))
}

fn decode<K: DeserializeOwned + Send + Sync + 'static>(object: &Object) -> Result<Arc<K>, Status> {
    object.typed().map_err(|error| {
        let name = object.name();
        Status::new(500, "InternalError", format!("stored object {name:?} cannot be read: {error}"))
    })
}
