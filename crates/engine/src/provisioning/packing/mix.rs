//! Many pods at once: the machines of the fractional market, each with the mix of pods that it
//! carries there.

use super::fill::{repeats, subtract};
use super::market::Market;
use super::priced::top_up;
use super::{Bin, Packer};
use crate::bound::{Fluid, Item, SIZES, Size, fits};

/// Of more machines than this several are filled at once.
const SINGLE: f64 = 128.0;

impl Packer<'_, '_, '_> {
    /// Fills the whole machines that the fractional market buys. What is left over is few.
    pub(super) fn mixed(&mut self, market: &Market, fluid: &Fluid, left: &mut [u32]) -> Vec<Bin> {
        let mut bins: Vec<Bin> = Vec::new();
        // What of each class has been shared out, and how many pods that is.
        let mut shared = vec![(0.0, 0_u32); market.demands.len()];
        for stock in &fluid.stocks {
            let mut pool = vec![0; market.demands.len()];
            for (class, share) in &stock.shares {
                let (part, count) = &mut shared[*class];
                *part += share;
                let all = f64::from(market.problem.asked[*class].count);
                let upto = (all * *part).round() as u32;
                pool[*class] = upto.saturating_sub(*count).min(left[market.demands[*class]]);
                *count += pool[*class];
            }
            let mut items = market.problem.items(stock.machine, &fluid.worth, &pool);
            items.sort_by(|a, b| a.scale.total_cmp(&b.scale).then(a.class.cmp(&b.class)));
            let room = &market.problem.machines[stock.machine].room;
            let mut machines = stock.amount;
            while machines >= 0.98 {
                for item in &mut items {
                    let most = market.problem.asked[item.class].most;
                    item.most = pool[item.class].min(most);
                }
                let carries = average(&items, &pool, room, machines);
                let Some(bin) = self.bin(market, stock.machine, &carries) else { break };
                let copies = repeats(&bin, left).min((machines / SINGLE).ceil() as u32);
                let fit = carries.iter().map(|(class, n)| pool[*class] / n).min();
                let copies = copies.min(fit.unwrap_or(0));
                if copies == 0 {
                    break;
                }
                carries.iter().for_each(|(class, n)| pool[*class] -= n * copies);
                let bin = Bin { copies, ..bin };
                subtract(left, &bin);
                bins.push(bin);
                machines -= f64::from(copies);
            }
        }
        bins
    }
}

/// What one of `machines` carries of `pool`: its part of each class, larger pods first, and what
/// a class lacks to a whole pod is made up for by the next ones. Then as much as there is room for.
fn average(items: &[Item], pool: &[u32], room: &Size, machines: f64) -> Vec<(usize, u32)> {
    let mut rest = *room;
    let mut counts = vec![0_u32; items.len()];
    let mut owed = [0.0_f64; SIZES];
    for (at, item) in items.iter().enumerate() {
        let part = f64::from(pool[item.class]) / machines.max(1.0);
        let mut count = (part + 1e-9).floor();
        owed.iter_mut().zip(&item.share).for_each(|(owed, share)| *owed += (part - count) * share);
        while owed.iter().zip(&item.share).all(|(owed, share)| *share <= 0.0 || owed >= share) {
            count += 1.0;
            owed.iter_mut().zip(&item.share).for_each(|(owed, share)| *owed -= share);
        }
        let count = (count as u32).min(item.most).min(fits(&rest, &item.size));
        counts[at] = count;
        rest.iter_mut().zip(&item.size).for_each(|(rest, size)| *rest -= size * i64::from(count));
    }
    top_up(items, room, &mut rest, &mut counts);
    let some = items.iter().zip(&counts).filter(|(_, count)| **count > 0);
    some.map(|(item, count)| (item.class, *count)).collect()
}
