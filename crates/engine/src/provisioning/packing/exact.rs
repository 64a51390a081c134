//! Exact solutions for few pods, and for pods that are all alike.

use super::fill::{add, fits};
use super::{Bin, Packer};
use crate::cost::Price;
use crate::provisioning::domain::Item;
use crate::provisioning::tally::Tally;

/// How many pairs of a multiset and a part of it a remainder may have to be solved exactly.
pub(super) const SMALL: u64 = 5_000;
/// The same for a whole plan.
pub(super) const LARGE: u64 = 1_000_000;
/// How many pods of one class are solved exactly; more are packed by the best rate first.
const MOST_ALIKE: u32 = 20_000;

/// Whether pods that can be solved at all are solved to the very least.
pub(super) fn is_exact(counts: &[u32]) -> bool {
    let mut some = counts.iter().filter(|count| **count > 0);
    some.next().is_none_or(|first| some.next().is_some() || *first <= MOST_ALIKE)
}

/// The cheapest machines for any number of pods of one demand.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    /// Kinds of machines worth using.
    options: Vec<Choice>,
    /// For each number of pods: price, machines, and the option of the first machine.
    table: Vec<(Price, u32, usize)>,
}

/// A machine that holds up to `count` pods.
#[derive(Clone, Copy, Debug)]
struct Choice {
    count: u32,
    domain: usize,
    item: Item,
}

impl Packer<'_, '_, '_> {
    /// The cheapest machines for exactly these pods, if that is within `effort` to find out and
    /// each of them can have a machine.
    pub(super) fn solve(&mut self, counts: &[u32], effort: u64) -> Option<Vec<Bin>> {
        if let Some(known) = self.solved.get(counts) {
            return Some(known.clone());
        }
        let some: Vec<usize> = (0..counts.len()).filter(|at| counts[*at] > 0).collect();
        match some.as_slice() {
            [] => return Some(Vec::new()),
            [only] => return self.solve_alike(*only, counts[*only]),
            _ => {}
        }
        let pairs = some.iter().try_fold(1_u64, |pairs, at| {
            let n = u64::from(counts[*at]) + 1;
            pairs.checked_mul(n.checked_mul(n + 1)? / 2)
        });
        if pairs.is_none_or(|pairs| pairs > effort) {
            return None;
        }
        let bins = self.solve_mixed(&some, counts)?;
        self.solved.insert(counts.to_vec(), bins.clone());
        Some(bins)
    }

    fn solve_alike(&mut self, at: usize, count: u32) -> Option<Vec<Bin>> {
        if self.alone[at].is_none() {
            self.alone[at] = Some(self.table_of(at));
        }
        let table = self.alone[at].as_ref()?;
        let mut left = count;
        let mut bins: Vec<Bin> = Vec::new();
        let mut push = |choice: &Choice, count: u32, copies: u32| {
            let mut load = vec![0; self.demands[at].request.len()];
            add(&mut load, &self.demands[at].request, count);
            let mut counts = vec![0; self.demands.len()];
            counts[at] = count;
            let (domain, item) = (choice.domain, choice.item);
            match bins.last_mut() {
                Some(last) if last.counts == counts && last.item == item => last.copies += copies,
                _ => bins.push(Bin { domain, item, load, counts, copies }),
            }
        };
        let known = u32::try_from(table.table.len()).unwrap_or(u32::MAX) - 1;
        if left > known {
            let rate = |c: &&Choice| c.item.price.nano() / u64::from(c.count);
            let best = table.options.iter().min_by_key(rate)?;
            let copies = (left - known).div_ceil(best.count);
            let copies = copies.min(left / best.count);
            push(best, best.count, copies);
            left -= copies * best.count;
        }
        while left > 0 {
            let (_, _, option) = table.table.get(left as usize)?;
            let choice = table.options.get(*option)?;
            let count = choice.count.min(left);
            push(choice, count, 1);
            left -= count;
        }
        Some(bins)
    }

    fn table_of(&mut self, at: usize) -> Alone {
        let demand = &self.demands[at];
        let mut options: Vec<Choice> = Vec::new();
        let exclusive = self.domains.group(demand.group).is_exclusive();
        for domain in self.first_domains(demand.group) {
            let nothing = vec![0; demand.request.len()];
            for item in self.domains.menu(domain) {
                let room = &self.domains.store(domain).shapes[item.shape].room;
                let fit = fits(room, &nothing, &demand.request).min(demand.count);
                let fit = if exclusive { fit.min(1) } else { fit };
                let fit = Tally::default().room(&demand.rule, fit);
                let count = self.flexible(domain, &nothing, &demand.request, fit);
                let beaten = |o: &Choice| o.count >= count && o.item.price <= item.price;
                if count > 0 && !options.iter().any(beaten) {
                    options.push(Choice { count, domain, item: *item });
                }
            }
        }
        let most = if options.is_empty() { 0 } else { demand.count.min(MOST_ALIKE) };
        let mut table = vec![(Price::default(), 0, 0)];
        for n in 1..=most {
            let of = |(index, option): (usize, &Choice)| {
                let (price, machines, _) = table[n.saturating_sub(option.count) as usize];
                (price + option.item.price, machines + 1, index)
            };
            table.extend(options.iter().enumerate().map(of).min());
        }
        Alone { options, table }
    }

    /// Dynamic programming over all multisets of the pods: the machine that carries the first
    /// class's next pod carries some part of the multiset, the rest is solved already.
    fn solve_mixed(&mut self, some: &[usize], counts: &[u32]) -> Option<Vec<Bin>> {
        let space = Space::new(some.iter().map(|at| counts[*at]).collect());
        let machines = self.machines(some, &space);
        let mut best: Vec<Option<(Price, u32, usize)>> = vec![None; space.len];
        best[0] = Some((Price::default(), 0, 0));
        for state in 1..space.len {
            let first = space.first(state);
            space.for_each_part(state, |part| {
                if space.digit(part, first) == 0 {
                    return;
                }
                let (Some((_, item)), Some((price, count, _))) =
                    (machines[part], best[state - part])
                else {
                    return;
                };
                let with = (price + item.price, count + 1, part);
                if best[state].is_none_or(|best| (with.0, with.1) < (best.0, best.1)) {
                    best[state] = Some(with);
                }
            });
        }
        let mut bins: Vec<Bin> = Vec::new();
        let mut state = space.len - 1;
        while state > 0 {
            let (_, _, part) = best[state]?;
            let (domain, item) = machines[part]?;
            let mut counts = vec![0; self.demands.len()];
            let mut load = vec![0; self.demands[0].request.len()];
            for (digit, at) in some.iter().enumerate() {
                counts[*at] = space.digit(part, digit);
                add(&mut load, &self.demands[*at].request, counts[*at]);
            }
            match bins.iter_mut().find(|bin| bin.counts == counts) {
                Some(bin) => bin.copies += 1,
                None => bins.push(Bin { domain, item, load, counts, copies: 1 }),
            }
            state -= part;
        }
        Some(bins)
    }

    /// The cheapest machine for each multiset, where one holds it.
    fn machines(&mut self, some: &[usize], space: &Space) -> Vec<Option<(usize, Item)>> {
        // What a machine with each multiset may be; empty if nothing.
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); space.len];
        open[0] = (0..self.domains.stores.len()).collect();
        let mut machines = vec![None; space.len];
        for state in 1..space.len {
            let last = space.last(state);
            let demand = &self.demands[some[last]];
            let before = std::mem::take(&mut open[state - space.strides[last]]);
            let mut domains: Vec<usize> = Vec::new();
            for id in &before {
                for joined in self.domains.join(*id, demand.group).iter() {
                    if !domains.contains(joined) {
                        domains.push(*joined);
                    }
                }
            }
            open[state - space.strides[last]] = before;
            let mut load = vec![0; demand.request.len()];
            for (digit, at) in some.iter().enumerate() {
                add(&mut load, &self.demands[*at].request, space.digit(state, digit));
            }
            let priced = domains
                .iter()
                .filter_map(|id| Some((*id, self.domains.cheapest(*id, &load, &[])?)));
            let cheapest = priced.min_by_key(|(_, item)| item.price);
            // A machine that holds nothing more needs no domains: none of its supersets fits.
            if cheapest.is_some() {
                open[state] = domains;
            }
            let pods = some.iter().enumerate();
            let pods = pods.map(|(digit, at)| (&self.demands[*at].rule, space.digit(state, digit)));
            machines[state] = cheapest.filter(|_| Tally::holds(pods));
        }
        machines
    }
}

