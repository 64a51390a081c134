//! minValues: how many different values of a label a claim must leave possible.

use std::collections::BTreeSet;

use aerostat_api::nodepool::NodeSelectorRequirement;

use super::domain::{Domain, covers};
use super::market::{Offer, Scope, Store};
use super::narrowing::Offers;

impl<'a> Store<'a> {
    /// The labels with minValues, and how many values each must have: none where they are relaxed.
    pub(crate) fn min_values(&self) -> impl Iterator<Item = (&str, usize)> {
        let holds = self.scope != Scope::Relaxed;
        self.wanted_values().filter(move |_| holds)
    }

    /// The labels with minValues, and how many values each should have.
    fn wanted_values(&self) -> impl Iterator<Item = (&str, usize)> {
        self.template.iter().filter_map(|requirement| {
            let least = usize::try_from(requirement.min_values?).ok()?;
            Some((requirement.key(), least))
        })
    }

    /// Whether all the pool's offers together have as many values as minValues asks.
    pub(crate) fn is_flexible_at_all(&self) -> bool {
        self.min_values().all(|(key, least)| {
            let values: BTreeSet<&str> =
                self.offers.iter().filter_map(|offer| self.label(offer, key)).collect();
            values.len() >= least
        })
    }

    /// Whether the offers of a domain that hold `load` have as many values as minValues asks.
    pub(crate) fn is_flexible(&self, domain: &Domain, load: &[i64]) -> bool {
        self.min_values().all(|(key, least)| {
            let offers = domain.offers.iter().map(|at| &self.offers[at]);
            let holding = offers.filter(|offer| covers(&self.shapes[offer.shape].room, load));
            let values: BTreeSet<&str> =
                holding.filter_map(|offer| self.label(offer, key)).collect();
            values.len() >= least
        })
    }

    /// Whether types have as many values as minValues asks.
    pub(crate) fn has_min_values(&self, types: &[Offers<'_, 'a>]) -> bool {
        self.min_values().all(|(key, least)| {
            let offers = types.iter().flat_map(|offers| offers.iter());
            let values: BTreeSet<&str> =
                offers.filter_map(|offer| self.label(offer, key)).collect();
            values.len() >= least
        })
    }

    /// Lowers the minValues of a claim's requirements to what `offers` have; whether that changed
    /// any.
    pub(crate) fn relax(
        &self,
        requirements: &mut [NodeSelectorRequirement],
        offers: &[&Offer<'a>],
    ) -> bool {
        let mut relaxed = false;
        for requirement in requirements {
            let Some(wanted) = requirement.min_values else { continue };
            let values: BTreeSet<&str> =
                offers.iter().filter_map(|offer| self.label(offer, &requirement.key)).collect();
            let values = i64::try_from(values.len()).unwrap_or(i64::MAX);
            requirement.min_values = Some(wanted.min(values));
            relaxed |= values < wanted;
        }
        relaxed
    }

    /// Chooses at most `most` of the types, given cheapest first with their offers, so that what
    /// minValues asks stays possible if it was. Returns their positions in order.
    pub(crate) fn choose(&self, types: &[Offers<'_, 'a>], most: usize) -> Vec<usize> {
        let mut chosen = BTreeSet::new();
        for (key, least) in self.wanted_values() {
            let mut values = BTreeSet::new();
            for (position, offers) in types.iter().enumerate() {
                let before = values.len();
                values.extend(offers.iter().filter_map(|offer| self.label(offer, key)));
                if before < least && values.len() > before {
                    chosen.insert(position);
                }
            }
        }
        for position in 0..types.len() {
            if chosen.len() >= most {
                break;
            }
            chosen.insert(position);
        }
        chosen.into_iter().collect()
    }
}
