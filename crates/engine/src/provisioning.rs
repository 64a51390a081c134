//! Capacity for pods that wait: what is there first, then new claims for the least money.

mod bits;
mod class;
mod domain;
mod elimination;
mod existing;
mod kinds;
mod launch;
mod lot;
mod market;
mod min_values;
mod narrowing;
mod packing;
mod pending;
mod preemption;
mod preferences;
mod promise;
mod reasons;
pub(crate) mod replicas;
mod reserved;
mod tally;
mod topology;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels;
use jiff::Timestamp;

use self::class::Class;
use self::domain::{Domains, Group};
use self::launch::Draft;
use self::lot::{Lot, Taken};
use self::market::{Dimensions, Scope, Store};
use self::packing::{Demand, Packing};
use self::reserved::Reservations;
use self::topology::{Caps, Settled};
use crate::limits::Headroom;
use crate::plan::{Launch, Nomination};
use crate::pod::PodKey;
use crate::report::{Certificate, LaunchReport, LeftOut, PoolProblem, Unplaced, Worth};
use crate::residents::Residents;
use crate::snapshot::{Hold, MinValuesPolicy, Pool, Snapshot};

pub use promise::{Promised, promised};

/// What is to be done for the pods that wait.
#[derive(Default)]
pub(crate) struct Provisioning {
    pub(crate) launches: Vec<(Launch, LaunchReport)>,
    pub(crate) nominations: Vec<Nomination>,
    /// Names of the machines that pods are expected on, promised ones included.
    pub(crate) expecting: BTreeSet<String>,
    pub(crate) unplaced: Vec<Unplaced>,
    pub(crate) waiting: Vec<PodKey>,
    pub(crate) problems: Vec<PoolProblem>,
    pub(crate) next: Option<Timestamp>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) certificate: Certificate,
}

/// Finds a place for every pod that waits, or the reason why there is none.
pub(crate) fn provision(
    snapshot: &Snapshot,
    residents: &Residents<'_>,
    now: Timestamp,
) -> Provisioning {
    let plain = as_required(snapshot, None, residents, now);
    preferences::honoured(plain, snapshot, now)
}

/// The same without regard to what pods would merely like. `origin` is the snapshot before wishes
/// became demands, if they did.
fn as_required(
    snapshot: &Snapshot,
    origin: Option<&Snapshot>,
    residents: &Residents<'_>,
    now: Timestamp,
) -> Provisioning {
    let mut pending = pending::pending(snapshot, residents, now);
    if let Some(origin) = origin {
        pending.known_as_in(origin, snapshot);
    }
    let mut caps = Caps::new();
    let mut provisioning = Provisioning::default();
    for _ in 0..TRIES {
        let settled =
            topology::settle(&pending.classes, &mut pending.sets, snapshot, residents, &caps);
        let given = settled.given.clone();
        let stuck = provisioning.fill(settled, snapshot, residents, now);
        // Where a domain could not take its share, the others get theirs anew.
        let mut is_news = false;
        for (key, left) in stuck {
            let Some(given) = given.get(&key) else { continue };
            caps.insert(key, given.saturating_sub(left));
            is_news = true;
        }
        if !is_news {
            break;
        }
    }
    elimination::explain(&mut provisioning.unplaced, snapshot, &provisioning.launches);
    provisioning.unplaced.extend(pending.unplaced);
    provisioning.unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    provisioning.waiting = pending.waiting;
    provisioning.next = provisioning.next.into_iter().chain(pending.next).min();
    provisioning.left_out = pending.left_out;
    provisioning
}

/// How often domains are shared out anew because some could not take their share.
const TRIES: usize = 3;

