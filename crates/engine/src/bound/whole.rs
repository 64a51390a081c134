//! What one machine can carry at most, by worth, in whole pods.

use super::knapsack::{Fraction, Item, dot, fits, fraction_in};
use super::{SIZES, Size};

/// Branches that promise less than this much more than the best known filling are left out.
const FINE: f64 = 1e-4;

/// The best filling of a machine with whole pods that was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole {
    pub(crate) worth: f64,
    /// No filling is worth more.
    pub(crate) most: f64,
    pub(crate) carries: Vec<(usize, u32)>,
    /// Steps that the search took.
    pub(crate) steps: usize,
}

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Pods that take at least this share of the machine are tried in every number; of smaller
    /// ones it is enough to know what fractions of them would be worth.
    pub(crate) large: f64,
    pub(crate) steps: usize,
}

/// Fills a machine with whole pods, by branch and bound over the large ones. What is left beside
/// them is bounded by fractions and filled by what the fractions suggest.
pub(crate) fn whole(mut items: Vec<Item>, room: &Size, depth: Depth) -> Whole {
    items.retain(|item| item.worth > 0.0 && item.most > 0);
    items.sort_by(|a, b| a.scale.total_cmp(&b.scale).then(a.class.cmp(&b.class)));
    let large = items.iter().take_while(|item| item.scale * depth.large <= 1.0).count();
    let mut search = Search {
        counts: vec![0; items.len()],
        best: vec![0; items.len()],
        full: room.map(|room| 1.0 / room.max(1) as f64),
        items: &items,
        large,
        worth: 0.0,
        open: 0.0,
        steps: depth.steps,
    };
    search.branch(0, *room, 0.0);
    let carries = items.iter().zip(&search.best).filter(|(_, count)| **count > 0);
    Whole {
        steps: depth.steps - search.steps,
        worth: search.worth,
        most: search.worth.max(search.open),
        carries: carries.map(|(item, count)| (item.class, *count)).collect(),
    }
}

struct Search<'s> {
    items: &'s [Item],
    /// How many of the items are large.
    large: usize,
    /// One over the room of the empty machine.
    full: [f64; SIZES],
    counts: Vec<u32>,
    best: Vec<u32>,
    worth: f64,
    /// What the branches that were not looked into could be worth.
    open: f64,
    steps: usize,
}

impl Search<'_> {
    /// Tries the items from `at` on beside what has been chosen, which is worth `worth`.
    fn branch(&mut self, at: usize, room: Size, worth: f64) {
        let (part, most) = self.bounded(at, &room, worth);
        if most <= self.promising() {
            self.open = self.open.max(most);
            return;
        }
        self.complete(at, room, worth, &part);
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 || at >= self.large {
            self.open = self.open.max(most);
            return;
        }
        // Either some large item from `at` on is the first that the machine carries, or none is.
        for first in at..self.large {
            let item = self.items[first];
            let lost = (dot(&part.rates, &item.share) - item.worth).max(0.0);
            let fit = fits(&room, &item.size).min(item.most);
            for count in (1..=fit).rev() {
                let number = f64::from(count);
                let bound = most - lost * number;
                if self.steps == 0 || bound <= self.promising() {
                    self.open = self.open.max(bound);
                    continue;
                }
                let left = std::array::from_fn(|d| room[d] - item.size[d] * i64::from(count));
                self.counts[first] = count;
                self.branch(first + 1, left, worth + item.worth * number);
            }
            self.counts[first] = 0;
        }
        self.branch(self.large, room, worth);
    }

    /// Fractions of the items from `at` on of which a pod fits, and what the machine is worth then.
    fn bounded(&self, at: usize, room: &Size, worth: f64) -> (Fraction, f64) {
        let rest: [f64; SIZES] = std::array::from_fn(|d| room[d] as f64 * self.full[d]);
        let fitting = self.items[at..].iter().filter(|item| item.fits(room));
        let fitting: Vec<&Item> = fitting.collect();
        let part = fraction_in(&fitting, &rest);
        let most = worth + dot(&part.rates, &rest);
        (part, most)
    }

    /// What a branch has to promise.
    fn promising(&self) -> f64 {
        self.open.max(self.worth * (1.0 + FINE))
    }

    /// Fills the room that is left: what fractions suggest, then by worth for what is taken.
    fn complete(&mut self, at: usize, mut room: Size, mut worth: f64, part: &Fraction) {
        let mut order: Vec<(f64, usize)> = Vec::with_capacity(self.items.len() - at);
        for (offset, item) in self.items[at..].iter().enumerate() {
            if item.fits(&room) {
                let taken = dot(&part.rates, &item.share).max(item.worth * 1e-3);
                order.push((item.worth / taken, at + offset));
            }
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let suggested = |index: usize| {
            let found = part.carries.iter().find(|(class, _)| *class == self.items[index].class);
            found.map_or(0, |(_, amount)| (amount + 1e-6).floor() as u32)
        };
        let suggested: Vec<(usize, u32)> =
            order.iter().map(|(_, index)| (*index, suggested(*index))).collect();
        let all = order.iter().map(|(_, index)| (*index, u32::MAX));
        for (index, wanted) in suggested.into_iter().filter(|(_, n)| *n > 0).chain(all) {
            let item = &self.items[index];
            let count = fits(&room, &item.size).min(item.most - self.counts[index]).min(wanted);
            self.counts[index] += count;
            worth += item.worth * f64::from(count);
            (0..SIZES).for_each(|d| room[d] -= item.size[d] * i64::from(count));
        }
        if worth > self.worth * (1.0 + 1e-12) {
            self.worth = worth;
            self.best.clone_from(&self.counts);
        }
        self.counts[at..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::knapsack::{fraction, scale};

    fn item(class: usize, worth: f64, size: &[i64], room: &Size) -> Item {
        let size: Size = std::array::from_fn(|at| size.get(at).copied().unwrap_or(0));
        let share = std::array::from_fn(|at| match room[at] {
            0 => 0.0,
            room => size[at] as f64 / room as f64,
        });
        Item { class, worth, share, size, scale: scale(&share), most: 9 }
    }

    #[test]
    fn whole_pods_are_worth_less_than_fractions() {
        let mut room = Size::default();
        (room[0], room[1]) = (10, 10);
        let items = vec![item(0, 6.0, &[6, 1], &room), item(1, 5.0, &[1, 6], &room)];
        let fraction = fraction(&items);
        // Ten sevenths of each.
        assert!((fraction.worth() - 110.0 / 7.0).abs() < 1e-6, "{fraction:?}");
        let whole = whole(items, &room, Depth { large: 0.0, steps: 1000 });
        assert!((whole.worth - 11.0).abs() < 1e-9 && whole.most < 11.1, "{whole:?}");
    }

    #[test]
    fn a_search_that_is_cut_short_says_how_much_could_be_missing() {
        let mut room = Size::default();
        room[0] = 10;
        let items = vec![item(0, 7.0, &[7], &room), item(1, 4.9, &[5], &room)];
        let short = whole(items.clone(), &room, Depth { large: 0.0, steps: 1 });
        assert!(short.worth >= 7.0 && short.most >= 9.8);
        let deep = whole(items, &room, Depth { large: 0.0, steps: 100 });
        assert!((deep.most - 9.8).abs() < 2e-3, "{deep:?}");
    }
}
