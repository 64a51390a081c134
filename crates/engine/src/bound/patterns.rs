//! The bound of a market in which machines may be bought in fractions, pods only whole.

use super::knapsack::{Item, fraction};
use super::master::{Column, Master};
use super::whole::{Depth, whole};
use super::{Fluid, Problem};

/// How near to each other the two sides of the linear program must come.
const CLOSE: f64 = 3e-4;
/// How much of the worths that held best goes into the next ones to be tried.
const SMOOTH: f64 = 0.6;
/// How far machines are searched for patterns; further when no better pattern is found.
const DEPTHS: [Depth; 4] = [
    Depth { large: 0.3, steps: 100 },
    Depth { large: 0.15, steps: 300 },
    Depth { large: 0.08, steps: 1000 },
    Depth { large: 0.03, steps: 4000 },
];
/// How many machines are searched in a round that need not bound anything.
const FEW: usize = 8;

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

/// Finds patterns by column generation, and keeps them for when fewer pods are left.
pub(crate) struct Generator<'p> {
    problem: &'p Problem,
    /// All classes as each machine sees them.
    views: Vec<Vec<Item>>,
    known: Vec<Pattern>,
    /// Steps that have been taken.
    pub(crate) spent: usize,
}

impl<'p> Generator<'p> {
    /// Starts from some patterns that are known.
    pub(crate) fn new(problem: &'p Problem, known: Vec<Pattern>) -> Self {
        let counts: Vec<u32> = problem.asked.iter().map(|asked| asked.count).collect();
        let nothing = vec![0.0; counts.len()];
        let machines = 0..problem.machines.len();
        let views = machines.map(|at| problem.items(at, &nothing, &counts)).collect();
        Self { problem, views, known, spent: 0 }
    }

    /// The patterns that carry all pods for the least money, and the bound that they come near
    /// to. `fluid` holds worths that are known to hold; `effort` is how many steps to take.
    pub(crate) fn bounded(&mut self, fluid: &Fluid, effort: usize) -> Patterns {
        let counts: Vec<u32> = self.problem.asked.iter().map(|asked| asked.count).collect();
        let mut rows = Rows::new(self.problem, &counts);
        let end = self.spent + effort;
        let mut best = (fluid.bound, fluid.worth.clone());
        let mut depth = 0;
        let mut is_smooth = true;
        while self.spent < end && best.0 < rows.master.price() * (1.0 - CLOSE) {
            rows.enter_known(&self.known, &counts);
            let held = if is_smooth { SMOOTH } else { 0.0 };
            let now = rows.worth(counts.len());
            let mix = |(held_worth, now): (&f64, f64)| held * held_worth + (1.0 - held) * now;
            let asked: Vec<f64> = best.1.iter().zip(now).map(mix).collect();
            let (rate, found) = self.search(&asked, &counts, DEPTHS[depth], usize::MAX);
            let rate = (rate * (1.0 + 1e-8)).max(1e-12);
            let worth: Vec<f64> = asked.iter().map(|worth| worth / rate).collect();
            let bound = worth.iter().zip(&counts).map(|(w, count)| w * f64::from(*count)).sum();
            let mut is_news = bound > best.0 * (1.0 + CLOSE / 10.0);
            if bound > best.0 {
                best = (bound, worth);
            }
            for pattern in found {
                is_news |= rows.enter(&pattern, &counts);
                self.known.push(pattern);
            }
            rows.master.drop_surplus();
            if !is_news && !is_smooth {
                depth += 1;
                if depth == DEPTHS.len() {
                    break;
                }
            }
            is_smooth = is_news || !is_smooth;
        }
        Patterns { bound: best.0, worth: best.1, patterns: rows.patterns() }
    }

    /// Patterns that carry `counts` pods, found in a few `rounds`.
    pub(crate) fn quick(&mut self, counts: &[u32], rounds: usize) -> Vec<Pattern> {
        let mut rows = Rows::new(self.problem, counts);
        for round in 0..=rounds {
            rows.enter_known(&self.known, counts);
            if round == rounds {
                break;
            }
            let asked = rows.worth(counts.len());
            let (_, found) = self.search(&asked, counts, DEPTHS[1], FEW);
            let mut is_news = false;
            for pattern in found {
                is_news |= rows.enter(&pattern, counts);
                self.known.push(pattern);
            }
            rows.master.drop_surplus();
            if !is_news {
                break;
            }
        }
        rows.patterns()
    }

