//! One machine, filled in a given order.

use super::fill::add;
use super::order::Order;
use super::{Bin, Packer, Target};
use crate::limits::Headroom;
use crate::provisioning::domain::Item;
use crate::provisioning::tally::Tally;

/// After how many demands in vain it is looked whether any is left that fits.
const STRIDE: usize = 16;

/// A machine that could come next, with what its pods are worth.
pub(super) struct Candidate {
    domain: usize,
    item: Item,
    load: Vec<i64>,
    /// Its pods: demand, and how many of them.
    carries: Vec<(usize, u32)>,
    worth: u64,
}

impl Candidate {
    /// Whether it gets more for its money; among equals the one that carries more.
    pub(super) fn is_better(&self, other: &Self) -> bool {
        let rate = |a: &Self, b: &Self| u128::from(a.item.price.nano()) * u128::from(b.worth);
        let (mine, theirs) = (rate(self, other), rate(other, self));
        mine < theirs || mine == theirs && self.worth > other.worth
    }

    /// The machine, of `demands` demands.
    pub(super) fn into_bin(self, demands: usize) -> Bin {
        let Self { domain, item, load, carries, .. } = self;
        let mut counts = vec![0; demands];
        carries.into_iter().for_each(|(at, count)| counts[at] = count);
        Bin { domain, item, load, counts, copies: 1 }
    }
}

/// What is noted while a machine is filled; nothing of it lasts.
#[derive(Debug)]
pub(super) struct Notes {
    /// How many pods of each demand it carries.
    counts: Vec<u32>,
    /// The rules whose pods it takes no more of.
    shut: Vec<bool>,
}

impl Notes {
    pub(super) fn new(demands: usize, rules: usize) -> Self {
        Self { counts: vec![0; demands], shut: vec![false; rules] }
    }
}

impl Packer<'_, '_, '_> {
    /// Fills one machine of the target's shape in the given order; the bin is then of the
    /// cheapest shape that holds its pods.
    pub(super) fn fill(
        &mut self,
        target: Target,
        order: &Order,
        left: &[u32],
        limits: &[Headroom],
    ) -> Option<Candidate> {
        let mut notes = std::mem::replace(&mut self.notes, Notes::new(0, 0));
        let filled = self.fill_with(&mut notes, target, order, left, limits);
        self.notes = notes;
        filled
    }

    fn fill_with(
        &mut self,
        notes: &mut Notes,
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
        let mut carries: Vec<(usize, u32)> = Vec::new();
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
                let rule = self.rules[at];
                let count = left[at] - notes.counts[at];
                if count == 0 || notes.shut[rule] {
                    continue;
                }
                let demand = &demands[at];
                let fit = fits_of(room, &load, &demand.request, count);
                if fit == 0 {
                    continue;
                }
                let fit = tally.room(&demand.rule, fit);
                if fit == 0 {
                    // Counts only rise and caps only fall; company may still come.
                    notes.shut[rule] = demand.rule.needs.is_empty();
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
                if notes.counts[at] == 0 {
                    carries.push((at, 0));
                }
                notes.counts[at] += fit;
                is_news = true;
                worth = worth.saturating_add(u64::from(fit).saturating_mul(self.worth[at]));
            }
        }
        notes.shut.fill(false);
        for (at, count) in &mut carries {
            *count = std::mem::take(&mut notes.counts[*at]);
        }
        if carries.is_empty() {
            return None;
        }
        let item = self.domains.cheapest(domain, &load, limits)?;
        Some(Candidate { domain, item, load, carries, worth })
    }
}

/// How many of `count` pods that ask for `request` fit in `room` beside `load`.
fn fits_of(room: &[i64], load: &[i64], request: &[i64], count: u32) -> u32 {
    let mut most = i64::from(count);
    for ((room, load), request) in room.iter().zip(load).zip(request) {
        let free = room.saturating_sub(*load);
        if *request <= 0 {
            continue;
        }
        if free < *request {
            return 0;
        }
        // Dividing is dear, and mostly there is room for all.
        if free < request.saturating_mul(most) {
            most = free / request;
        }
    }
    u32::try_from(most).unwrap_or(count)
}
