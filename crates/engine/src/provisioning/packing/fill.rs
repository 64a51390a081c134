//! Strategies that fill one machine after the other.

use super::order::Order;
use super::{Bin, Bound, Packer, Packing, Target, exact};
use crate::limits::Headroom;
use crate::provisioning::tally::Tally;

/// How many steps (a demand tried on a machine) one strategy may take.
const BUDGET: usize = 300_000;
/// How many targets with an order are tried for each next machine.
const CHOICES: usize = 96;
/// After how many demands in vain it is looked whether any is left that fits.
const STRIDE: usize = 16;
/// How many sizes are tried by themselves.
const SIZES: usize = 24;

/// A machine that could come next, with what its pods are worth.
struct Candidate {
    bin: Bin,
    worth: u64,
}

impl Candidate {
    /// Whether it gets more for its money; among equals the one that carries more.
    fn is_better(&self, other: &Self) -> bool {
        let rate = |a: &Self, b: &Self| u128::from(a.bin.item.price.nano()) * u128::from(b.worth);
        let (mine, theirs) = (rate(self, other), rate(other, self));
        mine < theirs || mine == theirs && self.worth > other.worth
    }
}

impl Packer<'_, '_, '_> {
    /// The best of the filling strategies: the machine that gets most for its money each time, and
    /// only machines of one size, for each size.
    pub(super) fn heuristic(&mut self, counts: &[u32]) -> Packing {
        let all = self.choices(None);
        let ranked = self.ranked(&all, counts);
        let demands = counts.iter().filter(|count| **count > 0).count().max(1);
        // A strategy ends after about two machines of its own kind for each demand.
        let affordable = (BUDGET / (2 * demands * demands)).clamp(4, CHOICES);
        let mut best = None;
        let few = &ranked[..ranked.len().min(affordable)];
        Packing::keep_better(&mut best, self.greedy(few, counts));
        let mut sizes: Vec<Target> = Vec::new();
        for (target, _) in &ranked {
            if !sizes.contains(target) {
                sizes.push(*target);
            }
        }
        sizes.truncate(affordable.div_ceil(self.orders.len()).min(SIZES));
        for size in sizes {
            for order in 0..self.orders.len() {
                Packing::keep_better(&mut best, self.greedy(&[(size, order)], counts));
            }
        }
        best.unwrap_or_default()
    }

    /// Each target with each order.
    pub(super) fn choices(&self, order: Option<usize>) -> Vec<(Target, usize)> {
        let orders = match order {
            Some(order) => order..order + 1,
            None => 0..self.orders.len(),
        };
        self.targets.iter().flat_map(|t| orders.clone().map(|order| (*t, order))).collect()
    }

    /// The choices by what a first machine gets for its money.
    fn ranked(&mut self, choices: &[(Target, usize)], counts: &[u32]) -> Vec<(Target, usize)> {
        let mut ranked: Vec<((Target, usize), Candidate)> = Vec::new();
        let orders = self.live(counts);
        for (target, order) in choices {
            if let Some(candidate) = self.fill(*target, &orders[*order], counts, &[]) {
                ranked.push(((*target, *order), candidate));
            }
        }
        ranked.sort_by(|(_, a), (_, b)| match (a.is_better(b), b.is_better(a)) {
            (true, _) => std::cmp::Ordering::Less,
            (_, true) => std::cmp::Ordering::Greater,
            _ => std::cmp::Ordering::Equal,
        });
        ranked.into_iter().map(|(choice, _)| choice).collect()
    }

    /// Takes the best of the choices each time, as often as the pods suffice.
    fn greedy(&mut self, choices: &[(Target, usize)], counts: &[u32]) -> Packing {
        let mut left = counts.to_vec();
        let mut bins = Vec::new();
        let alive = |left: &[u32]| left.iter().filter(|count| **count > 0).count();
        let (mut orders, mut ordered) = (self.live(&left), alive(&left));
        loop {
            if let Some(rest) = self.solve(&left, exact::SMALL) {
                bins.extend(rest);
                left.fill(0);
                break;
            }
            let live = alive(&left);
            if live < ordered - ordered / 4 {
                (orders, ordered) = (self.live(&left), live);
            }
            let next = self.next(choices, &orders, &left, &[]);
            let next = next.or_else(|| {
                let all = self.choices(None);
                self.next(&all, &orders, &left, &[])
            });
            let Some(mut bin) = next else { break };
            bin.copies = repeats(&bin, &left);
            subtract(&mut left, &bin);
            bins.push(bin);
        }
        Packing { bins, left, bound: Bound::default() }
    }

    /// The machine that gets most for its money, if one is to be had.
    pub(super) fn next(
        &mut self,
        choices: &[(Target, usize)],
        orders: &[Order],
        left: &[u32],
        limits: &[Headroom],
    ) -> Option<Bin> {
        let mut best: Option<Candidate> = None;
        for (target, order) in choices {
            let candidate = self.fill(*target, &orders[*order], left, limits);
            let Some(candidate) = candidate else { continue };
            if best.as_ref().is_none_or(|best| candidate.is_better(best)) {
                best = Some(candidate);
            }
        }
        best.map(|candidate| candidate.bin)
    }

    /// Fills one machine of the target's shape in the given order; the bin is then of the
    /// cheapest shape that holds its pods.
    fn fill(
        &mut self,
        target: Target,
        order: &Order,
        left: &[u32],
        limits: &[Headroom],
    ) -> Option<Candidate> {
        let demands = self.demands;
        let stores = self.domains.stores;
        let room = &stores[target.store].shapes[target.shape].room;
        let mut domain = target.store;
        let mut load = vec![0; room.len()];
        let mut counts = vec![0; left.len()];
        let mut tally = Tally::default();
        // Who needs company may find it only after the others have come.
        let rounds = if self.needy { 2 } else { 1 };
        let mut worth = 0_u64;
        for _ in 0..rounds {
            let mut is_news = true;
            for (position, at) in order.demands.iter().copied().enumerate() {
                if (is_news || position % STRIDE == 0) && order.is_over(position, room, &load) {
                    break;
                }
                is_news = false;
                if left[at] == counts[at] {
                    continue;
                }
                let demand = &demands[at];
                let fit = fits(room, &load, &demand.request).min(left[at] - counts[at]);
                let fit = tally.room(&demand.rule, fit);
                if fit == 0 {
                    continue;
                }
                let joined = self.domains.join(domain, demand.group);
                let has_shape = |id: &&usize| self.domains.get(**id).shapes.contains(target.shape);
                let Some(next) = joined.iter().find(has_shape).copied() else { continue };
                let fit = if self.domains.group(demand.group).is_exclusive() { 1 } else { fit };
                let fit = self.flexible(next, &load, &demand.request, fit);
                if fit == 0 {
                    continue;
                }
                domain = next;
                add(&mut load, &demand.request, fit);
                tally.join(&demand.rule, fit);
                counts[at] += fit;
                is_news = true;
                worth = worth.saturating_add(u64::from(fit).saturating_mul(self.worth[at]));
            }
        }
        if counts.iter().all(|count| *count == 0) {
            return None;
        }
        let item = self.domains.cheapest(domain, &load, limits)?;
        Some(Candidate { bin: Bin { domain, item, load, counts, copies: 1 }, worth })
    }

    /// How many of `fit` pods can join until minValues is not met any more.
    pub(super) fn flexible(&self, id: usize, load: &[i64], request: &[i64], fit: u32) -> u32 {
        let store = self.domains.store(id);
        if store.min_values().next().is_none() {
            return fit;
        }
        let holds = |count: u32| {
            let mut load = load.to_vec();
            add(&mut load, request, count);
            store.is_flexible(self.domains.get(id), &load)
        };
        let (mut most, mut beyond) = (0, fit.saturating_add(1));
        while most + 1 < beyond {
            let middle = most + (beyond - most) / 2;
            if holds(middle) { most = middle } else { beyond = middle }
        }
        most
    }
}

/// How many pods that ask for `request` fit in `room` beside `load`.
pub(super) fn fits(room: &[i64], load: &[i64], request: &[i64]) -> u32 {
    let asked = room.iter().zip(load).zip(request).filter(|(_, request)| **request > 0);
    let most =
        asked.map(|((room, load), request)| room.saturating_sub(*load).max(0) / request).min();
    most.map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX))
}

/// Adds `count` times `request` to `load`.
pub(super) fn add(load: &mut [i64], request: &[i64], count: u32) {
    for (load, request) in load.iter_mut().zip(request) {
        *load = load.saturating_add(request.saturating_mul(i64::from(count)));
    }
}

/// How many machines like `bin` the pods that are left fill.
pub(super) fn repeats(bin: &Bin, left: &[u32]) -> u32 {
    let used = bin.counts.iter().zip(left).filter(|(count, _)| **count > 0);
    used.map(|(count, left)| left / count).min().unwrap_or(0)
}

/// Takes the pods of all copies of `bin` from `left`.
pub(super) fn subtract(left: &mut [u32], bin: &Bin) {
    for (left, count) in left.iter_mut().zip(&bin.counts) {
        *left -= count * bin.copies;
    }
}
