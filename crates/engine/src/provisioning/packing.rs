//! Which machines to buy for which pods, for the least money.
//!
//! Pods are counted by class; a strategy fills machines with counts and repeats a good machine as
//! often as it can. Several strategies run, the cheapest result wins; among equals the one with
//! fewer machines, then the first. Small remainders are solved exactly.

mod exact;
mod fill;
mod limited;
mod machine;
mod market;
mod mix;
mod order;
mod parity;
mod priced;
mod refine;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use self::machine::Notes;
use super::domain::{Domains, Item};
use super::tally::{Rule, Tally};
use crate::cost::Price;
use crate::limits::Headroom;
use crate::snapshot::{PackingRule, Settings};

/// Pods of one class that need machines.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Their constraints: a group of the market's domains.
    pub(crate) group: usize,
    /// What one of them asks for, by dimension.
    pub(crate) request: Vec<i64>,
    pub(crate) priority: i32,
    pub(crate) count: u32,
    /// With which pods they may share a machine.
    pub(crate) rule: Rule,
}

/// Equal machines that carry equal pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bin {
    /// What the machines may be.
    pub(crate) domain: usize,
    /// The cheapest that holds the pods.
    pub(crate) item: Item,
    /// What the pods of one machine ask for.
    pub(crate) load: Vec<i64>,
    /// How many pods of each demand one machine carries.
    pub(crate) counts: Vec<u32>,
    /// How many such machines.
    pub(crate) copies: u32,
}

/// Machines for pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packing {
    pub(crate) bins: Vec<Bin>,
    /// How many pods of each demand got no place.
    pub(crate) left: Vec<u32>,
    pub(crate) bound: Bound,
}

/// What the packed pods cost at least, however they are packed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bound {
    /// USD per hour.
    pub(crate) usd: f64,
    /// What a pod of each demand is worth, in USD per hour; empty if every way to pack was tried.
    pub(crate) worth: Vec<f64>,
    /// Constraints that it leaves out.
    pub(crate) ignores: Vec<String>,
}

impl Packing {
    pub(crate) fn price(&self) -> Price {
        self.bins.iter().map(|bin| bin.item.price.times(bin.copies)).sum()
    }

    fn is_better(&self, other: &Self) -> bool {
        let machines = |packing: &Self| packing.bins.iter().map(|bin| u64::from(bin.copies)).sum();
        let unplaced = |packing: &Self| packing.left.iter().map(|count| u64::from(*count)).sum();
        let key = |packing: &Self| -> (u64, Price, u64) {
            (unplaced(packing), packing.price(), machines(packing))
        };
        key(self).cmp(&key(other)) == Ordering::Less
    }

    fn keep_better(best: &mut Option<Self>, other: Self) {
        if best.as_ref().is_none_or(|best| other.is_better(best)) {
            *best = Some(other);
        }
    }
}

/// Packs pods into new machines. `limits` holds what each pool of the market may still buy, and is
/// respected; pods of higher priority come first where it binds.
pub(crate) fn pack(
    domains: &mut Domains<'_, '_>,
    demands: &[Demand],
    limits: &[Headroom],
    settings: &Settings,
) -> Packing {
    let mut packer = Packer::new(domains, demands);
    let counts: Vec<u32> = demands.iter().map(|demand| demand.count).collect();
    let packing = match settings.packing {
        PackingRule::Price => packer.unlimited(&counts, settings.refine),
        PackingRule::Karpenter => packer.parity(&counts),
    };
    let by_price = settings.packing == PackingRule::Price;
    let is_within = packer.respects(&packing, limits);
    let mut packing = if is_within { packing } else { packer.limited(limits) };
    if !is_within || !by_price {
        packing.bound = packer.bound(&placed(demands, &packing.left));
    }
    packing
}

/// What the pods that got a place cost at least: all but `left` of each demand.
pub(crate) fn bound(domains: &mut Domains<'_, '_>, demands: &[Demand], left: &[u32]) -> Bound {
    Packer::new(domains, demands).bound(&placed(demands, left))
}

fn placed(demands: &[Demand], left: &[u32]) -> Vec<u32> {
    demands.iter().zip(left).map(|(demand, left)| demand.count - left).collect()
}

/// A machine to fill: a shape of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    store: usize,
    shape: usize,
}

struct Packer<'p, 'm, 'a> {
    domains: &'p mut Domains<'m, 'a>,
    demands: &'p [Demand],
    /// What each demand is worth: the least that one of its pods can cost, in billionths.
    worth: Vec<u64>,
    /// Which demands have the same rule.
    rules: Vec<usize>,
    notes: Notes,
    targets: Vec<Target>,
    /// Orders in which demands are tried.
    orders: Vec<Vec<usize>>,
    /// Whether some pods need others beside them.
    needy: bool,
    /// Whether some pods mind who is beside them.
    ruled: bool,
    /// Steps that refining has taken.
    spent: u64,
    /// Exact solutions for each demand by itself.
    alone: Vec<Option<exact::Alone>>,
    /// Exact solutions of small remainders.
    solved: BTreeMap<Vec<u32>, Vec<Bin>>,
}

