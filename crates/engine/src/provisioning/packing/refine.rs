//! Making a plan cheaper: patterns of a linear program, then machines that are emptied and whose
//! pods are packed anew.

use super::fill::subtract;
use super::market::Market;
use super::{Bin, Bound, Packer, Packing, exact};
use crate::bound::{Generator, Pattern};

/// Up to how many pairs of a demand and a machine a linear program is solved: with more it would
/// take seconds.
pub(super) const PAIRS: usize = 50_000;
/// Up to how many demands patterns are looked for.
const ROWS: usize = 96;
/// What is this near to the bound is good enough.
const NEAR: f64 = 1e-4;
/// How often in a row nothing may come of emptying machines.
const VAIN: u32 = 60;

impl Packer<'_, '_, '_> {
    /// Makes a packing cheaper within `refine` steps, and says what it costs at least.
    pub(super) fn refined(&mut self, counts: &[u32], known: Packing, refine: u64) -> Packing {
        let market = self.market(counts);
        if market.problem.pairs() > PAIRS {
            return Packing { bound: self.quick_bound(counts), ..known };
        }
        let fluid = market.problem.fluid();
        let mut worth = fluid.worth.clone();
        let mut best = Some(known);
        self.spent = 0;
        let is_small = market.demands.len() <= ROWS;
        let wasteful = market.problem.with_waste().fluid();
        for fluid in [&fluid, &wasteful] {
            let mut left = counts.to_vec();
            let bins = self.mixed(&market, fluid, &mut left);
            let mut packing = self.priced(&market, &worth, &left, &|_| true);
            packing.bins.splice(0..0, bins);
            Packing::keep_better(&mut best, packing);
        }
        if is_small {
            Packing::keep_better(&mut best, self.priced(&market, &worth, counts, &|_| true));
        }
        let mut bound = (fluid.bound, fluid.worth.clone());
        let near = |best: &Option<Packing>, bound: f64| {
            best.as_ref().is_some_and(|best| best.price().usd() <= bound * (1.0 + NEAR))
        };
        if refine > 0 && is_small && !near(&best, fluid.bound) {
            let known = best.iter().flat_map(|packing| &packing.bins);
            let known: Vec<Pattern> = known.filter_map(|bin| pattern(&market, bin)).collect();
            let effort = usize::try_from(refine).unwrap_or(usize::MAX);
            let mut generator = Generator::new(&market.problem, known);
            let patterns = generator.bounded(&fluid, effort);
            if patterns.bound > fluid.bound * (1.0 + 1e-3) {
                // What is worth little still is worth something.
                let both = patterns.worth.iter().zip(&fluid.worth);
                worth = both.map(|(whole, part)| whole.max(part / 4.0)).collect();
            }
            let packing = self.dive(&market, &mut generator, &worth, counts, patterns.patterns);
            Packing::keep_better(&mut best, packing);
            bound = (patterns.bound, patterns.worth);
        }
        self.spent = 0;
        // A step is dearer the more classes there are.
        let refine = if is_small { refine } else { refine / 16 };
        let refine = if near(&best, bound.0) { 0 } else { refine };
        let mut best = self.improved(&market, &worth, best.unwrap_or_default(), refine);
        best.bound = market.bound(bound.0, &bound.1, counts.len());
        best
    }

    /// Buys whole machines of what the fractional plan buys, and looks for patterns for the pods
    /// that are left, until few are.
    fn dive(
        &mut self,
        market: &Market,
        generator: &mut Generator<'_>,
        worth: &[f64],
        counts: &[u32],
        patterns: Vec<Pattern>,
    ) -> Packing {
        let mut left = counts.to_vec();
        let mut bins = Vec::new();
        let mut patterns = patterns;
        loop {
            let before = bins.len();
            for part in [0.0, 0.3, 0.6] {
                // Whole machines first; without any, those of which most of one is bought.
                self.round(market, &patterns, part, &mut left, &mut bins);
                if bins.len() > before {
                    break;
                }
            }
            if bins.len() == before || self.solve(&left, exact::SMALL).is_some() {
                break;
            }
            let open: Vec<u32> = market.demands.iter().map(|at| left[*at]).collect();
            patterns = generator.quick(&open, 4);
        }
        let mut packing = self.priced(market, worth, &left, &|_| true);
        packing.bins.splice(0..0, bins);
        packing
    }

    /// Buys whole numbers of patterns, where `part` of one counts as whole.
    fn round(
        &mut self,
        market: &Market,
        patterns: &[Pattern],
        part: f64,
        left: &mut [u32],
        bins: &mut Vec<Bin>,
    ) {
        for pattern in patterns {
            let copies = (pattern.amount + 1e-6 + part).floor() as u32;
            let fit = pattern.carries.iter().map(|(class, n)| left[market.demands[*class]] / n);
            let copies = copies.min(fit.min().unwrap_or(0));
            if copies == 0 {
                continue;
            }
            let Some(bin) = self.bin(market, pattern.machine, &pattern.carries) else { continue };
            let bin = Bin { copies, ..bin };
            subtract(left, &bin);
            bins.push(bin);
        }
    }

    /// Empties a few machines at a time and packs their pods anew; keeps what is cheaper.
    fn improved(
        &mut self,
        market: &Market,
        worth: &[f64],
        packing: Packing,
        refine: u64,
    ) -> Packing {
        let mut bins = packing.bins.clone();
        let mut value = vec![0.0; self.demands.len()];
        market.demands.iter().zip(worth).for_each(|(at, worth)| value[*at] = *worth);
        let excess = |bin: &Bin| {
            let pods = bin.counts.iter().zip(&value).map(|(n, worth)| f64::from(*n) * worth);
            bin.item.price.usd() - pods.sum::<f64>()
        };
        let mut sequence = Sequence(0);
        let mut vain = 0;
        for step in 0.. {
            if self.spent >= refine || vain >= VAIN {
                break;
            }
            vain += 1;
            bins.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
            let machines: u32 = bins.iter().map(|bin| bin.copies).sum();
            let wanted = (2 + step % 6).min(machines as usize);
            let mut taken: Vec<Bin> = Vec::new();
            for _ in 0..4 * wanted {
                // The worst come most often.
                let part = sequence.next();
                let at = ((part * part * bins.len() as f64) as usize).min(bins.len() - 1);
                if taken.len() < wanted && bins[at].copies > 0 {
                    bins[at].copies -= 1;
                    taken.push(Bin { copies: 1, ..bins[at].clone() });
                }
            }
            let mut counts = vec![0; self.demands.len()];
            for bin in &taken {
                counts.iter_mut().zip(&bin.counts).for_each(|(all, count)| *all += count);
            }
            let old = Packing { bins: taken, left: vec![0; counts.len()], bound: Bound::default() };
            let part = if step % 2 == 0 { 1.0 } else { sequence.next() };
            let cap = old.price().usd() * part;
            let fits = |at: usize| market.problem.machines[at].price <= cap;
            let new = self.priced(market, worth, &counts, &fits);
            let new = match new.is_better(&old) {
                true => {
                    vain = 0;
                    new
                }
                false => old,
            };
            bins.extend(new.bins);
            bins = merged(bins);
        }
        let improved = Packing { bins, ..packing.clone() };
        if improved.is_better(&packing) { improved } else { packing }
    }
}

/// Numbers between 0 and 1 that spread evenly, the same in every plan.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> f64 {
        // The generator splitmix64 from a fixed start.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        (x >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Equal machines together, those without copies left out.
pub(super) fn merged(bins: Vec<Bin>) -> Vec<Bin> {
    let mut all: Vec<Bin> = Vec::new();
    for bin in bins.into_iter().filter(|bin| bin.copies > 0) {
        let same =
            all.iter_mut().find(|other| other.counts == bin.counts && other.domain == bin.domain);
        match same {
            Some(same) => same.copies += bin.copies,
            None => all.push(bin),
        }
    }
    all
}

fn pattern(market: &Market, bin: &Bin) -> Option<Pattern> {
    let machine = market.offered.iter().position(|(_, item)| *item == bin.item)?;
    let some = market.demands.iter().enumerate().filter(|(_, at)| bin.counts[**at] > 0);
    let carries = some.map(|(class, at)| (class, bin.counts[*at])).collect();
    Some(Pattern { machine, carries, amount: 0.0 })
}