/// Multisets as numbers in a mixed radix.
struct Space {
    counts: Vec<u32>,
    strides: Vec<usize>,
    len: usize,
}

impl Space {
    fn new(counts: Vec<u32>) -> Self {
        let mut strides = Vec::new();
        let mut len = 1;
        for count in &counts {
            strides.push(len);
            len *= *count as usize + 1;
        }
        Self { counts, strides, len }
    }

    fn digit(&self, state: usize, at: usize) -> u32 {
        let digit = state / self.strides[at] % (self.counts[at] as usize + 1);
        u32::try_from(digit).unwrap_or(u32::MAX)
    }

    /// The first class that the multiset has; the multiset is not empty.
    fn first(&self, state: usize) -> usize {
        (0..self.counts.len()).find(|at| self.digit(state, *at) > 0).unwrap_or(0)
    }

    /// The last class that the multiset has; the multiset is not empty.
    fn last(&self, state: usize) -> usize {
        (0..self.counts.len()).rev().find(|at| self.digit(state, *at) > 0).unwrap_or(0)
    }

    /// Calls `f` with each part of `state`, larger ones first.
    fn for_each_part(&self, state: usize, mut f: impl FnMut(usize)) {
        let most: Vec<u32> = (0..self.counts.len()).map(|at| self.digit(state, at)).collect();
        let mut part = most.clone();
        let mut number = state;
        loop {
            f(number);
            let Some(at) = (0..part.len()).find(|at| part[*at] > 0) else { return };
            part[at] -= 1;
            number -= self.strides[at];
            for lower in 0..at {
                part[lower] = most[lower];
                number += self.strides[lower] * most[lower] as usize;
            }
        }
    }
}