impl Provisioning {
    /// Makes the plan for pods whose domains are settled. Returns what is left over of pods that
    /// are kept to one value of a key.
    fn fill(
        &mut self,
        settled: Settled,
        snapshot: &Snapshot,
        residents: &Residents<'_>,
        now: Timestamp,
    ) -> Vec<((usize, String, String), u32)> {
        let Settled { mut lots, refused, tallies, .. } = settled;
        let placed = existing::place(&mut lots, snapshot, residents, &tallies);
        *self = Self {
            nominations: placed.nominations,
            expecting: placed.expecting,
            ..Self::default()
        };
        for (class, message) in refused {
            self.refuse(&class, &message);
        }
        self.hold_back(&mut lots, snapshot, now);
        lots.retain(|lot| lot.count() > 0);
        if lots.is_empty() {
            return Vec::new();
        }
        self.order(&mut lots, snapshot);
        let mut stuck = Vec::new();
        for lot in &lots {
            let pods = |part: &Class| if lot.bundle { 1 } else { part.count() };
            for (key, values) in lot.pins.iter().filter(|(_, values)| values.len() == 1) {
                let parts = lot.parts.iter().filter(|part| part.count() > 0);
                stuck.extend(parts.map(|p| ((p.index, key.clone(), values[0].clone()), pods(p))));
            }
        }
        stuck
    }

    /// Orders nothing yet for pods that did not make use of what was ordered for them.
    fn hold_back(&mut self, lots: &mut [Lot], snapshot: &Snapshot, now: Timestamp) {
        if snapshot.holds.is_empty() {
            return;
        }
        for part in lots.iter_mut().flat_map(|lot| &mut lot.parts) {
            part.pods.retain(|pod| {
                let hold = snapshot.holds.get(&pod.uid).filter(|hold| hold.until > now);
                let Some(Hold { machines, until }) = hold else { return true };
                self.unplaced.push(Unplaced {
                    pod: (pod.namespace.clone(), pod.name.clone()),
                    message: format!(
                        "{machines} machines came up for it, and it does not run on them: the next \
                         is ordered at {until}"
                    ),
                    reasons: Vec::new(),
                });
                self.next = self.next.into_iter().chain([*until]).min();
                false
            });
        }
    }

    fn refuse(&mut self, class: &Class, message: &str) {
        self.unplaced.extend(class.pods.iter().map(|pod| Unplaced {
            pod: (pod.namespace.clone(), pod.name.clone()),
            message: message.to_owned(),
            reasons: Vec::new(),
        }));
    }

    /// Orders new claims, from the pools of the highest weight first.
    fn order(&mut self, lots: &mut [Lot], snapshot: &Snapshot) {
        let dynamic = |pool: &&Pool| pool.usable.is_ok() && pool.replicas.is_none();
        let mut pools: Vec<&Pool> = snapshot.pools.iter().filter(dynamic).collect();
        pools.sort_by_key(|pool| (Reverse(pool.weight), &pool.name));
        let dimensions = Dimensions::of(lots.iter().map(|lot| &*lot.sample));
        let mut stores: Vec<Store<'_>> = Vec::new();
        let mut limits: Vec<Headroom> = Vec::new();
        let mut reservations = Reservations::of(snapshot);
        for tier in pools.chunk_by(|a, b| a.weight == b.weight) {
            if lots.iter().all(|lot| lot.count() == 0) {
                break;
            }
            let mut left: BTreeMap<&str, Headroom> =
                tier.iter().map(|p| (&*p.name, Headroom::of(p, &snapshot.nodes))).collect();
            for pool in tier {
                let Some(left) = left.get_mut(&*pool.name) else { continue };
                self.buy_reserved(pool, &mut reservations, lots, left, &dimensions, snapshot);
            }
            let mut opened = self.open(tier, Scope::Open, lots, &dimensions, snapshot);
            let headroom_of = |opened: &[Store<'_>], left: &BTreeMap<&str, Headroom>| {
                opened.iter().filter_map(|store| left.get(&*store.pool.name).cloned()).collect()
            };
            let mut headroom: Vec<Headroom> = headroom_of(&opened, &left);
            self.buy(&opened, lots, &mut headroom, &dimensions, snapshot);
            let best_effort = snapshot.settings.min_values == MinValuesPolicy::BestEffort;
            let wants = |pool: &&Pool| pool.requirements.iter().any(|r| r.min_values.is_some());
            if best_effort && tier.iter().any(wants) {
                let bought = opened.iter().zip(headroom);
                left.extend(bought.map(|(store, headroom)| (&*store.pool.name, headroom)));
                opened = self.open(tier, Scope::Relaxed, lots, &dimensions, snapshot);
                headroom = headroom_of(&opened, &left);
                self.buy(&opened, lots, &mut headroom, &dimensions, snapshot);
            }
            stores.extend(opened);
            limits.extend(headroom);
        }
        for lot in lots.iter().filter(|lot| lot.parts.iter().any(|part| !part.pods.is_empty())) {
            let message = if stores.is_empty() {
                no_pool(snapshot)
            } else if !lot.rule.needs.is_empty() {
                topology::WITHOUT_PEERS.to_owned()
            } else {
                reasons::message(&lot.sample, &stores, &limits)
            };
            lot.parts.iter().for_each(|part| self.refuse(part, &message));
        }
    }

