//! Whether a claim is one that its pool may make, and whether pools keep their limits.
//!
//! Sources: kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling/{nodeclaim,
//! nodeclaimtemplate}.go`, `pkg/cloudprovider/types.go` (minValues).

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels as known;

use super::labels::holds;
use super::machines::{Machine, Origin};
use super::violation::{Fault, Violation};
use crate::plan::Launch;
use crate::resources::Resources;
use crate::snapshot::{MinValuesPolicy, Pool, Snapshot, Stage};

/// Checks a launch against its pool.
pub(super) fn check_claim(
    machine: &Machine<'_>,
    policy: MinValuesPolicy,
    violations: &mut Vec<Violation>,
) {
    let Origin::Ordered(_, launch, pool) = machine.origin else { return };
    if machine.is_repeated {
        return;
    }
    let mut report = |fault: Fault| {
        violations.push(Violation::BadClaim { machine: machine.title(None), fault });
    };
    let Some(pool) = pool.filter(|pool| may_launch(pool, launch)) else {
        return report(Fault::Pool);
    };
    if machine.candidates.is_empty() {
        return report(Fault::NothingToBuy);
    }
    template(launch, pool).into_iter().for_each(&mut report);
    for r in &pool.requirements {
        let excluded = |value| !holds(&r.operator, &r.values, value, true);
        if machine.candidates.iter().any(|candidate| excluded(candidate.label(&r.key))) {
            report(Fault::Requirement(r.key.clone()));
        }
        let told = launch.annotations.get(known::MIN_VALUES_RELAXED);
        let is_relaxed =
            policy == MinValuesPolicy::BestEffort && told.is_some_and(|relaxed| relaxed == "true");
        let Some(least) = r.min_values.filter(|_| !is_relaxed) else { continue };
        let values: BTreeSet<&str> =
            machine.candidates.iter().filter_map(|candidate| candidate.label(&r.key)).collect();
        if i64::try_from(values.len()).unwrap_or(i64::MAX) < least {
            report(Fault::MinValues { key: r.key.clone(), left: values.len(), least });
        }
    }
}

/// Whether a pool may make such a claim: a static pool only one for no pods.
fn may_launch(pool: &Pool, launch: &Launch) -> bool {
    let is_for_pods = !launch.pods.is_empty() || launch.promised > 0;
    pool.usable.is_ok() && !(pool.replicas.is_some() && is_for_pods)
}

/// What a claim takes over from its pool.
fn template(launch: &Launch, pool: &Pool) -> Option<Fault> {
    let has = |(key, value): (&String, &String)| launch.labels.get(key) == Some(value);
    let is_named = launch.labels.get(known::NODEPOOL) == Some(&pool.name);
    let own = pool.labels.iter().filter(|(key, _)| *key != known::NODEPOOL);
    if !is_named || !own.into_iter().all(has) {
        return Some(Fault::Template("labels"));
    }
    if launch.taints != pool.taints || launch.startup_taints != pool.startup_taints {
        return Some(Fault::Template("taints"));
    }
    (pool.class.as_ref() != Some(&launch.class)).then_some(Fault::Template("class"))
}

