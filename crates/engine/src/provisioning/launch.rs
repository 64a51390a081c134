//! From a packed machine to the claim that orders it.

use std::collections::BTreeMap;

use aerostat_api::{Requirement, labels};

use super::domain::{Domain, Domains, covers};
use super::lot::Lot;
use super::market::{self, Offer, Store};
use super::narrowing::{Types, narrow};
use super::packing::Bin;
use crate::cost::{self, Price};
use crate::instance::InstanceType;
use crate::limits::{Headroom, Machine};
use crate::plan::Launch;
use crate::report::{Alternative, LaunchReport};
use crate::resources::Resources;
use crate::snapshot::Settings;

/// Version of the algorithm behind a template's hash.
const HASH_VERSION: &str = "v3";
/// How many choices a report names after the first.
const ALTERNATIVES: usize = 5;

/// Everything that the machines of one bin have in common.
pub(crate) struct Draft<'d, 'a> {
    store: &'d Store<'a>,
    domain: &'d Domain,
    /// Types that hold the pods, cheapest first, with their offers, cheapest first.
    types: Types<'d, 'a>,
    /// Whether some of them hold the pods in these zones only.
    is_zonal: bool,
    /// What the pods ask for.
    load: Resources,
    pods: u32,
    settings: &'d Settings,
}

impl<'d, 'a> Draft<'d, 'a> {
    pub(crate) fn new(
        domains: &'d Domains<'_, 'a>,
        bin: &Bin,
        lots: &[Lot],
        settings: &'d Settings,
    ) -> Self {
        let (store, domain) = (domains.store(bin.domain), domains.get(bin.domain));
        let (mut load, mut pods) = (Resources::default(), 0);
        for (lot, count) in lots.iter().zip(&bin.counts).filter(|(_, count)| **count > 0) {
            load.add(&lot.sample.requests.times(*count));
            pods += lot.pods_of(*count);
        }
        let mut by_kind: BTreeMap<usize, Vec<&Offer<'_>>> = BTreeMap::new();
        let mut short = Vec::new();
        // Host ports of daemons may have taken offers out that the requirements still allow.
        for at in store.matching(&domain.requirements).iter() {
            let offer = &store.offers[at];
            if domain.offers.contains(at) && covers(&store.shapes[offer.shape].room, &bin.load) {
                by_kind.entry(offer.kind).or_default().push(offer);
            } else {
                short.push(offer);
            }
        }
        short.retain(|offer| by_kind.contains_key(&offer.kind));
        let mut types: Types<'_, '_> = by_kind.into_values().collect();
        let counted = types.iter().flatten().copied();
        let counted = counted.filter(|o| o.shape == bin.item.shape && o.price == bin.item.price);
        if let Some(first) = counted.min_by_key(|offer| order(offer))
            && !short.is_empty()
        {
            types = narrow(&types, &short, first, |types| store.has_min_values(types));
        }
        for offers in &mut types {
            offers.sort_by(|a, b| order(a).cmp(&order(b)));
        }
        types.sort_by_key(|offers| (offers[0].price, &store.pool.types[offers[0].kind].name));
        Self { store, domain, types, is_zonal: !short.is_empty(), load, pods, settings }
    }

    /// One of the machines. Takes what its alternatives may have or cost more than `counted` of
    /// the pool's headroom. `None` if the limits leave fewer alternatives than minValues asks for.
    pub(crate) fn launch(
        &self,
        counted: &Machine<'_>,
        headroom: &mut Headroom,
    ) -> Option<(Launch, LaunchReport)> {
        let kinds = &self.store.pool.types;
        // A claim names types, so a type counts with its dearest offer.
        let dearest = |offers: &[&Offer<'_>]| Machine {
            capacity: &kinds[offers[0].kind].capacity,
            price: offers.iter().map(|offer| offer.price).max().unwrap_or_default(),
        };
        let mut types = self.types.clone();
        let mut is_zonal = self.is_zonal;
        if headroom.counts_money() {
            let first = counted_first(&types, counted, kinds);
            types.iter_mut().for_each(|offers| offers.retain(|o| o.capacity_type == first));
        }
        let within = |offers: &Vec<&Offer<'_>>| headroom.allows_instead(counted, &dearest(offers));
        let mut allowed: Vec<Vec<&Offer<'_>>> =
            types.iter().filter(|offers| !offers.is_empty() && within(offers)).cloned().collect();
        if allowed.is_empty() {
            // Only the zones of the lowest price are within the limit.
            let mut cheap = types;
            cheap.iter_mut().for_each(|offers| offers.retain(|o| o.price <= counted.price));
            allowed = cheap.into_iter().filter(|o| !o.is_empty() && within(o)).take(1).collect();
            is_zonal = true;
        }
        if !self.store.has_min_values(&allowed) {
            return None;
        }
        let chosen = self.store.choose(&allowed, self.settings.max_instance_types.max(1));
        let chosen: Vec<&Vec<&Offer<'_>>> = chosen.into_iter().map(|at| &allowed[at]).collect();
        let (mut capacity, mut price) = (counted.capacity.clone(), counted.price);
        for most in chosen.iter().map(|offers| dearest(offers)) {
            capacity.raise_to(most.capacity);
            price = price.max(most.price);
        }
        headroom.raise(counted, &Machine { capacity: &capacity, price });
        Some((self.claim(&chosen, is_zonal), self.report(&allowed)))
    }

