//! The bound of a market in which machines may be bought in fractions, pods only whole.

use super::knapsack::{fraction, whole};
use super::master::{Column, Master};
use super::{Fluid, Problem};

/// Steps of a search for one machine's pattern; more when no better pattern is found.
const QUICK: usize = 300;
/// How near to each other the two sides of the linear program must come.
const CLOSE: f64 = 3e-4;
/// How much of the worths that held best goes into the next ones to be tried.
const SMOOTH: f64 = 0.6;

/// Pods that fill a machine.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) machine: usize,
    pub(crate) carries: Vec<(usize, u32)>,
    /// How many such machines the fractional plan buys.
    pub(crate) amount: f64,
}

/// Patterns that are good together.
#[derive(Clone, Debug)]
pub(crate) struct Patterns {
    /// USD per hour of one pod of each class. No machine can carry pods worth more than its price.
    pub(crate) worth: Vec<f64>,
    /// What all pods are worth: no plan costs less.
    pub(crate) bound: f64,
    pub(crate) patterns: Vec<Pattern>,
}

impl Problem {
    /// Looks for patterns by column generation, from what pods are worth in fractions and from
    /// some patterns that are known.
    /// `effort` is the number of steps that the searches may take.
    pub(crate) fn patterns(&self, fluid: &Fluid, start: &[Pattern], effort: usize) -> Patterns {
        let counts = self.counts();
        let needs: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
        let alone = (0..self.asked.len()).map(|class| self.pattern_alone(class)).collect();
        let mut master = Master::new(&needs, alone);
        for pattern in start {
            master.enter(self.column(pattern));
        }
        let mut best = (fluid.bound, fluid.worth.clone());
        let mut asked = fluid.worth.clone();
        let mut steps = effort;
        let mut is_smooth = true;
        let mut thorough = QUICK;
        while steps > 0 && best.0 < master.price() * (1.0 - CLOSE) {
            let mut found: Vec<(f64, Column)> = Vec::new();
            // By how much the worths could be raised, or have to be lowered, to hold everywhere.
            let mut rate: f64 = 0.0;
            for (at, machine) in self.machines.iter().enumerate() {
                let price = machine.price.max(1e-12);
                let items = self.items(at, &asked, &counts);
                let rates = fraction(&items).rates;
                let loose = rates.iter().sum::<f64>();
                if loose <= price * rate.min(0.99) {
                    continue;
                }
                steps = steps.saturating_sub(items.len());
                let filled = whole(items, &machine.room, &rates, thorough);
                steps = steps.saturating_sub(filled.steps);
                rate = rate.max(filled.most.min(loose) / price);
                let carries = filled.carries;
                found.push((
                    filled.worth / price,
                    self.column(&Pattern { machine: at, carries, amount: 0.0 }),
                ));
            }
            let worth: Vec<f64> =
                asked.iter().map(|worth| worth / (rate * (1.0 + 1e-8)).max(1e-12)).collect();
            let bound = worth.iter().zip(&needs).map(|(worth, need)| worth * need).sum();
            if bound > best.0 {
                best = (bound, worth);
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.machine.cmp(&b.1.machine)));
            let mut improved = false;
            for (_, column) in found {
                improved |= master.enter(column);
            }
            master.drop_surplus();
            if !improved && !is_smooth {
                thorough *= 8;
            }
            is_smooth = improved || !is_smooth;
            let smooth = if is_smooth { SMOOTH } else { 0.0 };
            let mix = |(held, new): (&f64, &f64)| smooth * held + (1.0 - smooth) * new.max(0.0);
            asked = best.1.iter().zip(&master.worth).map(mix).collect();
        }
        let mut patterns = Vec::new();
        for (column, amount) in master.basis.iter().zip(&master.amounts) {
            if let (Some(machine), true) = (column.machine, *amount > 1e-7) {
                let carries = column.carries.iter().map(|(at, n)| (*at, n.round() as u32));
                patterns.push(Pattern { machine, carries: carries.collect(), amount: *amount });
            }
        }
        Patterns { bound: best.0, worth: best.1, patterns }
    }

    fn column(&self, pattern: &Pattern) -> Column {
        let carries = pattern.carries.iter().map(|(at, n)| (*at, f64::from(*n))).collect();
        let price = self.machines[pattern.machine].price;
        Column { machine: Some(pattern.machine), price, carries }
    }

    fn pattern_alone(&self, class: usize) -> Column {
        let asked = &self.asked[class];
        let mut best = Column { machine: None, price: 1e9, carries: vec![(class, 1.0)] };
        for (at, machine) in self.machines.iter().enumerate() {
            if !self.carries(at, class) {
                continue;
            }
            let most = asked.most.min(asked.count).max(1);
            let count = f64::from(super::fits(&machine.room, &asked.size).min(most));
            if machine.price / count < best.price / best.carries[0].1 {
                let carries = vec![(class, count)];
                best = Column { machine: Some(at), price: machine.price, carries };
            }
        }
        best
    }
}
