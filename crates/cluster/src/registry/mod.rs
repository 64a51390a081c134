//! Every read and write of the cluster, with admission, defaults and validation on the way.
//!
//! - [`Cluster`]: the handle; untyped reads here, writes in `write` and `delete`.
//! - `typed`: the same with Kubernetes' types, for in-process controllers.
//! - `bind`: how a pod comes to its node.
//! - `custom`, `definition`: kinds that come and go with their definitions.
//! - `evict`, `scale`: what these subresources do.
//! - `leases`: renewals that are written when somebody looks.
//! - `names`: UIDs and generated names, seeded.

mod bind;
mod custom;
mod definition;
mod delete;
mod evict;
pub(crate) mod leases;
mod names;
mod scale;
mod typed;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};

use aerostat_clock::{Clock, Seeds};

use crate::admission::policy::Policies;
use crate::kinds::{self, Kind};
use crate::status::Status;
use crate::store::{Object, Resource, Store};

pub use bind::Binding;
pub(crate) use bind::set_pod_condition;
pub use custom::is_terminating;
pub use delete::{DeleteOptions, Deleted, Propagation};
pub use scale::{scale, scaled};
pub use typed::Typed;
pub use write::{Part, WriteOptions, timestamp};

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its time.
    pub clock: Clock,
    /// Its chance: UIDs, generated names, tie-breaks.
    pub seeds: Seeds,
}

/// The API of one embedded cluster. Cheap to clone; all methods are synchronous.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    seeds: Seeds,
    store: Store,
    kinds: RwLock<BTreeMap<Resource, Arc<Kind>>>,
    names: Mutex<names::Names>,
    leases: Mutex<leases::Kept>,
    /// What the stored admission policies say.
    policies: RwLock<Arc<Policies>>,
}

impl Cluster {
    /// An empty cluster: kinds, but no objects.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let kinds = kinds::builtin().into_iter().map(|kind| (kind.resource(), Arc::new(kind)));
        Self(Arc::new(Inner {
            clock: options.clock,
            seeds: options.seeds,
            store: Store::default(),
            kinds: RwLock::new(kinds.collect()),
            names: Mutex::new(names::Names::new(&options.seeds)),
            policies: RwLock::default(),
            leases: Mutex::default(),
        }))
    }

    /// The cluster's time.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// The cluster's random streams.
    #[must_use]
    pub fn seeds(&self) -> Seeds {
        self.0.seeds
    }

    /// The store underneath, for watches and lists at a revision.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// What the stored admission policies say.
    pub(crate) fn policies(&self) -> Arc<Policies> {
        let policies = self.0.policies.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        policies.clone()
    }

    /// A policy or a binding was written, or is gone.
    fn policies_changed(&self) {
        let mut policies =
            self.0.policies.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        *policies = Arc::new(Policies::of(self));
    }

    /// The kind that is served as `plural` in `group`.
    #[must_use]
    pub fn kind(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        let kinds = self.0.kinds.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        kinds.get(&(group.to_owned(), plural.to_owned())).cloned()
    }

    /// Every kind that is served, by group and plural.
    #[must_use]
    pub fn kinds(&self) -> Vec<Arc<Kind>> {
        let kinds = self.0.kinds.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        kinds.values().cloned().collect()
    }

    /// One object.
    ///
    /// # Errors
    ///
    /// 404 if there is none.
    pub fn get_object(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Object>, Status> {
        self.renew_leases(kind);
        let key = (namespace.to_owned(), name.to_owned());
        self.0
            .store
            .get(&kind.resource(), &key)
            .ok_or_else(|| Status::not_found(&kind.group, &kind.plural, name))
    }
}
