//! From a packed machine to the claim that orders it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aerostat_api::{Requirement, labels};

use super::domain::{Domain, Domains, covers};
use super::kinds::{rank, sort};
use super::lot::Lot;
use super::market::{self, Offer, Store};
use super::narrowing::{Offers, Types, narrow};
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
        let (mut types, mut short) = (Types::new(), Vec::new());
        for kind in domains.kinds(bin.domain).iter() {
            let holds = |shape: usize| covers(&store.shapes[shape].room, &bin.load);
            match kind.shape {
                Some(shape) if holds(shape) => types.push(kind.offers.clone()),
                Some(_) => {}
                None => {
                    let (enough, less): (Vec<&Offer<'_>>, Vec<&Offer<'_>>) =
                        kind.offers.iter().copied().partition(|offer| holds(offer.shape));
                    if !enough.is_empty() {
                        types.push(enough.into());
                        short.extend(less.into_iter().chain(kind.barred.iter().copied()));
                    }
                }
            }
        }
        if !short.is_empty() {
            let counted = types.iter().flat_map(|offers| offers.iter()).copied();
            let counted =
                counted.filter(|o| o.shape == bin.item.shape && o.price == bin.item.price);
            if let Some(first) = counted.min_by_key(|offer| rank(offer)) {
                types = narrow(&types, &short, first, |types| store.has_min_values(types));
            }
            sort(&mut types, store);
        }
        Self { store, domain, types, is_zonal: !short.is_empty(), load, pods, settings }
    }

    /// The next machines: a claim and its report, and how many of `copies` are alike; under limits
    /// the alternatives may differ from one machine to the next. Takes what the alternatives may
    /// have or cost more than `counted` of the pool's headroom. `None` if the limits leave fewer
    /// alternatives than minValues asks for.
    pub(crate) fn launch(
        &self,
        counted: &Machine<'_>,
        headroom: &mut Headroom,
        copies: u32,
    ) -> Option<(Launch, LaunchReport, u32)> {
        let mut types = Cow::Borrowed(&self.types);
        let mut is_zonal = self.is_zonal;
        if headroom.counts_money() {
            let first = counted_first(&types, counted, &self.store.pool.types);
            let types = types.to_mut();
            for offers in types.iter_mut() {
                *offers = offers.iter().copied().filter(|o| o.capacity_type == first).collect();
            }
            types.retain(|offers| !offers.is_empty());
            sort(types, self.store);
        }
        let (capacity, price) = self.most(types.iter(), counted);
        let is_plenty =
            headroom.allow_instead(counted, &Machine { capacity: &capacity, price }, copies);
        if !is_plenty {
            let within =
                |offers: &Offers<'_, 'a>| headroom.allow_instead(counted, &self.dearest(offers), 1);
            let mut allowed: Types<'_, '_> = types.iter().filter(|o| within(o)).cloned().collect();
            if allowed.is_empty() {
                // Only the zones of the lowest price are within the limit.
                let cheap = types.iter().map(|offers| {
                    offers.iter().copied().filter(|o| o.price <= counted.price).collect()
                });
                allowed =
                    cheap.filter(|o: &Offers<'_, 'a>| !o.is_empty() && within(o)).take(1).collect();
                is_zonal = true;
            }
            types = Cow::Owned(allowed);
        }
        if !self.store.has_min_values(&types) {
            return None;
        }
        let chosen = self.store.choose(&types, self.settings.max_instance_types.max(1));
        let chosen: Vec<&Offers<'_, 'a>> = chosen.into_iter().map(|at| &types[at]).collect();
        let alike = if is_plenty { copies } else { 1 };
        let (capacity, price) = self.most(chosen.iter().copied(), counted);
        headroom.raise(counted, &Machine { capacity: &capacity, price }, alike);
        Some((self.claim(&chosen, is_zonal), self.report(&types), alike))
    }

    /// What a type counts with: a claim names types, so it may become the dearest offer.
    fn dearest(&self, offers: &[&Offer<'_>]) -> Machine<'a> {
        let capacity = &self.store.pool.types[offers[0].kind].capacity;
        let price = offers.iter().map(|offer| offer.price).max().unwrap_or_default();
        Machine { capacity, price }
    }

    /// The most that any of the types, or what was counted, has of a resource, and costs.
    fn most<'t>(
        &self,
        types: impl IntoIterator<Item = &'t Offers<'t, 'a>>,
        counted: &Machine<'_>,
    ) -> (Resources, Price)
    where
        'a: 't,
    {
        let (mut capacity, mut price) = (counted.capacity.clone(), counted.price);
        for most in types.into_iter().map(|offers| self.dearest(offers)) {
            capacity.raise_to(most.capacity);
            price = price.max(most.price);
        }
        (capacity, price)
    }

    /// The claim for types; `is_zonal` if they are meant in the zones of their offers only.
    fn claim(&self, types: &[&Offers<'_, 'a>], is_zonal: bool) -> Launch {
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
            requirements: listed.into(),
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

    fn report(&self, types: &[Offers<'_, 'a>]) -> LaunchReport {
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
            // Types stand in order of price: no later one is among the cheapest.
            if others.len() > ALTERNATIVES && others[ALTERNATIVES].0 < offers[0].price {
                break;
            }
            let name = pool.types[offers[0].kind].name.as_str();
            let mut seen: Vec<&str> = Vec::new();
            for offer in offers.iter() {
                let is_first = name == kind.name && offer.capacity_type == first.capacity_type;
                if !is_first && !seen.contains(&offer.capacity_type) {
                    seen.push(offer.capacity_type);
                    others.push((offer.price, name, offer.capacity_type));
                }
            }
            others.sort_unstable();
            others.truncate(ALTERNATIVES + 1);
        }
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
            feasible: self.types.iter().map(|offers| offers.len()).sum(),
        }
    }
}

/// The capacity type of the cheapest offer of the type that was counted as `counted`.
fn counted_first<'o>(
    types: &[Offers<'_, 'o>],
    counted: &Machine<'_>,
    kinds: &[InstanceType],
) -> &'o str {
    let is_counted = |offers: &&Offers<'_, 'o>| {
        offers[0].price == counted.price && kinds[offers[0].kind].capacity == *counted.capacity
    };
    types.iter().find(is_counted).unwrap_or(&types[0])[0].capacity_type
}