    /// Buys machines of the reservations that a pool may use.
    fn buy_reserved(
        &mut self,
        pool: &Pool,
        reservations: &mut Reservations,
        lots: &mut [Lot],
        headroom: &mut Headroom,
        dimensions: &Dimensions,
        snapshot: &Snapshot,
    ) {
        for id in reservations.open(pool) {
            let scope = Scope::Reserved(id);
            let (asked, _) = class::groups(lots.iter().map(|lot| &lot.sample.constraints));
            let Ok(store) = Store::new(pool, dimensions, &snapshot.daemons, &asked, scope) else {
                return;
            };
            if store.offers.is_empty() || !store.is_flexible_at_all() {
                continue;
            }
            headroom.reserve(Some(reservations.left(id)));
            let before = self.launches.len();
            let headroom = std::slice::from_mut(&mut *headroom);
            self.buy(&[store], lots, headroom, dimensions, snapshot);
            headroom[0].reserve(None);
            let bought = self.launches.len() - before;
            reservations.take(id, u32::try_from(bought).unwrap_or(u32::MAX));
        }
    }

    /// Compiles pools; those that can buy nothing at all are reported and left out.
    fn open<'a>(
        &mut self,
        pools: &[&'a Pool],
        scope: Scope<'a>,
        lots: &[Lot],
        dimensions: &Dimensions,
        snapshot: &'a Snapshot,
    ) -> Vec<Store<'a>> {
        let (asked, _) = class::groups(lots.iter().map(|lot| &lot.sample.constraints));
        let mut stores = Vec::new();
        for pool in pools {
            let mut problem = |reason: &str, message: String| {
                if scope == Scope::Relaxed {
                    return;
                }
                let (pool, reason) = (pool.name.clone(), reason.to_owned());
                self.problems.push(PoolProblem { pool, reason, message });
            };
            let nothing =
                "NodePool requirements filtered out all compatible available instance types";
            let best_effort = snapshot.settings.min_values == MinValuesPolicy::BestEffort;
            match Store::new(pool, dimensions, &snapshot.daemons, &asked, scope) {
                Err(message) => problem("NodePoolValidationFailed", message),
                Ok(store) if store.offers.is_empty() && reserved::is_for(&store) => {}
                Ok(store) if store.offers.is_empty() => {
                    problem("NoCompatibleInstanceTypes", nothing.to_owned());
                }
                Ok(store) if best_effort && !store.is_flexible_at_all() => {}
                Ok(store) if !store.is_flexible_at_all() => problem(
                    "NoCompatibleInstanceTypes",
                    format!("{nothing} due to minValues incompatibility"),
                ),
                Ok(store) => stores.push(store),
            }
        }
        stores
    }

    /// Notes what the machines cost and what they cost at least.
    fn certify(&mut self, packing: &Packing, lots: &[Lot], demands: &[Demand]) {
        let Packing { bound, left, .. } = packing;
        self.certificate.add(packing.price().usd(), bound.usd, &bound.ignores);
        for (at, usd) in bound.worth.iter().enumerate() {
            let count = demands[at].count - left[at];
            let sample = &lots[at].sample;
            let pod = (sample.namespace.clone(), sample.name.clone());
            if count > 0 {
                self.certificate.worth.push(Worth { pod, count, usd_per_hour: *usd });
            }
        }
    }

    /// Buys machines from pools of equal weight for what is left of `classes`.
    fn buy(
        &mut self,
        stores: &[Store<'_>],
        lots: &mut [Lot],
        limits: &mut [Headroom],
        dimensions: &Dimensions,
        snapshot: &Snapshot,
    ) {
        let (constraints, group_of) = class::groups(lots.iter().map(|lot| &lot.sample.constraints));
        let groups = constraints.into_iter().map(|asked| Group::new(asked, stores)).collect();
        let mut domains = Domains::new(stores, groups);
        let demand = |(lot, group): (&Lot, &usize)| Demand {
            group: *group,
            request: dimensions.vector(&lot.sample.requests),
            priority: lot.sample.priority,
            count: lot.count(),
            rule: lot.rule.clone(),
        };
        let demands: Vec<Demand> = lots.iter().zip(&group_of).map(demand).collect();
        let mut packing = packing::pack(&mut domains, &demands, limits, &snapshot.settings);
        for bin in &packing.bins {
            limits[domains.get(bin.domain).store].take(&domains.machine(bin), bin.copies);
        }
        let mut is_refused = false;
        for bin in &mut packing.bins {
            let draft = Draft::new(&domains, bin, lots, &snapshot.settings);
            let headroom = &mut limits[domains.get(bin.domain).store];
            let machine = domains.machine(bin);
            let mut rest = bin.copies;
            while rest > 0 {
                let Some((launch, report, alike)) = draft.launch(&machine, headroom, rest) else {
                    headroom.give_back(&machine);
                    rest -= 1;
                    bin.copies -= 1;
                    is_refused = true;
                    for (left, count) in packing.left.iter_mut().zip(&bin.counts) {
                        *left += count;
                    }
                    continue;
                };
                rest -= alike;
                for _ in 0..alike {
                    let mut taken = Taken::default();
                    for (lot, count) in lots.iter_mut().zip(&bin.counts).filter(|(_, n)| **n > 0) {
                        taken.join(lot.take(*count));
                    }
                    let mut launch = launch.clone();
                    launch.annotations.insert(labels::PLANNED_PODS.to_owned(), taken.text());
                    (launch.pods, launch.promised) = (taken.pods, taken.promised);
                    self.launches.push((launch, report.clone()));
                }
            }
        }
        if is_refused {
            packing.bound = packing::bound(&mut domains, &demands, &packing.left);
        }
        self.certify(&packing, lots, &demands);
    }
}

/// Why there is no pool to buy from.
fn no_pool(snapshot: &Snapshot) -> String {
    let dynamic = || snapshot.pools.iter().filter(|pool| pool.replicas.is_none());
    if dynamic().next().is_none() {
        let kind = if snapshot.pools.is_empty() { "" } else { "dynamic " };
        return format!("no {kind}nodepool found");
    }
    let unusable = dynamic().filter_map(|pool| {
        let why = pool.usable.as_ref().err()?;
        Some(format!("nodepool is not ready (NodePool={}): {why}", pool.name))
    });
    let unusable: Vec<String> = unusable.collect();
    if unusable.is_empty() {
        return "nodepool requirements filtered out all available instance types".to_owned();
    }
    unusable.join("; ")
}
