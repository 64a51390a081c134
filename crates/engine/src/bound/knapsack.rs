//! What one machine can carry at most, by worth: in fractions of pods, and in whole pods.

use super::{SIZES, Size};

/// How many exchanges a machine in fractions may take.
const EXCHANGES: usize = 60;

/// A class as one machine sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) class: usize,
    pub(crate) worth: f64,
    /// What a pod takes, as shares of the machine.
    pub(crate) share: [f64; SIZES],
    pub(crate) size: Size,
    /// The most that the machine may carry.
    pub(crate) most: u32,
}

/// The best filling of a machine with fractions of pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fraction {
    /// What the whole machine is worth by each of its dimensions; the sum is the worth of the
    /// best filling, and no pod is worth more than its shares.
    pub(crate) rates: [f64; SIZES],
    /// Pods of each class.
    pub(crate) carries: Vec<(usize, f64)>,
}

impl Fraction {
    pub(crate) fn worth(&self) -> f64 {
        self.rates.iter().sum()
    }
}

pub(crate) fn dot(a: &[f64; SIZES], b: &[f64; SIZES]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Fills a machine with fractions of pods: a linear program with a row for each dimension.
pub(crate) fn fraction(items: &[Item]) -> Fraction {
    let mut inverse = [[0.0; SIZES]; SIZES];
    (0..SIZES).for_each(|at| inverse[at][at] = 1.0);
    let mut amounts = [1.0_f64; SIZES];
    let mut basis: [Option<usize>; SIZES] = [None; SIZES];
    let mut rates = [0.0; SIZES];
    for _ in 0..EXCHANGES {
        // What gains most, for its size; room that is worth less than nothing stays empty.
        let (mut best, mut enters) = (1e-9, None);
        for (at, item) in items.iter().enumerate() {
            let gain = item.worth - dot(&rates, &item.share);
            let gain = gain / item.share.iter().fold(1e-12, |a: f64, b| a.max(*b));
            if gain > best {
                (best, enters) = (gain, Some(at));
            }
        }
        let spare = (0..SIZES).find(|at| rates[*at] < -1e-12);
        let mut column = [0.0; SIZES];
        let (gain, enters) = match (spare, enters) {
            (Some(at), _) => {
                column[at] = 1.0;
                (-rates[at], None)
            }
            (None, Some(at)) => {
                column = items[at].share;
                (items[at].worth - dot(&rates, &column), Some(at))
            }
            (None, None) => break,
        };
        let weights: [f64; SIZES] = std::array::from_fn(|at| dot(&inverse[at], &column));
        let mut leaves: Option<(usize, f64)> = None;
        for (at, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 1e-11) {
            let ratio = amounts[at].max(0.0) / weight;
            if leaves.is_none_or(|(_, least)| ratio < least) {
                leaves = Some((at, ratio));
            }
        }
        let Some((leaves, amount)) = leaves else { break };
        let pivot = inverse[leaves].map(|entry| entry / weights[leaves]);
        for (at, weight) in weights.iter().enumerate().filter(|(at, _)| *at != leaves) {
            amounts[at] -= amount * weight;
            inverse[at].iter_mut().zip(&pivot).for_each(|(entry, pivot)| *entry -= weight * pivot);
        }
        (inverse[leaves], amounts[leaves], basis[leaves]) = (pivot, amount, enters);
        rates.iter_mut().zip(&pivot).for_each(|(rate, pivot)| *rate += gain * pivot);
    }
    rates.iter_mut().for_each(|rate| *rate = rate.max(0.0));
    cover(items, &mut rates);
    let some = basis.iter().zip(&amounts).filter(|(_, amount)| **amount > 1e-9);
    let carries = some.filter_map(|(at, amount)| Some((items[(*at)?].class, *amount))).collect();
    Fraction { rates, carries }
}

/// Raises rates until no pod is worth more than its shares.
fn cover(items: &[Item], rates: &mut [f64; SIZES]) {
    let mut factor: f64 = 1.0;
    for item in items.iter().filter(|item| item.worth > 0.0) {
        let value = dot(rates, &item.share);
        if value > 0.0 {
            factor = factor.max(item.worth / value);
        } else {
            // Something that the rates do not see at all: let every dimension count.
            rates.iter_mut().for_each(|rate| *rate += item.worth);
            let value = dot(rates, &item.share);
            factor = if value > 0.0 { factor.max(item.worth / value) } else { f64::INFINITY };
        }
    }
    rates.iter_mut().for_each(|rate| *rate *= factor);
}

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

/// Fills a machine with whole pods, by branch and bound within `steps`. `rates` are those of the
/// machine in fractions.
pub(crate) fn whole(
    mut items: Vec<Item>,
    room: &Size,
    rates: &[f64; SIZES],
    steps: usize,
) -> Whole {
    let density = |item: &Item| item.worth / dot(rates, &item.share).max(1e-300);
    items.retain(|item| item.worth > 0.0 && item.most > 0);
    items.sort_by(|a, b| {
        let size = |item: &Item| dot(rates, &item.share);
        density(b).total_cmp(&density(a)).then(size(b).total_cmp(&size(a)))
    });
    let densities: Vec<f64> = items.iter().map(density).collect();
    let mut search = Search {
        counts: vec![0; items.len()],
        best: vec![0; items.len()],
        items: &items,
        densities: &densities,
        rates,
        worth: 0.0,
        open: 0.0,
        steps,
    };
    search.fill(0, *room, rates.iter().sum(), 0.0);
    let carries = items.iter().zip(&search.best).filter(|(_, count)| **count > 0);
    Whole {
        steps: steps - search.steps,
        worth: search.worth,
        most: search.worth.max(search.open),
        carries: carries.map(|(item, count)| (item.class, *count)).collect(),
    }
}

struct Search<'s> {
    items: &'s [Item],
    densities: &'s [f64],
    rates: &'s [f64; SIZES],
    counts: Vec<u32>,
    best: Vec<u32>,
    worth: f64,
    /// What the branches that were not looked at could be worth.
    open: f64,
    steps: usize,
}

