//! What machines there are to be had, at a glance.

use std::sync::Arc;

use aerostat_api::{Requirements, labels};

use crate::cost::Price;
use crate::instance::Offering;
use crate::plan::Launch;
use crate::report::{Blocker, LaunchReport};
use crate::resources::Resources;
use crate::snapshot::Snapshot;

/// Everything that some pool may launch, cheapest first.
pub(super) struct Offers<'a> {
    list: Vec<(Price, &'a Resources)>,
    /// The least price of a core and of a byte of memory, in billionths of USD.
    unit: (f64, f64),
}

impl<'a> Offers<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut list: Vec<(Price, &Resources)> = Vec::new();
        let mut seen: Vec<*const Vec<crate::instance::InstanceType>> = Vec::new();
        let usable = |pool: &&crate::snapshot::Pool| pool.usable.is_ok() && pool.replicas.is_none();
        for pool in snapshot.pools.iter().filter(usable) {
            let types = std::sync::Arc::as_ptr(&pool.types);
            if seen.contains(&types) {
                continue;
            }
            seen.push(types);
            for kind in pool.types.iter() {
                let prices = kind.offerings.iter().filter(|offering| is_to_be_had(offering));
                let prices = prices.filter_map(|offering| Price::from_usd(offering.price));
                list.extend(prices.min().map(|price| (price, &kind.allocatable)));
            }
        }
        list.sort_by_key(|(price, _)| *price);
        let unit = |of: fn(&Resources) -> i64| {
            let each = list.iter().filter(|(_, room)| of(room) > 0);
            each.map(|(price, room)| number(price.nano()) / number(of(room).unsigned_abs()))
                .fold(f64::INFINITY, f64::min)
        };
        let unit = (unit(|room| room.cpu), unit(|room| room.memory));
        Self { list, unit }
    }

    /// Whether there is a machine below a price that has room for `load`, whatever its labels.
    pub(super) fn any_below(&self, load: &Resources, price: Price) -> bool {
        let below = self.list.iter().take_while(|(of, _)| *of < price);
        below.into_iter().any(|(_, room)| room.covers(load))
    }

    /// No machines with room for `load` cost less than this.
    pub(super) fn least(&self, load: &Resources) -> Price {
        let amount = |amount: i64| number(amount.max(0).unsigned_abs());
        let part = |amount: f64, unit: f64| if amount > 0.0 { amount * unit } else { 0.0 };
        let least = part(amount(load.cpu), self.unit.0).max(part(amount(load.memory), self.unit.1));
        Price::from_usd(least / 1e9).unwrap_or_default()
    }
}

fn is_to_be_had(offering: &Offering) -> bool {
    offering.available && offering.reservation.as_ref().is_none_or(|r| r.available > 0)
}

#[expect(clippy::cast_precision_loss, reason = "prices and amounts of machines have few digits")]
fn number(amount: u64) -> f64 {
    amount as f64
}

/// Takes the types out of a claim that may cost more than `most`, whatever zone and capacity type
/// it becomes. Where the capacity type is open, it is that of the first choice from now on.
pub(super) fn keep_below(
    launch: &mut Launch,
    report: &LaunchReport,
    most: Price,
    snapshot: &Snapshot,
) -> Result<(), Blocker> {
    for requirement in Arc::make_mut(&mut launch.requirements).iter_mut() {
        if requirement.key == labels::CAPACITY_TYPE {
            requirement.values = vec![report.capacity_type.clone()];
        }
    }
    let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == launch.pool) else {
        return Err(Blocker::NotCheaper);
    };
    let Ok(requirements) = Requirements::from_pool(&launch.requirements) else {
        return Err(Blocker::NotCheaper);
    };
    let allowed = |offering: &&Offering| {
        let reservation = offering.reservation.as_ref().map(|reservation| &*reservation.id);
        is_to_be_had(offering)
            && requirements.allows(labels::ZONE, Some(&offering.zone))
            && requirements.allows(labels::CAPACITY_TYPE, Some(&offering.capacity_type))
            && requirements.allows(labels::RESERVATION_ID, reservation)
    };
    let is_dear = |name: &String| {
        let Ok(at) = pool.types.binary_search_by(|kind| kind.name.cmp(name)) else { return true };
        let offerings = pool.types[at].offerings.iter().filter(allowed);
        let prices = offerings.map(|offering| Price::from_usd(offering.price));
        prices.max().is_none_or(|dearest| dearest.is_none_or(|dearest| dearest > most))
    };
    let types =
        Arc::make_mut(&mut launch.requirements).iter_mut().find(|r| r.key == labels::INSTANCE_TYPE);
    let Some(types) = types else { return Err(Blocker::NotCheaper) };
    let before = types.values.len();
    types.values.retain(|name| !is_dear(name));
    let fewer = types.values.len() < before;
    if types.values.is_empty()
        || fewer && launch.requirements.iter().any(|r| r.min_values.is_some())
    {
        return Err(Blocker::NotCheaper);
    }
    Ok(())
}