    /// The claim for types; `is_zonal` if they are meant in the zones of their offers only.
    fn claim(&self, types: &[&Vec<&Offer<'_>>], is_zonal: bool) -> Launch {
        let pool = self.store.pool;
        let offers = || types.iter().flat_map(|offers| offers.iter());
        let mut overhead: Option<&Resources> = None;
        for offer in offers() {
            let other = &self.store.shapes[offer.shape].overhead;
            if overhead.is_none_or(|least| least.covers(other) && least != other) {
                overhead = Some(other);
            }
        }
        let mut requests = self.load.clone();
        overhead.into_iter().for_each(|overhead| requests.add(overhead));

        let mut requirements = self.domain.requirements.clone();
        let capacity_types = offers().map(|offer| offer.capacity_type.to_owned());
        requirements.add(Requirement::one_of(labels::CAPACITY_TYPE, capacity_types));
        if is_zonal {
            let zones = offers().map(|offer| offer.zone.to_owned());
            requirements.add(Requirement::one_of(labels::ZONE, zones));
        }
        let names: Vec<String> =
            types.iter().map(|offers| pool.types[offers[0].kind].name.clone()).collect();
        requirements.add(Requirement::one_of(labels::INSTANCE_TYPE, names.iter().cloned()));
        let mut listed = requirements.to_claim();
        // In order of price, for people who read it; to the provider it is a set.
        let kinds = listed.iter_mut().filter(|r| r.key == labels::INSTANCE_TYPE);
        kinds.for_each(|requirement| requirement.values.clone_from(&names));

        let offers: Vec<&Offer<'_>> = offers().copied().collect();
        let relaxed = self.store.relax(&mut listed, &offers);

        let mut annotations = pool.annotations.clone();
        for (key, value) in [
            (labels::NODEPOOL_HASH, pool.hash.as_str()),
            (labels::NODEPOOL_HASH_VERSION, HASH_VERSION),
            (labels::MIN_VALUES_RELAXED, if relaxed { "true" } else { "false" }),
        ] {
            annotations.insert(key.to_owned(), value.to_owned());
        }
        Launch {
            pool: pool.name.clone(),
            pool_uid: pool.uid.clone(),
            labels: self.labels(),
            annotations,
            requirements: listed,
            taints: pool.taints.clone(),
            startup_taints: pool.startup_taints.clone(),
            class: self.store.class.clone(),
            requests: requests.quantities(),
            termination_grace: pool.termination_grace,
            expire_after: pool.expire_after.clone(),
            pods: Vec::new(),
            promised: 0,
        }
    }

    /// The pool's labels, and a value for each label of its own that it left open.
    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = market::node_labels(self.store.pool);
        for requirement in self.domain.requirements.iter() {
            let key = requirement.key();
            let reserved = key == labels::HOSTNAME
                || self.store.well_known.contains(key)
                || key.split('/').next().is_some_and(|domain| domain.ends_with("karpenter.sh"));
            if reserved || labels.contains_key(key) || requirement.allows_absence() {
                continue;
            }
            labels.extend(requirement.any().map(|value| (key.to_owned(), value)));
        }
        labels
    }

    fn report(&self, types: &[Vec<&Offer<'_>>]) -> LaunchReport {
        let pool = self.store.pool;
        let first = types[0][0];
        let kind = &pool.types[first.kind];
        let same = |offer: &&&Offer<'_>| {
            offer.price == first.price && offer.capacity_type == first.capacity_type
        };
        let zones = types[0].iter().filter(same).map(|offer| offer.zone.to_owned());
        let mut requests = self.load.clone();
        requests.add(&self.store.shapes[first.shape].overhead);
        let mut others: Vec<(Price, &str, &str)> = Vec::new();
        for offers in types {
            let name = pool.types[offers[0].kind].name.as_str();
            let mut seen: Vec<&str> = Vec::new();
            for offer in offers {
                if !seen.contains(&offer.capacity_type) {
                    seen.push(offer.capacity_type);
                    others.push((offer.price, name, offer.capacity_type));
                }
            }
        }
        others.sort_unstable();
        others.retain(|(_, name, capacity_type)| {
            (*name, *capacity_type) != (kind.name.as_str(), first.capacity_type)
        });
        let alternative = |(price, name, capacity_type): &(Price, &str, &str)| Alternative {
            instance_type: (*name).to_owned(),
            capacity_type: (*capacity_type).to_owned(),
            price: price.usd(),
        };
        LaunchReport {
            pool: pool.name.clone(),
            instance_type: kind.name.clone(),
            zones: zones.collect(),
            capacity_type: first.capacity_type.to_owned(),
            price: first.price.usd(),
            fee: cost::fee(self.settings.fee, kind, first.zone),
            pods: self.pods,
            requests,
            allocatable: kind.allocatable.clone(),
            alternatives: others.iter().take(ALTERNATIVES).map(alternative).collect(),
            weighed: self.store.weighed,
            feasible: self.types.iter().map(Vec::len).sum(),
        }
    }
}

/// The capacity type of the cheapest offer of the type that was counted as `counted`.
fn counted_first<'o>(
    types: &[Vec<&Offer<'o>>],
    counted: &Machine<'_>,
    kinds: &[InstanceType],
) -> &'o str {
    let is_counted = |offers: &&Vec<&Offer<'_>>| {
        offers[0].price == counted.price && kinds[offers[0].kind].capacity == *counted.capacity
    };
    types.iter().find(is_counted).unwrap_or(&types[0])[0].capacity_type
}

/// Offers of one type are alike but for this.
fn order<'o>(offer: &'o Offer<'_>) -> (Price, &'o str, &'o str) {
    (offer.price, offer.zone, offer.capacity_type)
}
