//! NodeOverlays: prices and resources that the provider does not know of.
//!
//! Overlays are taken by weight, the highest first, those of equal weight from the last name to
//! the first. The first one that says something of an offering's price, or of one resource of a
//! type, holds. An overlay that speaks of the same as another one of equal weight is in conflict
//! and has no effect at all, in no pool.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeoverlay/`, `designs/node-overlay.md`.

mod price;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::{NodeOverlay, Requirements, labels};

pub use price::Adjustment;

use crate::instance::{InstanceType, Offering};
use crate::resources::Resources;

/// A NodeOverlay, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// Its name.
    pub name: String,
    /// Its weight; 0 unless set.
    pub weight: i32,
    /// Which offerings it is about.
    pub requirements: Requirements,
    /// What it says of their price.
    pub price: Option<Adjustment>,
    /// What their machines have besides.
    pub capacity: Resources,
}

/// A pool as overlays see it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Labels that all its nodes have: its template's, and its name.
    pub labels: BTreeMap<String, String>,
    /// What the provider sells to it.
    pub types: Arc<Vec<InstanceType>>,
}

impl Overlay {
    /// Reads an overlay.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, and says what would be right there.
    pub fn from_k8s(overlay: &NodeOverlay) -> Result<Self, String> {
        let spec = &overlay.spec;
        let capacity = spec.capacity.clone().unwrap_or_default();
        for (name, quantity) in &capacity {
            if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "pods") {
                return Err(format!("spec.capacity: {name} cannot be changed by an overlay"));
            }
            if quantity.units() < 0 {
                return Err(format!(
                    "spec.capacity[{name}] is {quantity}: it must not be negative"
                ));
            }
        }
        let requirements = Requirements::from_pool(&spec.requirements);
        Ok(Self {
            name: overlay.metadata.name.clone().unwrap_or_default(),
            weight: spec.weight.unwrap_or(0),
            requirements: requirements.map_err(|error| format!("spec.{error}"))?,
            price: Adjustment::of(spec.price.as_deref(), spec.price_adjustment.as_deref())?,
            capacity: Resources::from_quantities(&capacity),
        })
    }

    /// Whether a node of this offering would have the labels that it asks for; labels that such a
    /// node would not have are absent.
    fn is_about(&self, target: &Target, kind: &InstanceType, offering: &Offering) -> bool {
        self.requirements.iter().all(|requirement| {
            let key = requirement.key();
            let reservation = || offering.reservation.as_ref().map(|r| r.id.as_str());
            let value = match key {
                labels::ZONE => Some(offering.zone.as_str()),
                labels::CAPACITY_TYPE => Some(offering.capacity_type.as_str()),
                labels::RESERVATION_ID => reservation(),
                labels::INSTANCE_TYPE => Some(kind.name.as_str()),
                _ => kind.labels.get(key).or_else(|| target.labels.get(key)).map(String::as_str),
            };
            value.map_or(requirement.allows_absence(), |value| requirement.has(value))
        })
    }
}

/// What has been said of a pool's types so far: by which weight.
#[derive(Clone, Debug, Default)]
struct Said {
    /// By type and offering.
    prices: BTreeMap<(usize, usize), i32>,
    /// By type and resource.
    resources: BTreeMap<(usize, String), i32>,
}

/// Applies overlays to what each pool may launch. Returns the types of each pool in order, and the
/// names of the overlays that are in conflict with another one and had no effect.
#[must_use]
pub fn apply(
    overlays: &[Overlay],
    targets: &[Target],
) -> (Vec<Arc<Vec<InstanceType>>>, BTreeSet<String>) {
    let mut types: Vec<Arc<Vec<InstanceType>>> =
        targets.iter().map(|target| Arc::clone(&target.types)).collect();
    let mut said = vec![Said::default(); targets.len()];
    let mut conflicts = BTreeSet::new();
    let mut order: Vec<&Overlay> = overlays.iter().collect();
    order.sort_by_key(|overlay| (Reverse(overlay.weight), Reverse(&overlay.name)));
    for overlay in order {
        let hits: Vec<Hits> = targets.iter().map(|target| hits(overlay, target)).collect();
        let clashes = |(said, hits): (&Said, &Hits)| said.clashes(overlay, hits);
        if said.iter().zip(&hits).any(clashes) {
            conflicts.insert(overlay.name.clone());
            continue;
        }
        for ((types, said), hits) in types.iter_mut().zip(&mut said).zip(&hits) {
            if !hits.is_empty() {
                let types: &mut Vec<InstanceType> = Arc::make_mut(types);
                said.change(types, overlay, hits);
            }
        }
    }
    (types, conflicts)
}

/// The offerings that an overlay is about, by type: positions.
type Hits = Vec<(usize, Vec<usize>)>;

fn hits(overlay: &Overlay, target: &Target) -> Hits {
    let of = |(at, kind): (usize, &InstanceType)| {
        let offerings = kind.offerings.iter().enumerate();
        let about = offerings.filter(|(_, offering)| overlay.is_about(target, kind, offering));
        let about: Vec<usize> = about.map(|(at, _)| at).collect();
        (!about.is_empty()).then_some((at, about))
    };
    target.types.iter().enumerate().filter_map(of).collect()
}

impl Said {
    /// Whether an overlay of equal weight has spoken of the same.
    fn clashes(&self, overlay: &Overlay, hits: &Hits) -> bool {
        hits.iter().any(|(kind, offerings)| {
            let price = overlay.price.is_some()
                && offerings.iter().any(|at| {
                    self.prices.get(&(*kind, *at)).is_some_and(|weight| *weight == overlay.weight)
                });
            price
                || overlay.capacity.other.keys().any(|name| {
                    let said = self.resources.get(&(*kind, name.clone()));
                    said.is_some_and(|weight| *weight == overlay.weight)
                })
        })
    }

    fn change(&mut self, types: &mut [InstanceType], overlay: &Overlay, hits: &Hits) {
        for (at, offerings) in hits {
            let kind = &mut types[*at];
            for offering in offerings {
                let Some(price) = overlay.price else { break };
                self.prices.entry((*at, *offering)).or_insert_with(|| {
                    let offering = &mut kind.offerings[*offering];
                    offering.price = price.apply(offering.price);
                    overlay.weight
                });
            }
            for (name, amount) in &overlay.capacity.other {
                self.resources.entry((*at, name.clone())).or_insert_with(|| {
                    let before = kind.allocatable.get(name);
                    kind.capacity.other.insert(name.clone(), *amount);
                    kind.allocatable.other.insert(name.clone(), *amount);
                    if name.starts_with("hugepages-") {
                        // Set aside from memory.
                        let memory = kind.allocatable.memory.saturating_sub(amount - before);
                        kind.allocatable.memory = memory.max(0);
                    }
                    overlay.weight
                });
            }
        }
    }
}
