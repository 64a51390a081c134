//! What a claim promises before its machine is launched.

use std::collections::BTreeMap;

use aerostat_api::{Requirements, labels};

use super::market;
use crate::cost::Price;
use crate::instance::{InstanceType, Offering};
use crate::resources::Resources;

/// What a claim will most likely become: its first choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Promised {
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// What pods and daemons may use of it.
    pub allocatable: Resources,
    /// The most that it may get, its other choices included; counts towards limits.
    pub capacity: Resources,
    /// USD per hour: the most that it may cost, its other choices included; counts towards limits.
    pub price: f64,
}

/// What a claim with these requirements and labels promises: the cheapest offering of `types`
/// that it allows and that is to be had, as the planner chose it and a provider will. `None` if it
/// allows none, or if the requirements cannot be read.
#[must_use]
pub fn promised(
    requirements: &[aerostat_api::nodepool::NodeSelectorRequirement],
    claim_labels: &BTreeMap<String, String>,
    types: &[InstanceType],
) -> Option<Promised> {
    let requirements = Requirements::from_pool(requirements).ok()?;
    let allowed = |kind: &InstanceType| {
        requirements.iter().all(|requirement| {
            let key = requirement.key();
            let value = market::type_label(kind, key);
            matches!(key, labels::ZONE | labels::CAPACITY_TYPE | labels::RESERVATION_ID)
                || value.map_or(claim_labels.contains_key(key), |value| requirement.has(value))
                || value.is_none() && requirement.allows_absence()
        })
    };
    let offered = |offering: &&Offering| {
        let reservation = offering.reservation.as_ref().map(|reservation| &*reservation.id);
        offering.available
            && requirements.allows(labels::RESERVATION_ID, reservation)
            && requirements.allows(labels::ZONE, Some(&offering.zone))
            && requirements.allows(labels::CAPACITY_TYPE, Some(&offering.capacity_type))
    };
    let mut capacity = Resources::default();
    let mut dearest = Price::default();
    let mut choices = Vec::new();
    for kind in types.iter().filter(|kind| allowed(kind)) {
        for offering in kind.offerings.iter().filter(offered) {
            let Some(price) = Price::from_usd(offering.price) else { continue };
            capacity.raise_to(&kind.capacity);
            dearest = dearest.max(price);
            choices.push((price, kind, offering));
        }
    }
    let (_, kind, offering) = choices.into_iter().min_by_key(|(price, kind, offering)| {
        (*price, &kind.name, &offering.zone, &offering.capacity_type)
    })?;
    let mut node_labels = kind.labels.clone();
    for (key, value) in [
        (labels::INSTANCE_TYPE, &kind.name),
        (labels::ZONE, &offering.zone),
        (labels::CAPACITY_TYPE, &offering.capacity_type),
    ] {
        node_labels.insert(key.to_owned(), value.clone());
    }
    node_labels.extend(claim_labels.clone());
    let allocatable = kind.allocatable.clone();
    Some(Promised { labels: node_labels, allocatable, capacity, price: dearest.usd() })
}
