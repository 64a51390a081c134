//! Which values of a label new machines can have.

use std::collections::{BTreeMap, BTreeSet};

use crate::fingerprint::{Distinct, fingerprint};
use crate::pod::{Constraints, Pod};
use crate::provisioning::class::by_constraints;
use crate::provisioning::market::{Dimensions, Scope, Store};
use crate::provisioning::packing::share;
use crate::provisioning::reserved::Reservations;
use crate::resources::Resources;
use crate::snapshot::{Pool, Snapshot};

/// The usable pools, compiled to be asked for domains.
pub(crate) struct Offered<'a> {
    stores: Vec<Store<'a>>,
    dimensions: Dimensions,
}

impl<'a> Offered<'a> {
    /// Compiles the pools of a snapshot; those that cannot be read offer nothing.
    pub(crate) fn new(snapshot: &'a Snapshot, samples: &[&Pod], keys: &BTreeSet<String>) -> Self {
        let dimensions = Dimensions::of(samples.iter().copied());
        // Labels that somebody will be kept to have to be indexed.
        let pinned = Constraints {
            node_selector: keys.iter().map(|key| (key.clone(), String::new())).collect(),
            ..Constraints::default()
        };
        let mut distinct: Distinct<&Constraints> = Distinct::default();
        for pod in samples {
            let print = fingerprint(&pod.constraints.node_selector);
            let same = |known: &&Constraints| by_constraints(known, &pod.constraints).is_eq();
            if distinct.find(print, same).is_none() {
                distinct.add(print, &pod.constraints);
            }
        }
        let mut asked = distinct.into_list();
        asked.push(&pinned);
        let usable = |pool: &&Pool| pool.usable.is_ok() && pool.replicas.is_none();
        let reservations = Reservations::of(snapshot);
        let mut stores = Vec::new();
        for pool in snapshot.pools.iter().filter(usable) {
            let reserved = reservations.open(pool).into_iter().map(Scope::Reserved);
            for scope in reserved.chain([Scope::Open]) {
                stores.extend(Store::new(pool, &dimensions, &snapshot.daemons, &asked, scope));
            }
        }
        Self { stores, dimensions }
    }

    /// The values of `key` that a new machine for such a pod can have, each with the least that
    /// the pod's share of a machine costs there.
    pub(crate) fn values<'s>(
        &'s self,
        constraints: &Constraints,
        requests: &Resources,
        key: &str,
    ) -> BTreeMap<String, u64> {
        let request = self.dimensions.vector(requests);
        let mut values: BTreeMap<&'s str, u64> = BTreeMap::new();
        for store in &self.stores {
            let of_template = store.template.get(key).and_then(|requirement| requirement.values());
            let shares: Vec<Option<u64>> =
                store.shapes.iter().map(|shape| share(&shape.room, &request)).collect();
            for way in store.ways(constraints) {
                let allowed = |value: &str| way.requirements.allows(key, Some(value));
                for at in way.offers.iter() {
                    let offer = &store.offers[at];
                    let Some(share) = shares[offer.shape] else { continue };
                    let cost = share.saturating_mul(offer.price.nano());
                    let mut found = |value: &'s str| {
                        let least = values.entry(value).or_insert(cost);
                        *least = cost.min(*least);
                    };
                    match store.label(offer, key) {
                        Some(value) => found(value),
                        None => {
                            let values = of_template.into_iter().flatten();
                            values.filter(|value| allowed(value)).for_each(|value| found(value));
                        }
                    }
                }
            }
        }
        values.into_iter().map(|(value, cost)| (value.to_owned(), cost)).collect()
    }

    /// Whether some new machine holds pods that ask for this together.
    pub(crate) fn holds(&self, constraints: &Constraints, requests: &Resources) -> bool {
        let request = self.dimensions.vector(requests);
        self.stores.iter().any(|store| {
            store.ways(constraints).iter().any(|way| {
                let mut offers = way.offers.iter();
                offers
                    .any(|at| share(&store.shapes[store.offers[at].shape].room, &request).is_some())
            })
        })
    }
}
