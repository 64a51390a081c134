//! What one machine can carry at most, by worth, in fractions of pods.

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
    /// One over the largest share.
    pub(crate) scale: f64,
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

/// Fills an empty machine with fractions of pods.
pub(crate) fn fraction(items: &[Item]) -> Fraction {
    let items: Vec<&Item> = items.iter().collect();
    fraction_in(&items, &[1.0; SIZES])
}

/// Fills what is left of a machine, in shares of it, with fractions of pods: a linear program with
/// a row for each dimension.
pub(crate) fn fraction_in(items: &[&Item], rest: &[f64; SIZES]) -> Fraction {
    let is_used = |d: usize| items.iter().any(|item| item.share[d] > 0.0);
    match (FEW..SIZES).any(is_used) {
        false => simplex::<FEW>(items, rest),
        true => simplex::<SIZES>(items, rest),
    }
}

/// Most machines have no more dimensions than this that pods use.
const FEW: usize = 4;

/// The simplex method over the first `D` dimensions.
fn simplex<const D: usize>(items: &[&Item], rest: &[f64; SIZES]) -> Fraction {
    let dot = |a: &[f64; D], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut inverse = [[0.0; D]; D];
    (0..D).for_each(|at| inverse[at][at] = 1.0);
    let mut amounts: [f64; D] = std::array::from_fn(|at| rest[at]);
    let mut basis: [Option<usize>; D] = [None; D];
    let mut rates = [0.0; D];
    for _ in 0..EXCHANGES {
        // What gains most, for its size; room that is worth less than nothing stays empty.
        let (mut best, mut enters) = (1e-9, None);
        for (at, item) in items.iter().enumerate() {
            let gain = (item.worth - dot(&rates, &item.share)) * item.scale;
            if gain > best {
                (best, enters) = (gain, Some(at));
            }
        }
        let spare = (0..D).find(|at| rates[*at] < -1e-12);
        let mut column = [0.0; D];
        let (gain, enters) = match (spare, enters) {
            (Some(at), _) => {
                column[at] = 1.0;
                (-rates[at], None)
            }
            (None, Some(at)) => {
                column.copy_from_slice(&items[at].share[..D]);
                (items[at].worth - dot(&rates, &column), Some(at))
            }
            (None, None) => break,
        };
        let weights: [f64; D] = std::array::from_fn(|at| dot(&inverse[at], &column));
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
    let mut all = [0.0; SIZES];
    all.iter_mut().zip(&rates).for_each(|(rate, found)| *rate = found.max(0.0));
    cover(items, &mut all);
    let some = basis.iter().zip(&amounts).filter(|(_, amount)| **amount > 1e-9);
    let carries = some.filter_map(|(at, amount)| Some((items[(*at)?].class, *amount))).collect();
    Fraction { rates: all, carries }
}

/// Raises rates until no pod is worth more than its shares.
fn cover(items: &[&Item], rates: &mut [f64; SIZES]) {
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

impl Item {
    /// Whether one pod fits in what is left of the machine.
    pub(crate) fn fits(&self, room: &Size) -> bool {
        self.size.iter().zip(room).all(|(size, room)| size <= room)
    }
}

/// One over the largest of the shares.
pub(crate) fn scale(share: &[f64; SIZES]) -> f64 {
    1.0 / share.iter().fold(1e-12, |a: f64, b| a.max(*b))
}

/// How many pods fit.
pub(crate) fn fits(room: &Size, size: &Size) -> u32 {
    let asked = room.iter().zip(size).filter(|(_, size)| **size > 0);
    let most = asked.map(|(room, size)| room / size).min().unwrap_or(i64::from(u32::MAX));
    u32::try_from(most.max(0)).unwrap_or(u32::MAX)
}
