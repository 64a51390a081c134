//! What machines cost.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;

use aerostat_api::labels;

use crate::instance::InstanceType;
use crate::resources::Resources;

/// Billionths of a USD per hour: sums are exact and always ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(u64);

impl Price {
    /// Reads USD per hour; `None` if it is no price: negative, not finite, a billion or more.
    #[must_use]
    pub fn from_usd(usd: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 1e18"
        )]
        (0.0..1e9).contains(&usd).then(|| Self((usd * 1e9).round() as u64))
    }

    /// USD per hour.
    #[must_use]
    pub fn usd(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "prices have few digits")]
        let nano = self.0 as f64;
        nano / 1e9
    }

    /// Billionths of a USD per hour.
    #[must_use]
    pub fn nano(self) -> u64 {
        self.0
    }

    /// A price of so many billionths of a USD per hour.
    #[must_use]
    pub fn from_nano(nano: u64) -> Self {
        Self(nano)
    }

    /// The price of `count` of them.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self(self.0.saturating_mul(u64::from(count)))
    }
}

/// The most that a pool's machines together may cost an hour, as its annotation
/// `aerostat.dev/max-usd-per-hour` says; `None` if it does not say.
///
/// # Errors
///
/// Names the annotation if it is no amount of money.
pub fn spending_limit(annotations: &BTreeMap<String, String>) -> Result<Option<Price>, String> {
    let Some(text) = annotations.get(labels::MAX_USD_PER_HOUR) else { return Ok(None) };
    let price = text.trim().parse().ok().and_then(Price::from_usd);
    price.map(Some).ok_or_else(|| {
        format!(
            "annotation {} is {text:?}: it must be USD per hour, for example \"2.50\"",
            labels::MAX_USD_PER_HOUR
        )
    })
}

/// What it costs to move a pod, as the annotation `aerostat.dev/pod-move-usd` of a pod or of a
/// NodePool says, USD; `None` if it does not say.
///
/// # Errors
///
/// Names the annotation if it is no amount of money.
pub fn move_price(annotations: &BTreeMap<String, String>) -> Result<Option<Price>, String> {
    let Some(text) = annotations.get(labels::POD_MOVE_USD) else { return Ok(None) };
    let price = text.trim().parse().ok().and_then(Price::from_usd);
    price.map(Some).ok_or_else(|| {
        format!(
            "annotation {} is {text:?}: it must be USD per move, for example \"0.002\"",
            labels::POD_MOVE_USD
        )
    })
}

impl Add for Price {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::default(), Add::add)
    }
}

/// The fee on a machine, USD per hour: `rate` of the on-demand price of its type in its zone,
/// whatever was paid for the machine itself; 0 if it has no on-demand price there.
#[must_use]
pub fn fee(rate: f64, kind: &InstanceType, zone: &str) -> f64 {
    let mut offerings = kind.offerings.iter();
    let listed = offerings.find(|o| o.zone == zone && o.capacity_type == "on-demand");
    listed.and_then(|o| Price::from_usd(o.price * rate)).unwrap_or_default().usd()
}

/// What each pod on a machine costs an hour: its part of the machine's `price`.
///
/// The price is parted by dominant shares: the largest part that a pod takes of any one resource
/// of the machine, `allocatable`. The parts of all pods add up to the price, so that room that
/// nobody uses is paid for by all. Of the `count` pods on the machine those that are not among
/// `pods` count as much as the mean of those that are.
#[must_use]
pub fn shares(price: f64, allocatable: &Resources, pods: &[&Resources], count: u32) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "the ratio counts")]
    let part = |name: &str, amount: i64| match allocatable.get(name) {
        room @ 1.. => amount as f64 / room as f64,
        _ => 0.0,
    };
    let dominant = |pod: &&Resources| {
        let fixed = [("cpu", pod.cpu), ("memory", pod.memory), ("ephemeral-storage", pod.storage)];
        let other = pod.other.iter().map(|(name, amount)| (name.as_str(), *amount));
        let all = fixed.into_iter().chain([("pods", pod.pods)]).chain(other);
        all.map(|(name, amount)| part(name, amount)).fold(0.0, f64::max)
    };
    let shares: Vec<f64> = pods.iter().map(dominant).collect();
    let known = f64::from(u32::try_from(pods.len()).unwrap_or(u32::MAX));
    let all = shares.iter().sum::<f64>() * f64::from(count).max(known) / known;
    shares.into_iter().map(|share| if all > 0.0 { price * share / all } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Offering;

    #[test]
    fn sums_are_exact() {
        let large = Price::from_usd(0.1).unwrap();
        assert_eq!((large + large + large).usd().to_string(), "0.3");
        assert_eq!(large.times(3), [large; 3].into_iter().sum());
    }

    #[test]
    fn a_machine_s_price_is_parted_by_dominant_shares() {
        let amounts = |cpu, memory| Resources { cpu, memory, ..Resources::default() };
        let machine = amounts(4000, 8000);
        let (wide, tall) = (amounts(1000, 6000), amounts(1000, 100));
        let both = shares(1.0, &machine, &[&wide, &tall], 2);
        assert_eq!(both, [0.75, 0.25], "6/8 of the memory against 1/4 of the cpu");
        assert_eq!(shares(1.0, &machine, &[&tall], 2), [0.5], "half is another pod's");
        assert_eq!(shares(1.0, &machine, &[], 0), [0.0; 0]);
        assert_eq!(shares(1.0, &machine, &[&amounts(0, 0)], 1), [0.0]);
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for usd in [f64::NAN, f64::INFINITY, -0.1, 1e12] {
            assert_eq!(Price::from_usd(usd), None, "{usd}");
        }
        assert_eq!(Price::from_usd(0.0), Some(Price::default()));
    }

    #[test]
    fn spending_limits_are_money() {
        let limit = |text: &str| {
            spending_limit(&[(labels::MAX_USD_PER_HOUR.to_owned(), text.to_owned())].into())
        };
        assert_eq!(limit("2.50"), Ok(Price::from_usd(2.5)));
        assert_eq!(spending_limit(&BTreeMap::new()), Ok(None));
        for wrong in ["", "$2", "-1", "NaN", "inf", "2,50"] {
            let error = limit(wrong).unwrap_err();
            assert!(error.starts_with("annotation aerostat.dev/max-usd-per-hour is"), "{error}");
        }
    }

    #[test]
    fn the_fee_is_of_the_on_demand_price() {
        let offering = |capacity_type: &str, price| Offering {
            zone: "a".to_owned(),
            capacity_type: capacity_type.to_owned(),
            price,
            available: false,
            reservation: None,
        };
        let kind = InstanceType {
            name: "c5a.large".to_owned(),
            labels: Default::default(),
            offerings: vec![offering("spot", 0.04), offering("on-demand", 0.096)],
            capacity: Default::default(),
            allocatable: Default::default(),
        };
        assert_eq!(fee(0.12, &kind, "a").to_string(), "0.01152");
        assert_eq!(fee(0.12, &kind, "b").to_string(), "0");
    }
}
