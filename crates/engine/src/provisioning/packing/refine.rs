//! Making a plan cheaper: patterns of a linear program, then machines that are emptied and whose
//! pods are packed anew.

use super::fill::subtract;
use super::market::Market;
use super::priced::Worth;
use super::{Bin, Packer, Packing};
use crate::bound::{Pattern, Patterns};

impl Packer<'_, '_, '_> {
    /// The best of the strategies that go by worth, made cheaper.
    pub(super) fn by_worth(&mut self, counts: &[u32], known: Packing) -> Packing {
        let steps: usize = std::env::var("STEPS").map_or(60, |s| s.parse().unwrap());
        let effort: usize = std::env::var("EFFORT").map_or(300_000, |s| s.parse().unwrap());
        #[expect(clippy::disallowed_methods, clippy::disallowed_types)]
        let start = std::time::Instant::now();
        let trace = |what: &str, value: f64| {
            if std::env::var("TRACE").is_ok() {
                eprintln!("  {what} {value:.4} at {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
            }
        };
        let market = self.market(counts);
        trace("machines", market.offered.len() as f64);
        let fluid = market.problem.fluid();
        trace("fluid", fluid.bound);
        let worth = Worth { pods: fluid.worth.clone(), rates: fluid.rates.clone() };
        let mut best = Some(known);
        let packing = self.priced(&market, &worth, counts, &|_| true);
        trace("priced", packing.price().usd());
        Packing::keep_better(&mut best, packing);
        let start: Vec<Pattern> =
            best.iter().flat_map(|b| &b.bins).filter_map(|bin| pattern(&market, bin)).collect();
        let patterns = market.problem.patterns(&fluid, &start, effort);
        trace("patterns", patterns.bound);
        let rounded = self.rounded(&market, &patterns, counts);
        let mut left = counts.to_vec();
        rounded.iter().for_each(|bin| subtract(&mut left, bin));
        let mut packing = self.priced(&market, &worth, &left, &|_| true);
        packing.bins.splice(0..0, rounded);
        trace("rounded", packing.price().usd());
        Packing::keep_better(&mut best, packing);
        let best = self.improved(&market, &worth, best.unwrap_or_default(), steps);
        trace("improved", best.price().usd());
        best
    }

    /// Whole numbers of patterns.
    fn rounded(&mut self, market: &Market, patterns: &Patterns, counts: &[u32]) -> Vec<Bin> {
        let mut left = counts.to_vec();
        let mut bins = Vec::new();
        for pattern in &patterns.patterns {
            let copies = (pattern.amount + 1e-6).floor() as u32;
            let mut fit = pattern.carries.iter().map(|(class, n)| left[market.demands[*class]] / n);
            let copies = copies.min(fit.by_ref().min().unwrap_or(0));
            if copies == 0 {
                continue;
            }
            let Some(bin) = self.bin(market, pattern.machine, &pattern.carries) else { continue };
            let bin = Bin { copies, ..bin };
            subtract(&mut left, &bin);
            bins.push(bin);
        }
        bins
    }

    /// Empties a few machines at a time and packs their pods anew; keeps what is cheaper.
    fn improved(
        &mut self,
        market: &Market,
        worth: &Worth,
        packing: Packing,
        steps: usize,
    ) -> Packing {
        let Packing { mut bins, left } = packing;
        let mut value = vec![0.0; self.demands.len()];
        market.demands.iter().zip(&worth.pods).for_each(|(at, worth)| value[*at] = *worth);
        let excess = |bin: &Bin| {
            let pods = bin.counts.iter().zip(&value).map(|(n, worth)| f64::from(*n) * worth);
            bin.item.price.usd() - pods.sum::<f64>()
        };
        let mut sequence = Sequence(0);
        for step in 0..steps {
            bins.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
            let mut taken: Vec<Bin> = Vec::new();
            let machines: u32 = bins.iter().map(|bin| bin.copies).sum();
            let wanted = (2 + step % 5).min(machines as usize);
            let mut tries = 0;
            while taken.len() < wanted && tries < 50 {
                tries += 1;
                // The worst come most often.
                let part = sequence.next();
                let at = (part * part * bins.len() as f64) as usize;
                let at = at.min(bins.len() - 1);
                if bins[at].copies == 0 {
                    continue;
                }
                bins[at].copies -= 1;
                taken.push(Bin { copies: 1, ..bins[at].clone() });
            }
            let mut counts = vec![0; self.demands.len()];
            for bin in &taken {
                counts.iter_mut().zip(&bin.counts).for_each(|(all, count)| *all += count);
            }
            let old = Packing { bins: taken, left: vec![0; counts.len()] };
            let cap =
                if step % 2 == 0 { f64::INFINITY } else { old.price().usd() * sequence.next() };
            let fits = |at: usize| market.problem.machines[at].price <= cap;
            let new = self.priced(market, worth, &counts, &fits);
            let new = if new.is_better(&old) { new } else { old };
            bins.extend(new.bins);
            bins = merged(bins);
        }
        Packing { bins, left }
    }
}

/// Numbers between 0 and 1 that spread evenly.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> f64 {
        // Steps of the golden ratio, in 2^-64ths.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        (x >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Equal machines together, those without copies left out.
fn merged(bins: Vec<Bin>) -> Vec<Bin> {
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