    /// A pattern for each machine that promises most at these worths, best first, and the most
    /// that pods on any machine can be worth for its price if `few` leaves no machine out.
    fn search(
        &mut self,
        worth: &[f64],
        counts: &[u32],
        depth: Depth,
        few: usize,
    ) -> (f64, Vec<Pattern>) {
        let mut machines: Vec<(f64, usize, Vec<Item>)> = Vec::new();
        for (at, machine) in self.problem.machines.iter().enumerate() {
            let some = self.views[at]
                .iter()
                .filter(|item| counts[item.class] > 0 && worth[item.class] > 0.0);
            let items: Vec<Item> = some
                .map(|item| Item {
                    worth: worth[item.class],
                    most: item.most.min(counts[item.class]),
                    ..*item
                })
                .collect();
            let loose = fraction(&items).worth() / machine.price.max(1e-12);
            machines.push((loose, at, items));
        }
        self.spent += machines.len();
        machines.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut rate: f64 = 0.0;
        let mut found: Vec<(f64, Pattern)> = Vec::new();
        for (loose, machine, items) in machines.into_iter().take(few) {
            if loose <= rate {
                break;
            }
            let Problem { machines, .. } = self.problem;
            let filled = whole(items, &machines[machine].room, depth);
            self.spent += filled.steps;
            let price = machines[machine].price.max(1e-12);
            rate = rate.max(filled.most.min(loose * price) / price);
            let pattern = Pattern { machine, carries: filled.carries, amount: 0.0 };
            found.push((filled.worth / price, pattern));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.machine.cmp(&b.1.machine)));
        (rate, found.into_iter().map(|(_, pattern)| pattern).collect())
    }
}

/// The linear program over the classes that have pods.
struct Rows<'p> {
    problem: &'p Problem,
    master: Master,
    /// The row of each class that has pods, and the class of each row.
    of: Vec<Option<usize>>,
    classes: Vec<usize>,
}

impl<'p> Rows<'p> {
    fn new(problem: &'p Problem, counts: &[u32]) -> Self {
        let classes: Vec<usize> = (0..counts.len()).filter(|class| counts[*class] > 0).collect();
        let mut of = vec![None; counts.len()];
        classes.iter().enumerate().for_each(|(row, class)| of[*class] = Some(row));
        let needs: Vec<f64> = classes.iter().map(|class| f64::from(counts[*class])).collect();
        let alone = classes.iter().enumerate();
        let alone = alone.map(|(row, class)| alone_in(problem, *class, row, counts[*class]));
        let master = Master::new(&needs, alone.collect());
        Self { problem, master, of, classes }
    }

    /// What a pod of each class is worth; nothing if there is none.
    fn worth(&self, classes: usize) -> Vec<f64> {
        let mut worth = vec![0.0; classes];
        let found = self.classes.iter().zip(&self.master.worth);
        found.for_each(|(class, found)| worth[*class] = found.max(0.0));
        worth
    }

    /// Enters what the pods that are left allow of a pattern, if that saves money.
    fn enter(&mut self, pattern: &Pattern, counts: &[u32]) -> bool {
        let price = self.problem.machines[pattern.machine].price;
        let carried = |(class, n): &(usize, u32)| {
            Some((self.of[*class]?, f64::from((*n).min(counts[*class]))))
        };
        let worth: f64 = pattern
            .carries
            .iter()
            .filter_map(carried)
            .map(|(row, n)| self.master.worth[row] * n)
            .sum();
        if worth <= price {
            return false;
        }
        let carries = pattern.carries.iter().filter_map(carried).collect();
        self.master.enter(Column { machine: Some(pattern.machine), price, carries })
    }

    /// Enters known patterns until none saves money any more.
    fn enter_known(&mut self, known: &[Pattern], counts: &[u32]) {
        for _ in 0..PASSES {
            let mut is_news = false;
            for pattern in known {
                is_news |= self.enter(pattern, counts);
            }
            self.master.drop_surplus();
            if !is_news {
                break;
            }
        }
    }

    fn patterns(&self) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        for (column, amount) in self.master.basis.iter().zip(&self.master.amounts) {
            if let (Some(machine), true) = (column.machine, *amount > 1e-7) {
                let pods = |(row, n): &(usize, f64)| (self.classes[*row], n.round() as u32);
                let carries = column.carries.iter().map(pods).collect();
                patterns.push(Pattern { machine, carries, amount: *amount });
            }
        }
        patterns
    }
}

/// How often all known patterns are gone through.
const PASSES: usize = 20;

/// The machine that carries pods of one class for the least money each.
fn alone_in(problem: &Problem, class: usize, row: usize, count: u32) -> Column {
    let asked = &problem.asked[class];
    let mut best = Column { machine: None, price: 1e9, carries: vec![(row, 1.0)] };
    for (at, machine) in problem.machines.iter().enumerate() {
        if !problem.carries(at, class) {
            continue;
        }
        let most = asked.most.min(count).max(1);
        let carried = f64::from(super::fits(&machine.room, &asked.size).min(most));
        if machine.price / carried < best.price / best.carries[0].1 {
            let carries = vec![(row, carried)];
            best = Column { machine: Some(at), price: machine.price, carries };
        }
    }
    best
}
