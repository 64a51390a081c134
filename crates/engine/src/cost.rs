//! What machines cost.

use std::iter::Sum;
use std::ops::Add;

use crate::instance::InstanceType;

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

    /// The price of `count` of them.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self(self.0.saturating_mul(u64::from(count)))
    }
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