impl Search<'_> {
    /// Tries the items from `at` on; `rest` is what the room that is left is worth by the rates.
    fn fill(&mut self, at: usize, room: Size, rest: f64, worth: f64) {
        if worth > self.worth * (1.0 + 1e-12) {
            self.worth = worth;
            self.best.clone_from(&self.counts);
        }
        let Some(item) = self.items.get(at) else { return };
        if self.steps == 0 {
            self.open = self.open.max(worth + self.densities[at] * rest);
            return;
        }
        self.steps -= 1;
        let fit = fits(&room, &item.size).min(item.most);
        let share = dot(self.rates, &item.share);
        let next = self.densities.get(at + 1).copied().unwrap_or(0.0);
        let mut left = room;
        (0..SIZES).for_each(|d| left[d] -= item.size[d] * i64::from(fit));
        for count in (0..=fit).rev() {
            let (rest, worth) =
                ((rest - share * f64::from(count)).max(0.0), worth + item.worth * f64::from(count));
            // Fewer of this one leave room for others that are worth less.
            if worth + next * rest <= self.worth * (1.0 + 1e-9) && worth <= self.worth {
                break;
            }
            self.counts[at] = count;
            self.fill(at + 1, left, rest, worth);
            (0..SIZES).for_each(|d| left[d] += item.size[d]);
        }
        self.counts[at] = 0;
    }
}

/// How many pods fit.
pub(crate) fn fits(room: &Size, size: &Size) -> u32 {
    let asked = room.iter().zip(size).filter(|(_, size)| **size > 0);
    let most = asked.map(|(room, size)| room / size).min().unwrap_or(i64::from(u32::MAX));
    u32::try_from(most.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(class: usize, worth: f64, size: &[i64], room: &Size) -> Item {
        let size: Size = std::array::from_fn(|at| size.get(at).copied().unwrap_or(0));
        let share = std::array::from_fn(|at| match room[at] {
            0 => 0.0,
            room => size[at] as f64 / room as f64,
        });
        Item { class, worth, share, size, most: 9 }
    }

    #[test]
    fn whole_pods_are_worth_less_than_fractions() {
        let mut room = Size::default();
        (room[0], room[1]) = (10, 10);
        let items = vec![item(0, 6.0, &[6, 1], &room), item(1, 5.0, &[1, 6], &room)];
        let fraction = fraction(&items);
        // Ten sevenths of each.
        assert!((fraction.worth() - 110.0 / 7.0).abs() < 1e-6, "{fraction:?}");
        let whole = whole(items, &room, &fraction.rates, 1000);
        assert!((whole.worth - 11.0).abs() < 1e-9 && whole.most < 11.1, "{whole:?}");
    }

    #[test]
    fn a_search_that_is_cut_short_says_how_much_could_be_missing() {
        let mut room = Size::default();
        room[0] = 10;
        let items = vec![item(0, 7.0, &[7], &room), item(1, 4.9, &[5], &room)];
        let rates = fraction(&items).rates;
        let short = whole(items.clone(), &room, &rates, 1);
        assert!(short.worth >= 7.0 && short.most >= 9.8);
        assert!((whole(items, &room, &rates, 100).most - 9.8).abs() < 1e-9);
    }
}
