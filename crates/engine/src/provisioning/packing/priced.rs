//! Filling by what pods are worth: the machine whose pods are worth most for its price comes first.

use super::fill::{add, repeats, subtract};
use super::market::Market;
use super::{Bin, Bound, Packer, Packing, exact};
use crate::bound::{Depth, Item, SIZES, Size, fits, fraction, whole};
use crate::provisioning::tally::Tally;

/// How far one machine is searched.
const SEARCH: Depth = Depth { large: 0.2, steps: 12 };
/// How many machines are looked at for each next one, until it must be all.
const PROMISING: usize = 12;

impl Packer<'_, '_, '_> {
    /// Packs `left` onto machines for which `allowed` holds, by what a pod of each class of the
    /// market is worth, in USD per hour.
    pub(super) fn priced(
        &mut self,
        market: &Market,
        worth: &[f64],
        left: &[u32],
        allowed: &dyn Fn(usize) -> bool,
    ) -> Packing {
        let mut left = left.to_vec();
        let mut bins: Vec<Bin> = Vec::new();
        let all: Vec<usize> = (0..market.offered.len()).filter(|at| allowed(*at)).collect();
        let mut promising: Vec<usize> = Vec::new();
        let mut expected = 0.0;
        loop {
            if let Some(rest) = self.solve(&left, exact::SMALL) {
                bins.extend(rest);
                left.fill(0);
                break;
            }
            let mut found = self.ranked_by_worth(market, worth, &left, &promising);
            if found.first().is_none_or(|(rate, _, _)| *rate < expected) {
                found = self.ranked_by_worth(market, worth, &left, &all);
                expected = found.first().map_or(0.0, |(rate, _, _)| rate * 0.997);
                promising = found.iter().take(PROMISING).map(|(_, machine, _)| *machine).collect();
            }
            let Some((_, _, mut bin)) = found.into_iter().next() else { break };
            bin.copies = repeats(&bin, &left);
            subtract(&mut left, &bin);
            bins.push(bin);
        }
        Packing { bins, left, bound: Bound::default() }
    }

    /// A filling for each of the machines, the one that gets most for its price first.
    fn ranked_by_worth(
        &mut self,
        market: &Market,
        worth: &[f64],
        left: &[u32],
        machines: &[usize],
    ) -> Vec<(f64, usize, Bin)> {
        let counts: Vec<u32> = market.demands.iter().map(|at| left[*at]).collect();
        let mut promising: Vec<(f64, usize, Vec<Item>)> = Vec::new();
        for machine in machines {
            let items = market.problem.items(*machine, worth, &counts);
            if !items.is_empty() {
                self.spent += items.len().div_ceil(16) as u64;
                let price = market.problem.machines[*machine].price.max(1e-12);
                promising.push((fraction(&items).worth() / price, *machine, items));
            }
        }
        promising.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut found: Vec<(f64, usize, Bin)> = Vec::new();
        let mut most = 0.0;
        for (loose, machine, items) in promising {
            // Few pods do not fill a large machine, but they may fill what it can be instead.
            if found.len() >= PROMISING && loose <= most {
                break;
            }
            self.spent += items.len().div_ceil(4) as u64;
            let room = &market.problem.machines[machine].room;
            let mut best: Option<(f64, Bin)> = None;
            let searched = whole(items.clone(), room, SEARCH).carries;
            let fillings = [searched, balanced(&items, room, false), balanced(&items, room, true)];
            for carries in fillings.into_iter().filter(|carries| !carries.is_empty()) {
                let total: f64 =
                    carries.iter().map(|(class, n)| worth[*class] * f64::from(*n)).sum();
                let Some(bin) = self.bin(market, machine, &carries) else { continue };
                let rate = total / bin.item.price.usd().max(1e-12);
                if best.as_ref().is_none_or(|(best, _)| rate > *best) {
                    best = Some((rate, bin));
                }
            }
            if let Some((rate, bin)) = best {
                most = rate.max(most);
                found.push((rate, machine, bin));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found
    }

    /// The cheapest machine that carries these pods, if they can share one of this kind.
    pub(super) fn bin(
        &mut self,
        market: &Market,
        machine: usize,
        carries: &[(usize, u32)],
    ) -> Option<Bin> {
        let (domain, item) = market.offered[machine];
        let shape = item.shape;
        let mut domain = self.domains.get(domain).store;
        let mut counts = vec![0; self.demands.len()];
        let mut load = vec![0; self.demands.first()?.request.len()];
        let mut last = None;
        for (class, count) in carries {
            let at = market.demands[*class];
            let demand = &self.demands[at];
            counts[at] = *count;
            add(&mut load, &demand.request, *count);
            if last != Some(demand.group) {
                last = Some(demand.group);
                let joined = self.domains.join(domain, demand.group);
                let has_shape = |id: &&usize| self.domains.get(**id).shapes.contains(shape);
                domain = *joined.iter().find(has_shape)?;
            }
        }
        let pods = counts.iter().enumerate().map(|(at, n)| (&self.demands[at].rule, *n));
        if self.ruled && !Tally::holds(pods) {
            return None;
        }
        let item = self.domains.cheapest(domain, &load, &[])?;
        Some(Bin { domain, item, load, counts, copies: 1 })
    }
}

/// Fills a machine so that its dimensions run out together, larger parts first. `evenly` starts
/// with the mix of all pods that are left.
fn balanced(items: &[Item], room: &[i64; SIZES], evenly: bool) -> Vec<(usize, u32)> {
    let mut counts = vec![0_u32; items.len()];
    let mut rest = *room;
    let take = |counts: &mut [u32], rest: &mut [i64; SIZES], at: usize, count: u32| {
        counts[at] += count;
        for (rest, size) in rest.iter_mut().zip(&items[at].size) {
            *rest -= size * i64::from(count);
        }
    };
    if evenly {
        let mut total = [0.0; SIZES];
        for item in items {
            let shares = total.iter_mut().zip(&item.share);
            shares.for_each(|(total, share)| *total += share * f64::from(item.most));
        }
        let part = 1.0 / total.iter().fold(1.0, |a: f64, b| a.max(*b));
        for (at, item) in items.iter().enumerate() {
            let count = (f64::from(item.most) * part) as u32;
            let count = count.min(fits(&rest, &item.size));
            take(&mut counts, &mut rest, at, count);
        }
    }
    top_up(items, room, &mut rest, &mut counts);
    let some = items.iter().zip(&counts).filter(|(_, count)| **count > 0);
    some.map(|(item, count)| (item.class, *count)).collect()
}

/// Adds pods to what a machine carries already so that its dimensions run out together.
pub(super) fn top_up(items: &[Item], room: &Size, rest: &mut Size, counts: &mut [u32]) {
    loop {
        let weight: [f64; SIZES] = std::array::from_fn(|d| room[d] as f64 / rest[d].max(1) as f64);
        let mut best: Option<(f64, usize)> = None;
        for (at, item) in items.iter().enumerate() {
            if counts[at] >= item.most || !item.fits(rest) {
                continue;
            }
            let taken: f64 =
                item.share.iter().zip(&weight).map(|(share, weight)| share * weight).sum();
            let rate = item.worth / taken.max(1e-12);
            if best.is_none_or(|(most, _)| rate > most) {
                best = Some((rate, at));
            }
        }
        let Some((_, at)) = best else { break };
        let fit = fits(rest, &items[at].size).min(items[at].most - counts[at]);
        let count = fit.div_ceil(6);
        counts[at] += count;
        (0..SIZES).for_each(|d| rest[d] -= items[at].size[d] * i64::from(count));
    }
}