/// Checks what every pool would hold once the plan is carried out. A claim counts with the most
/// that it may become.
pub(super) fn check_limits(
    snapshot: &Snapshot,
    machines: &[Machine<'_>],
    violations: &mut Vec<Violation>,
) {
    let is_limited = |pool: &&Pool| !pool.limits.is_empty() || pool.max_price.is_some();
    for pool in snapshot.pools.iter().filter(is_limited) {
        let mut held: BTreeMap<&str, i128> = BTreeMap::new();
        let mut ordered: BTreeMap<&str, i128> = BTreeMap::new();
        for machine in machines {
            let (sums, capacity, price) = match machine.origin {
                Origin::There(state) => {
                    if state.pool.as_ref() != Some(&pool.name) || state.deleting {
                        continue;
                    }
                    (&mut held, state.capacity.clone(), state.price.unwrap_or(0.0))
                }
                Origin::Ordered(_, launch, _) => {
                    if launch.pool != pool.name {
                        continue;
                    }
                    let (capacity, price) = most(machine);
                    (&mut ordered, capacity, price)
                }
            };
            for name in pool.limits.keys() {
                let amount = if name == "nodes" { 1 } else { capacity.get(name).max(0) };
                *sums.entry(name).or_default() += i128::from(amount);
            }
            *sums.entry(MONEY).or_default() += i128::from(nano(price));
        }
        let amount = |name: &str, limit: &aerostat_api::Quantity| {
            if name == "cpu" { limit.milli() } else { limit.units() }
        };
        let limits = pool.limits.iter().map(|(name, limit)| (name.as_str(), amount(name, limit)));
        let money = pool.max_price.map(|price| (MONEY, nano(price.usd())));
        for (name, limit) in limits.chain(money) {
            let more = ordered.get(name).copied().unwrap_or(0);
            let held = held.get(name).copied().unwrap_or(0) + more;
            if more > 0 && held > i128::from(limit) {
                let (pool, resource) = (pool.name.clone(), name.to_owned());
                violations.push(Violation::OverLimit { pool, resource, limit, held });
            }
        }
    }
}

/// What a limit of money counts: billionths of a USD per hour.
const MONEY: &str = "billionths of a USD per hour";

#[expect(clippy::cast_possible_truncation, reason = "a float turns into the nearest integer")]
fn nano(usd: f64) -> i64 {
    (usd * 1e9).round() as i64
}

/// Checks that no more claims count on a reservation than it takes.
pub(super) fn check_reservations(
    snapshot: &Snapshot,
    machines: &[Machine<'_>],
    violations: &mut Vec<Violation>,
) {
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    let kinds = snapshot.pools.iter().flat_map(|pool| pool.types.iter());
    for reservation in kinds.flat_map(|kind| &kind.offerings).filter_map(|o| o.reservation.as_ref())
    {
        let count = left.entry(&reservation.id).or_insert(reservation.available);
        *count = reservation.available.min(*count);
    }
    let mut claims: BTreeMap<&str, u32> = BTreeMap::new();
    for machine in machines {
        let is_counted = machine.state().is_none_or(|state| state.stage == Stage::Ordered);
        let id = machine.candidates.first().and_then(|one| one.label(known::RESERVATION_ID));
        let same = |id: &&str| {
            machine.candidates.iter().all(|other| other.label(known::RESERVATION_ID) == Some(id))
        };
        if let Some(id) = id.filter(same).filter(|_| is_counted) {
            *claims.entry(id).or_default() += 1;
        }
    }
    let ordered = machines.iter().filter(|machine| machine.state().is_none());
    let mut told = BTreeSet::new();
    for machine in ordered {
        let id = machine.candidates.first().and_then(|one| one.label(known::RESERVATION_ID));
        let Some((id, claims)) = id.and_then(|id| claims.get_key_value(id)) else { continue };
        let available = left.get(id).copied().unwrap_or(0);
        if *claims > available && told.insert(*id) {
            violations.push(Violation::BadClaim {
                machine: machine.title(None),
                fault: Fault::Reservation { id: (*id).to_owned(), claims: *claims, available },
            });
        }
    }
}

/// The most of everything among what a launch may become, and the most it may cost.
fn most(machine: &Machine<'_>) -> (Resources, f64) {
    let (mut most, mut price) = (Resources::default(), 0.0_f64);
    let mut last = None;
    for (kind, offering) in machine.candidates.iter().filter_map(|candidate| candidate.bought) {
        price = price.max(offering.price);
        if last != Some(&kind.name) {
            most.raise_to(&kind.capacity);
            last = Some(&kind.name);
        }
    }
    (most, price)
}
