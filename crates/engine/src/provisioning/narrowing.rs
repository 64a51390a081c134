//! A claim lists types, zones and capacity types, each by itself, and may become any combination
//! of them. It must hold its pods whatever it becomes; daemons that run in some zones only, or
//! with one capacity type, make a type too small just there.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::market::Offer;

/// Offers of one type.
pub(crate) type Offers<'o, 'a> = Rc<[&'o Offer<'a>]>;

/// Types with offers.
pub(crate) type Types<'o, 'a> = Vec<Offers<'o, 'a>>;

/// Keeps a claim to zones, capacity types and types of which every combination holds the pods,
/// with `first` among them. `types` are the offers that hold them, `short` those of the same types
/// that do not. Of the ways to do so it takes the one with the most offers that `suits`.
pub(crate) fn narrow<'o, 'a>(
    types: &Types<'o, 'a>,
    short: &[&Offer<'a>],
    first: &Offer<'a>,
    suits: impl Fn(&Types<'o, 'a>) -> bool,
) -> Types<'o, 'a> {
    let is_here =
        |offer: &Offer<'_>| offer.zone == first.zone && offer.capacity_type == first.capacity_type;
    let short_here: BTreeSet<usize> =
        short.iter().filter(|offer| is_here(offer)).map(|offer| offer.kind).collect();
    // Zones are given up so that the first type fits everywhere, or so that all others do too.
    let for_first = short.iter().filter(|offer| offer.kind == first.kind);
    let for_all = short.iter().filter(|offer| !short_here.contains(&offer.kind));
    let ways = [for_first.copied().collect::<Vec<_>>(), for_all.copied().collect()];
    let kept = ways.iter().map(|bad| keep(types, short, &Area::around(first, types, bad)));
    let size = |types: &Types<'_, '_>| types.iter().map(|offers| offers.len()).sum::<usize>();
    // Of equals the first: `max_by_key` would take the last.
    let best = kept.reduce(|best, next| {
        let is_better = (suits(&next), size(&next)) > (suits(&best), size(&best));
        if is_better { next } else { best }
    });
    best.unwrap_or_default()
}

/// Zones and capacity types.
struct Area<'a> {
    zones: BTreeSet<&'a str>,
    capacity_types: BTreeSet<&'a str>,
}

impl<'a> Area<'a> {
    /// As much as there is around an offer without the bad ones: zones first.
    fn around(first: &Offer<'a>, types: &Types<'_, 'a>, bad: &[&Offer<'a>]) -> Self {
        let all = || types.iter().flat_map(|offers| offers.iter());
        let mut area =
            Self { zones: [first.zone].into(), capacity_types: [first.capacity_type].into() };
        for zone in all().map(|offer| offer.zone) {
            if !bad.iter().any(|o| o.zone == zone && area.capacity_types.contains(o.capacity_type))
            {
                area.zones.insert(zone);
            }
        }
        for capacity_type in all().map(|offer| offer.capacity_type) {
            if !bad.iter().any(|o| o.capacity_type == capacity_type && area.zones.contains(o.zone))
            {
                area.capacity_types.insert(capacity_type);
            }
        }
        area
    }

    fn has(&self, offer: &Offer<'_>) -> bool {
        self.zones.contains(offer.zone) && self.capacity_types.contains(offer.capacity_type)
    }
}

/// The offers within an area, without types that are too small somewhere in it.
fn keep<'o, 'a>(types: &Types<'o, 'a>, short: &[&Offer<'a>], area: &Area<'a>) -> Types<'o, 'a> {
    let is_short: BTreeSet<usize> =
        short.iter().filter(|offer| area.has(offer)).map(|offer| offer.kind).collect();
    let within = |offers: &Offers<'o, 'a>| -> Offers<'o, 'a> {
        offers.iter().copied().filter(|o| area.has(o) && !is_short.contains(&o.kind)).collect()
    };
    types.iter().map(within).filter(|offers| !offers.is_empty()).collect()
}
