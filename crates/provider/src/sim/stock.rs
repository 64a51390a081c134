//! What the simulated cloud has in stock, and what it has told of it.
//!
//! Like EC2 it does not tell beforehand what has run out: whoever asks for it learns that it is not
//! to be had. What was learned holds for three minutes.
//!
//! Source of the three minutes: aws/karpenter-provider-aws `pkg/cache/cache.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aerostat_engine::instance::{InstanceType, Offering, Reservation};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{OfferingKey, Shortage};
use crate::catalog::Region;

/// How long an offering that had run out is not asked for again.
const MEMORY: Duration = Duration::from_secs(180);
/// A machine in a reservation is paid already; this part of its price is left, so that the order
/// of prices stays. Source: aws/karpenter-provider-aws `pkg/providers/instancetype/offering`.
const RESERVED_PART: f64 = 1e-7;

/// What differs from a cloud that has plenty of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Stock {
    /// What has run out.
    pub unavailable: Vec<Unavailable>,
    /// What runs out by chance, and comes back.
    pub shortages: Vec<Shortage>,
    /// Capacity that was bought in advance.
    pub reservations: Vec<Reserved>,
}

/// Offerings that have run out: all that have what is said here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Unavailable {
    /// Their instance type.
    pub instance_type: Option<String>,
    /// Their zone.
    pub zone: Option<String>,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: Option<String>,
}

/// Machines that were bought in advance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reserved {
    /// The id of the reservation.
    pub id: String,
    /// Their instance type.
    pub instance_type: String,
    /// Their zone.
    pub zone: String,
    /// How many.
    pub count: u32,
}

impl Stock {
    /// Whether the region knows the types and zones.
    ///
    /// # Errors
    ///
    /// Names the entry and what the region does not have.
    pub fn check(&self, region: &Region) -> Result<(), String> {
        let zones = region.zones();
        let known = |entry: String, kind: Option<&String>, zone: Option<&String>| {
            if let Some(kind) = kind.filter(|kind| region.instance_type(kind).is_none()) {
                return Err(format!("{entry}: {} sells no instance type {kind:?}", region.name));
            }
            match zone.filter(|zone| !zones.contains(zone.as_str())) {
                Some(zone) => Err(format!("{entry}: {} has no zone {zone:?}", region.name)),
                None => Ok(()),
            }
        };
        for (at, gone) in self.unavailable.iter().enumerate() {
            let entry = format!("unavailable[{at}]");
            known(entry, gone.instance_type.as_ref(), gone.zone.as_ref())?;
        }
        for (at, shortage) in self.shortages.iter().enumerate() {
            let entry = format!("shortages[{at}]");
            known(entry.clone(), shortage.instance_type.as_ref(), shortage.zone.as_ref())?;
            for (name, length) in [("every", shortage.every), ("lasts", shortage.lasts)] {
                if length.0.is_zero() {
                    return Err(format!("{entry}.{name}: 0s is no time: write a length above 0"));
                }
            }
        }
        let mut ids = BTreeSet::new();
        for (at, reserved) in self.reservations.iter().enumerate() {
            let entry = format!("reservations[{at}]");
            if !ids.insert(&reserved.id) {
                return Err(format!("{entry}: there is another reservation {:?}", reserved.id));
            }
            known(entry, Some(&reserved.instance_type), Some(&reserved.zone))?;
        }
        Ok(())
    }

    /// Whether an offering has run out.
    pub(super) fn is_out_of(&self, key: &OfferingKey) -> bool {
        let is = |wanted: &Option<String>, value: &String| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        self.unavailable.iter().any(|gone| {
            is(&gone.instance_type, &key.instance_type)
                && is(&gone.zone, &key.zone)
                && is(&gone.capacity_type, &key.capacity_type)
        })
    }

    /// Adds the offerings of the reservations, of which `used` machines run already, by id.
    pub(super) fn offer(&self, kind: &mut InstanceType, used: &BTreeMap<String, u32>) {
        for reserved in self.reservations.iter().filter(|r| r.instance_type == kind.name) {
            let is_listed =
                |o: &&Offering| o.zone == reserved.zone && o.capacity_type == "on-demand";
            let listed = kind.offerings.iter().find(is_listed).map_or(0.0, |listed| listed.price);
            let used = used.get(&reserved.id).copied().unwrap_or(0);
            kind.offerings.push(Offering {
                zone: reserved.zone.clone(),
                capacity_type: "reserved".to_owned(),
                price: listed * RESERVED_PART,
                available: reserved.count > used,
                reservation: Some(Reservation {
                    id: reserved.id.clone(),
                    available: reserved.count.saturating_sub(used),
                }),
            });
        }
    }
}

/// What orders have found to have run out, and until when that is believed.
#[derive(Debug, Default)]
pub(super) struct Learned(BTreeMap<OfferingKey, Timestamp>);

impl Learned {
    pub(super) fn learn(&mut self, key: OfferingKey, now: Timestamp) {
        self.0.insert(key, now.checked_add(MEMORY).unwrap_or(Timestamp::MAX));
    }

    /// Forgets what is no longer believed; whether there was any.
    pub(super) fn forget(&mut self, now: Timestamp) -> bool {
        let before = self.0.len();
        self.0.retain(|_, until| *until > now);
        self.0.len() < before
    }

    pub(super) fn knows(&self, key: &OfferingKey) -> bool {
        self.0.contains_key(key)
    }

    /// When the first of them will be forgotten.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.values().min().copied()
    }
}
