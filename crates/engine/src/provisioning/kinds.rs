//! The types that a machine of a domain may be, in the order in which they are tried.

use std::collections::BTreeMap;

use super::bits::Bits;
use super::domain::Domain;
use super::market::{Offer, Store};
use super::narrowing::{Offers, Types};
use crate::cost::Price;

/// A type with offers that a domain allows.
pub(crate) struct Kind<'o, 'a> {
    /// Its offers, cheapest first.
    pub(crate) offers: Offers<'o, 'a>,
    /// Their shape, if they have the same and none is barred.
    pub(crate) shape: Option<usize>,
    /// Offers that the requirements allow but the domain does not: host ports of daemons.
    pub(crate) barred: Vec<&'o Offer<'a>>,
}

/// The types of a domain, cheapest first.
pub(crate) fn kinds<'o, 'a>(store: &'o Store<'a>, domain: &Domain) -> Vec<Kind<'o, 'a>> {
    let mut by_kind: BTreeMap<usize, (Vec<&Offer<'_>>, Vec<&Offer<'_>>)> = BTreeMap::new();
    for at in Bits::iter(&store.matching(&domain.requirements)) {
        let offer = &store.offers[at];
        let (open, barred) = by_kind.entry(offer.kind).or_default();
        if domain.offers.contains(at) { open.push(offer) } else { barred.push(offer) }
    }
    let mut kinds: Vec<Kind<'_, '_>> = Vec::new();
    for (mut open, barred) in by_kind.into_values() {
        open.sort_by(|a, b| rank(a).cmp(&rank(b)));
        let Some(first) = open.first().map(|offer| offer.shape) else { continue };
        let is_uniform = barred.is_empty() && open.iter().all(|offer| offer.shape == first);
        kinds.push(Kind { offers: open.into(), shape: is_uniform.then_some(first), barred });
    }
    kinds.sort_by_key(|kind| key(&kind.offers, store));
    kinds
}

/// Puts the cheapest types first.
pub(crate) fn sort(types: &mut Types<'_, '_>, store: &Store<'_>) {
    types.sort_by_key(|offers| key(offers, store));
}

fn key<'a>(offers: &Offers<'_, 'a>, store: &Store<'a>) -> (Price, &'a String) {
    (offers[0].price, &store.pool.types[offers[0].kind].name)
}

/// Offers of one type are alike but for this.
pub(crate) fn rank<'o>(offer: &'o Offer<'_>) -> (Price, &'o str, &'o str) {
    (offer.price, offer.zone, offer.capacity_type)
}
