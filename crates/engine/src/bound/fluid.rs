//! The bound of a market in which machines and pods may be bought in fractions.

use std::collections::BTreeMap;

use super::knapsack::{Fraction, Item, dot, fraction};
use super::master::{Column, Master};
use super::{Problem, SIZES, Size};

/// How many rows the linear program may have; similar classes share one when there are more.
const ROWS: usize = 96;
/// How often machines are filled anew.
const ROUNDS: usize = 200;
/// How near to each other the two sides of the linear program must come.
const CLOSE: f64 = 3e-4;
/// How much of the worths that held best goes into the next ones to be tried.
const SMOOTH: f64 = 0.6;

/// What pods and machines are worth.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    /// USD per hour of one pod of each class. No machine can carry pods worth more than its price.
    pub(crate) worth: Vec<f64>,
    /// What all pods are worth: no plan costs less.
    pub(crate) bound: f64,
    /// The machines that the fractional market buys, by index.
    pub(crate) stocks: Vec<Stock>,
}

/// Machines of one kind in the fractional market.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    pub(crate) machine: usize,
    /// How many are bought.
    pub(crate) amount: f64,
    /// The share of the pods of each class that they carry together.
    pub(crate) shares: Vec<(usize, f64)>,
}

/// What the columns in use buy, by machine.
fn stocks(master: &Master, rows: &[Row]) -> Vec<Stock> {
    let mut carried: BTreeMap<usize, (f64, Vec<f64>)> = BTreeMap::new();
    let mut total = vec![0.0; rows.len()];
    for (column, amount) in master.basis.iter().zip(&master.amounts) {
        let (Some(machine), true) = (column.machine, *amount > 1e-9) else { continue };
        let entry = carried.entry(machine).or_insert_with(|| (0.0, vec![0.0; rows.len()]));
        entry.0 += amount;
        for (row, count) in &column.carries {
            entry.1[*row] += count * amount;
            total[*row] += count * amount;
        }
    }
    let stock = |(machine, (amount, carried)): (usize, (f64, Vec<f64>))| {
        let some = rows.iter().enumerate().filter(|(at, _)| carried[*at] > 0.0);
        let share = |(at, row): (usize, &Row)| (row.members.clone(), carried[at] / total[at]);
        let shares = some
            .map(share)
            .flat_map(|(members, share)| members.into_iter().map(move |class| (class, share)));
        Stock { machine, amount, shares: shares.collect() }
    };
    carried.into_iter().map(stock).collect()
}

/// Worths of rows that hold on every machine.
struct Held {
    bound: f64,
    worth: Vec<f64>,
    rates: Vec<[f64; SIZES]>,
}

/// Rates in the same proportions that sum up to `price`.
fn scaled(rates: &[f64; SIZES], price: f64) -> [f64; SIZES] {
    let sum: f64 = rates.iter().sum();
    if sum > 0.0 {
        return rates.map(|rate| rate * (price / sum));
    }
    let mut first = [0.0; SIZES];
    first[0] = price;
    first
}

/// Classes that share a row.
struct Row {
    members: Vec<usize>,
    /// Pods, and what the average one takes.
    count: f64,
    size: Size,
}

impl Problem {
    /// Solves the fractional market, well enough.
    pub(crate) fn fluid(&self) -> Fluid {
        let rows = self.rows();
        let open: Vec<Vec<bool>> = (0..self.machines.len())
            .map(|machine| rows.iter().map(|row| self.carries(machine, row.members[0])).collect())
            .collect();
        let needs: Vec<f64> = rows.iter().map(|row| row.count).collect();
        let alone = (0..rows.len()).map(|row| self.alone(&rows, row, &open)).collect();
        let mut master = Master::new(&needs, alone);
        let mut best = Held { bound: -1.0, worth: Vec::new(), rates: Vec::new() };
        let mut asked = master.worth.clone();
        let mut is_smooth = false;
        for _ in 0..ROUNDS {
            let mut found: Vec<(f64, usize, Fraction)> = Vec::new();
            let mut rates = Vec::with_capacity(self.machines.len());
            for (at, machine) in self.machines.iter().enumerate() {
                let filled = fraction(&self.row_items(at, &rows, &open[at], &asked));
                rates.push(scaled(&filled.rates, machine.price));
                found.push((filled.worth() / machine.price.max(1e-12), at, filled));
            }
            let held = self.hold(&rows, &open, rates);
            if held.bound > best.bound {
                best = held;
            }
            if best.bound >= master.price() * (1.0 - CLOSE) {
                break;
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let mut improved = false;
            for (_, machine, filled) in found {
                improved |= master.enter(Column {
                    machine: Some(machine),
                    price: self.machines[machine].price,
                    carries: filled.carries,
                });
            }
            master.drop_surplus();
            if !improved && !is_smooth {
                break;
            }
            is_smooth = improved;
            let smooth = if improved { SMOOTH } else { 0.0 };
            let mix = |(held, new): (&f64, &f64)| smooth * held + (1.0 - smooth) * new.max(0.0);
            asked = best.worth.iter().zip(&master.worth).map(mix).collect();
        }
        let worth: Vec<f64> =
            (0..self.asked.len()).map(|at| self.worth_by(at, &best.rates)).collect();
        let total =
            self.asked.iter().zip(&worth).map(|(asked, worth)| worth * f64::from(asked.count));
        Fluid { bound: total.sum(), worth, stocks: stocks(&master, &rows) }
    }

    /// The worth of rows that holds at given rates.
    fn hold(&self, rows: &[Row], open: &[Vec<bool>], rates: Vec<[f64; SIZES]>) -> Held {
        let worth = |(at, row): (usize, &Row)| {
            let machines = (0..self.machines.len()).filter(|machine| open[*machine][at]);
            let taken = machines.map(|m| dot(&rates[m], &self.share(m, &row.size)));
            let least = taken.fold(f64::INFINITY, f64::min);
            if least.is_finite() { least } else { 0.0 }
        };
        let worth: Vec<f64> = rows.iter().enumerate().map(worth).collect();
        let bound = rows.iter().zip(&worth).map(|(row, worth)| row.count * worth).sum();
        Held { bound, worth, rates }
    }

    /// What a pod is worth by the rates of machines: what it takes of the machine on which it
    /// takes least.
    pub(crate) fn worth_by(&self, class: usize, rates: &[[f64; SIZES]]) -> f64 {
        let size = &self.asked[class].size;
        let machines = (0..self.machines.len()).filter(|machine| self.carries(*machine, class));
        let taken = machines.map(|machine| dot(&rates[machine], &self.share(machine, size)));
        let least = taken.fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 0.0 }
    }

