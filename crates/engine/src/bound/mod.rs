//! How little money any plan could cost: a valid lower bound, and what pods are worth by it.
//!
//! Every class of pods gets a worth per pod such that no machine can carry pods worth more than
//! the machine's price. Whatever the machines of a plan are, they then cost at least what the
//! pods are worth together. Such worths come from a linear program in which machines are bought
//! in fractions ([`Problem::fluid`]: pods too; [`Generator`]: pods whole), and are scaled
//! down at the end until they hold for every machine, so that a bound is valid however far the
//! linear program was solved.

mod fluid;
mod knapsack;
mod master;
mod patterns;
mod whole;

pub(crate) use fluid::Fluid;
use knapsack::scale;
pub(crate) use knapsack::{Item, fits, fraction};
pub(crate) use patterns::{Generator, Pattern};
pub(crate) use whole::{Depth, whole};

/// How many dimensions a bound looks at.
pub(crate) const SIZES: usize = 8;
/// How much of a machine is wasted, as a part of what an average pod takes of it, and at most.
const WASTE: f64 = 0.1;
const MOST_WASTE: f64 = 0.05;
/// An amount of each dimension.
pub(crate) type Size = [i64; SIZES];

/// Pods that are the same to a plan.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) size: Size,
    pub(crate) count: u32,
    /// The most that one machine may carry.
    pub(crate) most: u32,
    /// Which machines it may have: an index of [`Machine::open`].
    pub(crate) group: usize,
}

/// A machine that may be bought any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) room: Size,
    /// USD per hour.
    pub(crate) price: f64,
    /// Which groups of pods it is open to.
    pub(crate) open: Vec<bool>,
}

/// Pods and machines; every class has a machine that holds one of its pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    pub(crate) asked: Vec<Asked>,
    pub(crate) machines: Vec<Machine>,
}

impl Problem {
    /// The same with machines a little dearer the larger a part of them a pod takes: small ones
    /// waste more room when pods are whole.
    pub(crate) fn with_waste(&self) -> Self {
        let waste = |machine: usize| {
            let fitting = (0..self.asked.len()).filter(|class| self.carries(machine, *class));
            let (mut pods, mut parts) = (0.0, 0.0);
            for asked in fitting.map(|class| &self.asked[class]) {
                pods += f64::from(asked.count);
                let share = self.share(machine, &asked.size);
                parts += f64::from(asked.count) * share.iter().fold(0.0, |a: f64, b| a.max(*b));
            }
            (WASTE * parts / f64::max(pods, 1.0)).min(MOST_WASTE)
        };
        let dearer = |(at, machine): (usize, &Machine)| Machine {
            price: machine.price * (1.0 + waste(at)),
            ..machine.clone()
        };
        let machines = self.machines.iter().enumerate().map(dearer).collect();
        Self { asked: self.asked.clone(), machines }
    }

    /// How many pairs of a class and a machine there are: what solving it costs grows with them.
    pub(crate) fn pairs(&self) -> usize {
        self.asked.len().saturating_mul(self.machines.len())
    }

    /// Whether a machine can carry a pod of a class.
    pub(crate) fn carries(&self, machine: usize, class: usize) -> bool {
        let (machine, asked) = (&self.machines[machine], &self.asked[class]);
        machine.open[asked.group]
            && asked.size.iter().zip(&machine.room).all(|(size, room)| size <= room)
    }

    /// What a pod takes of a machine in each dimension.
    fn share(&self, machine: usize, size: &Size) -> [f64; SIZES] {
        let room = &self.machines[machine].room;
        std::array::from_fn(
            |at| if size[at] <= 0 { 0.0 } else { size[at] as f64 / room[at] as f64 },
        )
    }

    /// The classes that a machine can carry, as it sees them. `counts` says how many pods of each
    /// there are.
    pub(crate) fn items(&self, machine: usize, worth: &[f64], counts: &[u32]) -> Vec<Item> {
        let classes = (0..self.asked.len()).filter(|class| counts[*class] > 0);
        let classes = classes.filter(|class| self.carries(machine, *class));
        let item = |class: usize| {
            let most = self.asked[class].most.min(counts[class]);
            self.item(machine, class, &self.asked[class].size, worth[class], most)
        };
        classes.map(item).collect()
    }

    fn item(&self, machine: usize, class: usize, size: &Size, worth: f64, most: u32) -> Item {
        let share = self.share(machine, size);
        Item { class, worth, share, size: *size, scale: scale(&share), most }
    }
}