impl<'p, 'm, 'a> Packer<'p, 'm, 'a> {
    fn new(domains: &'p mut Domains<'m, 'a>, demands: &'p [Demand]) -> Self {
        let mut known: BTreeMap<&Rule, usize> = BTreeMap::new();
        let mut rules = Vec::with_capacity(demands.len());
        for demand in demands {
            let next = known.len();
            rules.push(*known.entry(&demand.rule).or_insert(next));
        }
        let mut packer = Self {
            domains,
            demands,
            worth: Vec::new(),
            notes: Notes::new(demands.len(), known.len()),
            rules,
            targets: Vec::new(),
            orders: Vec::new(),
            needy: demands.iter().any(|demand| !demand.rule.needs.is_empty()),
            ruled: demands.iter().any(|demand| !demand.rule.is_free()),
            spent: 0,
            alone: vec![None; demands.len()],
            solved: BTreeMap::new(),
        };
        let mut groups: BTreeMap<usize, (Vec<usize>, usize)> = BTreeMap::new();
        let mut least: BTreeMap<(usize, &[i64]), u64> = BTreeMap::new();
        let mut freedom = Vec::new();
        for demand in demands {
            let (first, items) = groups.entry(demand.group).or_insert_with(|| {
                let first = packer.first_domains(demand.group);
                let items = first.iter().map(|id| packer.domains.get(*id).offers.iter().count());
                let items = items.sum();
                for id in &first {
                    let store = packer.domains.get(*id).store;
                    let shapes = packer.domains.menu(*id).iter().map(|item| item.shape);
                    packer.targets.extend(shapes.map(|shape| Target { store, shape }));
                }
                (first, items)
            });
            freedom.push(*items);
            let worth = *least.entry((demand.group, &*demand.request)).or_insert_with(|| {
                let costs = first.iter().flat_map(|id| packer.costs(*id, &demand.request));
                costs.min().map_or(0, |cost| (cost >> SHARE_BITS).max(1))
            });
            packer.worth.push(worth);
        }
        packer.targets.sort_unstable();
        packer.targets.dedup();
        packer.orders = packer.orders_of(&freedom);
        packer
    }

    /// What one pod costs on each machine of a domain: its share of the price, with
    /// [`SHARE_BITS`] bits behind the point.
    fn costs(&self, domain: usize, request: &[i64]) -> impl Iterator<Item = u64> {
        let shapes = &self.domains.store(domain).shapes;
        self.domains.menu(domain).iter().filter_map(move |item| {
            let share = share(&shapes[item.shape].room, request)?;
            Some(share.saturating_mul(item.price.nano()))
        })
    }

    /// What a new machine may be with a pod of `group`.
    fn first_domains(&mut self, group: usize) -> Vec<usize> {
        let stores = 0..self.domains.stores.len();
        stores.flat_map(|root| self.domains.join(root, group).to_vec()).collect()
    }

    fn orders_of(&self, freedom: &[usize]) -> Vec<Vec<usize>> {
        let by = |key: &dyn Fn(usize) -> (usize, i64)| {
            let mut order: Vec<usize> = (0..self.demands.len()).collect();
            order.sort_by(|a, b| key(*a).cmp(&key(*b)).then(a.cmp(b)));
            order
        };
        let worth = |at: usize| -i64::try_from(self.worth[at]).unwrap_or(i64::MAX);
        let mut orders = vec![by(&|at| (0, worth(at))), by(&|at| (freedom[at], worth(at)))];
        for dimension in 0..self.demands.first().map_or(0, |demand| demand.request.len()) {
            orders.push(by(&|at| (0, self.demands[at].request[dimension].saturating_neg())));
        }
        let mut kept: Vec<Vec<usize>> = Vec::new();
        for order in orders {
            if !kept.contains(&order) {
                kept.push(order);
            }
        }
        kept
    }

    /// The best packing without regard to limits.
    fn unlimited(&mut self, counts: &[u32], refine: u64) -> Packing {
        let mut placeable = counts.to_vec();
        for (at, count) in placeable.iter_mut().enumerate() {
            if !self.fits_alone(at, &[]) {
                *count = 0;
            }
        }
        let unplaceable: Vec<u32> = counts.iter().zip(&placeable).map(|(a, b)| a - b).collect();
        let mut packing = match self.solve(&placeable, exact::LARGE) {
            Some(bins) => self.proved(bins, &placeable),
            None if refine == 0 => {
                let packing = self.heuristic(&placeable);
                Packing { bound: self.quick_bound(&placeable), ..packing }
            }
            None => {
                let mut known = Some(self.heuristic(&placeable));
                if placeable.iter().map(|count| u64::from(*count)).sum::<u64>() <= FEW {
                    Packing::keep_better(&mut known, self.parity(&placeable));
                }
                self.refined(&placeable, known.unwrap_or_default(), refine)
            }
        };
        packing.left.iter_mut().zip(unplaceable).for_each(|(left, more)| *left += more);
        packing
    }