    fn row_items(&self, machine: usize, rows: &[Row], open: &[bool], worth: &[f64]) -> Vec<Item> {
        let some = rows.iter().enumerate().filter(|(at, _)| open[*at]);
        let item =
            |(at, row): (usize, &Row)| self.item(machine, at, &row.size, worth[at], u32::MAX);
        some.map(item).collect()
    }

    /// The cheapest machine for pods of one row.
    fn alone(&self, rows: &[Row], row: usize, open: &[Vec<bool>]) -> Column {
        let mut best = Column { machine: None, price: 1e9, carries: vec![(row, 1.0)] };
        for (machine, offered) in self.machines.iter().enumerate().filter(|(at, _)| open[*at][row])
        {
            let share = self.share(machine, &rows[row].size);
            let count = 1.0 / share.iter().fold(1e-6, |a: f64, b| a.max(*b));
            if offered.price / count < best.price / best.carries[0].1 {
                let carries = vec![(row, count)];
                best = Column { machine: Some(machine), price: offered.price, carries };
            }
        }
        best
    }

    /// Classes as rows. Classes that take resources in similar proportions and may have the same
    /// machines are gathered until there are few enough: to rates of machines it is the
    /// proportions that matter.
    fn rows(&self) -> Vec<Row> {
        let one = |class: usize| Row {
            members: vec![class],
            count: f64::from(self.asked[class].count),
            size: self.asked[class].size,
        };
        if self.asked.len() <= ROWS {
            return (0..self.asked.len()).map(one).collect();
        }
        let most: Size = std::array::from_fn(|d| {
            self.machines.iter().map(|machine| machine.room[d]).max().unwrap_or(0).max(1)
        });
        let fitting: Vec<Vec<bool>> = (0..self.asked.len())
            .map(|class| (0..self.machines.len()).map(|m| self.carries(m, class)).collect())
            .collect();
        // Finer proportions first, then coarser ones.
        for parts in [32.0, 16.0, 8.0, 4.0, 2.0, 1.0] {
            for by_fit in [true, false] {
                let mut order: Vec<(usize, [i64; SIZES], usize)> = (0..self.asked.len())
                    .map(|class| {
                        let size = &self.asked[class].size;
                        let share: [f64; SIZES] =
                            std::array::from_fn(|d| size[d] as f64 / most[d] as f64);
                        let sum: f64 = share.iter().sum::<f64>().max(1e-12);
                        let proportion = share.map(|share| (share / sum * parts).round() as i64);
                        (self.asked[class].group, proportion, class)
                    })
                    .collect();
                order.sort_unstable();
                let same = |a: &(usize, [i64; SIZES], usize), b: &(usize, [i64; SIZES], usize)| {
                    a.0 == b.0 && a.1 == b.1 && (!by_fit || fitting[a.2] == fitting[b.2])
                };
                let chunks: Vec<&[_]> = order.chunk_by(same).collect();
                if chunks.len() <= ROWS || (parts == 1.0 && !by_fit) {
                    return chunks.into_iter().map(|chunk| self.row(chunk, &fitting)).collect();
                }
            }
        }
        Vec::new()
    }

    fn row(&self, chunk: &[(usize, [i64; SIZES], usize)], fitting: &[Vec<bool>]) -> Row {
        // The first member decides where the row fits: the one that fits on fewest machines.
        let machines = |class: usize| fitting[class].iter().filter(|fits| **fits).count();
        let mut members: Vec<usize> = chunk.iter().map(|(_, _, class)| *class).collect();
        members.sort_by_key(|class| (machines(*class), *class));
        let count: f64 = members.iter().map(|class| f64::from(self.asked[*class].count)).sum();
        let size = std::array::from_fn(|d| {
            let sum: f64 = members
                .iter()
                .map(|class| {
                    self.asked[*class].size[d] as f64 * f64::from(self.asked[*class].count)
                })
                .sum();
            (sum / count.max(1.0)) as i64
        });
        Row { members, count, size }
    }
}
