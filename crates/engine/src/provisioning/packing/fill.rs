//! Strategies that fill one machine after the other.

use super::machine::Candidate;
use super::order::Order;
use super::{Bin, Bound, Packer, Packing, Target, exact};
use crate::limits::Headroom;

/// How many steps (a demand tried on a machine) one strategy may take.
const BUDGET: usize = 300_000;
/// How many targets with an order are tried for each next machine.
const CHOICES: usize = 96;
/// How many steps finding the best choices may take, about.
const RANKING: usize = 400_000;
/// How many targets are tried at least.
const LEAST: usize = 48;
/// How many sizes are tried by themselves.
const SIZES: usize = 24;

impl Packer<'_, '_, '_> {
    /// The best of the filling strategies: the machine that gets most for its money each time, and
    /// only machines of one size, for each size.
    pub(super) fn heuristic(&mut self, counts: &[u32]) -> Packing {
        let demands = counts.iter().filter(|count| **count > 0).count().max(1);
        let all = self.with_orders(&self.sample(counts, RANKING / demands));
        let ranked = self.ranked(&all, counts);
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
    pub(super) fn choices(&self) -> Vec<(Target, usize)> {
        self.with_orders(&self.targets)
    }

    fn with_orders(&self, targets: &[Target]) -> Vec<(Target, usize)> {
        let orders = 0..self.orders.len();
        targets.iter().flat_map(|t| orders.clone().map(|order| (*t, order))).collect()
    }

    /// Targets of which about `fillings` machines can be tried, with all orders: those that carry
    /// most of the average pod for their money, and as many spread over all.
    fn sample(&self, counts: &[u32], fillings: usize) -> Vec<Target> {
        let wanted = (fillings / self.orders.len().max(1)).max(LEAST);
        if self.targets.len() <= wanted {
            return self.targets.clone();
        }
        let mut total = vec![0.0; self.demands.first().map_or(0, |demand| demand.request.len())];
        for (demand, count) in self.demands.iter().zip(counts) {
            let asked = total.iter_mut().zip(&demand.request);
            asked.for_each(|(total, request)| *total += *request as f64 * f64::from(*count));
        }
        let cost = |target: &Target| -> f64 {
            let room = &self.domains.stores[target.store].shapes[target.shape].room;
            let shares = total.iter().zip(room).map(|(total, room)| total / (*room).max(1) as f64);
            let price = self.domains.item_of(target.store, target.shape);
            price.map_or(f64::INFINITY, |item| item.price.usd()) * shares.fold(0.0, f64::max)
        };
        let mut by_cost: Vec<(f64, Target)> = self.targets.iter().map(|t| (cost(t), *t)).collect();
        by_cost.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let cheap = by_cost.iter().take(wanted / 2).map(|(_, target)| *target);
        let stride = self.targets.len().div_ceil(wanted.div_ceil(2));
        let mut sample: Vec<Target> =
            cheap.chain(self.targets.iter().step_by(stride).copied()).collect();
        sample.sort_unstable();
        sample.dedup();
        sample
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
                let all = self.choices();
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
        best.map(|candidate| candidate.into_bin(left.len()))
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