    /// A packing that is the cheapest, or nearly: the best of very many pods that are all alike.
    fn proved(&mut self, bins: Vec<Bin>, counts: &[u32]) -> Packing {
        let left = vec![0; counts.len()];
        let mut packing = Packing { bins, left, bound: Bound::default() };
        packing.bound = match exact::is_exact(counts) {
            true => Bound { usd: packing.price().usd(), ..Bound::default() },
            false => self.bound(counts),
        };
        packing
    }

    /// What these pods cost at least if machines could be bought in fractions and had all but one
    /// resource for nothing: a bound that costs next to no time.
    fn quick_bound(&mut self, counts: &[u32]) -> Bound {
        let dimensions = self.demands.first().map_or(0, |demand| demand.request.len());
        let mut rates: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for demand in self.demands {
            if rates.contains_key(&demand.group) {
                continue;
            }
            let mut least = vec![f64::INFINITY; dimensions];
            for domain in self.first_domains(demand.group) {
                let shapes = &self.domains.store(domain).shapes;
                for item in self.domains.menu(domain) {
                    for (least, room) in least.iter_mut().zip(&shapes[item.shape].room) {
                        if *room > 0 {
                            *least = least.min(item.price.usd() / *room as f64);
                        }
                    }
                }
            }
            rates.insert(demand.group, least);
        }
        let worth = |dimension: usize| -> Vec<f64> {
            let of = |(demand, count): (&Demand, &u32)| match rates[&demand.group][dimension] {
                rate if *count > 0 && rate.is_finite() => {
                    rate * demand.request[dimension].max(0) as f64
                }
                _ => 0.0,
            };
            self.demands.iter().zip(counts).map(of).collect()
        };
        let total = |worth: &[f64]| -> f64 {
            worth.iter().zip(counts).map(|(worth, count)| worth * f64::from(*count)).sum()
        };
        let bounds = (0..dimensions).map(worth).map(|worth| (total(&worth), worth));
        let (usd, worth) = bounds.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        let ignores = vec!["all resources but the scarcest".to_owned()];
        Bound { usd, worth, ignores }
    }

    /// What these pods cost at least.
    fn bound(&mut self, counts: &[u32]) -> Bound {
        if counts.iter().all(|count| *count == 0) {
            return Bound::default();
        }
        let market = self.market(counts);
        if market.problem.pairs() > refine::PAIRS {
            return self.quick_bound(counts);
        }
        let fluid = market.problem.fluid();
        market.bound(fluid.bound, &fluid.worth, counts.len())
    }

    /// Whether one pod of the demand can have a machine.
    fn fits_alone(&mut self, at: usize, limits: &[Headroom]) -> bool {
        let demand = &self.demands[at];
        let domains = self.first_domains(demand.group);
        domains.iter().any(|id| self.domains.cheapest(*id, &demand.request, limits).is_some())
    }

    /// Who is on a machine that carries `counts`.
    fn tally(&self, counts: &[u32]) -> Tally {
        let mut tally = Tally::default();
        let some = self.demands.iter().zip(counts).filter(|(_, count)| **count > 0);
        some.for_each(|(demand, count)| tally.join(&demand.rule, *count));
        tally
    }

    fn respects(&self, packing: &Packing, limits: &[Headroom]) -> bool {
        let mut limits = limits.to_vec();
        packing.bins.iter().all(|bin| {
            let machine = self.domains.machine(bin);
            let headroom = &mut limits[self.domains.get(bin.domain).store];
            let enough = headroom.copies(&machine) >= bin.copies;
            headroom.take(&machine, bin.copies);
            enough
        })
    }
}

/// Up to how many pods Karpenter's rule is one of the strategies.
const FEW: u64 = 5_000;

/// Shares of a machine are counted in 2^-20ths.
const SHARE_BITS: u32 = 20;

/// The largest share of `room` that `request` takes of any dimension; `None` if it does not fit.
pub(super) fn share(room: &[i64], request: &[i64]) -> Option<u64> {
    let mut largest = 0;
    for (room, request) in room.iter().zip(request).filter(|(_, request)| **request > 0) {
        if request > room {
            return None;
        }
        // They are positive, and the share is at most one.
        let share = match request.checked_mul(1 << SHARE_BITS) {
            Some(scaled) => scaled.unsigned_abs() / room.unsigned_abs(),
            None => ((i128::from(*request) << SHARE_BITS) / i128::from(*room)) as u64,
        };
        largest = largest.max(share);
    }
    Some(largest)
}
