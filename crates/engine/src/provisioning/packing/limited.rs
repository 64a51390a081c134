//! Packing where limits bind: by priority, each machine within what is left.

use super::fill::{add, fits, repeats, subtract};
use super::{Bin, Bound, Packer, Packing};
use crate::limits::Headroom;

impl Packer<'_, '_, '_> {
    /// Packs by priority. Pods of lower priority use the room on machines of higher ones first.
    pub(super) fn limited(&mut self, limits: &[Headroom]) -> Packing {
        let mut limits = limits.to_vec();
        let mut levels: Vec<i32> = self.demands.iter().map(|demand| demand.priority).collect();
        levels.sort_unstable();
        levels.dedup();
        let mut packing = Packing {
            bins: Vec::new(),
            left: vec![0; self.demands.len()],
            bound: Bound::default(),
        };
        for level in levels.into_iter().rev() {
            let mut left: Vec<u32> = self
                .demands
                .iter()
                .map(|demand| if demand.priority == level { demand.count } else { 0 })
                .collect();
            self.top_up(&mut packing.bins, &mut left);
            let all = self.choices();
            let orders = self.live(&left);
            while left.iter().any(|count| *count > 0) {
                let Some(mut bin) = self.next(&all, &orders, &left, &limits) else { break };
                let machine = self.domains.machine(&bin);
                let headroom = &mut limits[self.domains.get(bin.domain).store];
                bin.copies = repeats(&bin, &left).min(headroom.copies(&machine));
                headroom.take(&machine, bin.copies);
                subtract(&mut left, &bin);
                packing.bins.push(bin);
            }
            packing.left.iter_mut().zip(left).for_each(|(all, left)| *all += left);
        }
        packing
    }

    /// Puts pods on machines that are chosen already.
    fn top_up(&mut self, bins: &mut Vec<Bin>, left: &mut [u32]) {
        for index in 0..bins.len() {
            for (at, left) in left.iter_mut().enumerate() {
                while *left > 0 {
                    let Some(fuller) = self.with(&bins[index], at, *left) else { break };
                    let added = fuller.counts[at] - bins[index].counts[at];
                    let copies = (*left / added).min(bins[index].copies);
                    *left -= added * copies;
                    let others = bins[index].copies - copies;
                    if others > 0 {
                        bins.push(Bin { copies: others, ..bins[index].clone() });
                    }
                    bins[index] = Bin { copies, ..fuller };
                }
            }
        }
    }

    /// The bin with as many pods of the demand more as its machine has room for.
    fn with(&mut self, bin: &Bin, at: usize, left: u32) -> Option<Bin> {
        let demand = &self.demands[at];
        let room = &self.domains.store(bin.domain).shapes[bin.item.shape].room;
        let fit = fits(room, &bin.load, &demand.request).min(left);
        let fit = if self.domains.group(demand.group).is_exclusive() { fit.min(1) } else { fit };
        let fit = self.tally(&bin.counts).room(&demand.rule, fit);
        if fit == 0 {
            return None;
        }
        let joined = self.domains.join(bin.domain, demand.group);
        let has_shape = |id: &&usize| self.domains.get(**id).shapes.contains(bin.item.shape);
        let domain = *joined.iter().find(has_shape)?;
        let fit = self.flexible(domain, &bin.load, &demand.request, fit);
        let mut fuller = bin.clone();
        add(&mut fuller.load, &demand.request, fit);
        fuller.counts[at] += fit;
        fuller.domain = domain;
        fuller.item = self.domains.item_of(domain, bin.item.shape)?;
        (fit > 0).then_some(fuller)
    }
}
