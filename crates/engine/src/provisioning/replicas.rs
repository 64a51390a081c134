//! Static pools: as many machines as `spec.replicas` says, whatever the pods need.
//!
//! A machine that is not as its pool wants it gets another in its place first, as far as budgets
//! and `limits.nodes` allow; while it is there, the two count as one.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/static/{provisioning,deprovisioning}`,
//! `pkg/controllers/disruption/staticdrift.go`.

use jiff::Timestamp;

use super::domain::Domains;
use super::launch::Draft;
use super::market::{Dimensions, Scope, Store};
use super::packing::Bin;
use crate::budgets;
use crate::disruption::candidates::{Judge, is_up};
use crate::disruption::emptiness::{belongs_to_node, is_protected};
use crate::disruption::worth::eviction_cost;
use crate::disruption::{DRIFTED, commands};
use crate::limits::Headroom;
use crate::plan::{Launch, Termination};
use crate::report::{LaunchReport, PoolProblem};
use crate::residents::Residents;
use crate::snapshot::{MinValuesPolicy, Pool, Snapshot, Stage, StateNode};

/// The reason that conditions and events name.
const REASON: &str = "Surplus";
/// How many machines one plan orders for a pool: the next plan goes on.
const AT_ONCE: u32 = 1000;

/// What static pools lack and have too much of.
#[derive(Default)]
pub(crate) struct Replicas {
    pub(crate) launches: Vec<(Launch, LaunchReport)>,
    pub(crate) terminations: Vec<Termination>,
    pub(crate) problems: Vec<PoolProblem>,
}

/// Brings every static pool to its number of machines.
pub(crate) fn replicas(snapshot: &Snapshot, now: Timestamp) -> Replicas {
    let mut found = Replicas::default();
    if snapshot.pools.iter().all(|pool| pool.replicas.is_none()) {
        return found;
    }
    let residents = &Residents::of(snapshot);
    let (replaced, ..) = commands::replacements(snapshot, now);
    let judge = Judge::new(snapshot, residents, now);
    for pool in &snapshot.pools {
        let Some(wanted) = pool.replicas else { continue };
        let mine =
            |state: &&StateNode| state.claim.is_some() && state.pool.as_ref() == Some(&pool.name);
        let (going, there): (Vec<&StateNode>, Vec<&StateNode>) =
            snapshot.nodes.iter().filter(mine).partition(|state| state.deleting);
        let is_replaced = |state: &&StateNode| {
            state.claim.as_ref().is_some_and(|claim| replaced.contains_key(claim.as_str()))
        };
        let (leaving, there): (Vec<&StateNode>, Vec<&StateNode>) =
            there.into_iter().partition(is_replaced);
        let count = u32::try_from(there.len()).unwrap_or(u32::MAX);
        if count > wanted {
            found.give_up(pool, there, count - wanted, residents, now);
        } else if pool.usable.is_ok() {
            let mut headroom = Headroom::of(pool, &snapshot.nodes);
            // A machine on its way out still is a node: Karpenter counts it for static pools.
            headroom.take_nodes(going.len());
            let before = found.launches.len();
            if count < wanted {
                found.fill_up(pool, (wanted - count).min(AT_ONCE), &mut headroom, snapshot);
                continue;
            }
            let drifted = drifted(pool, &there, &leaving, &judge, snapshot, now);
            let most = u32::try_from(drifted.len()).unwrap_or(u32::MAX).min(AT_ONCE);
            if most > 0 {
                found.fill_up(pool, most, &mut headroom, snapshot);
            }
            for ((launch, _), claim) in found.launches[before..].iter_mut().zip(drifted) {
                launch.annotations.extend(commands::annotations([claim], DRIFTED));
            }
        }
    }
    found
}

/// The claims that may be replaced now: what carries nothing first, then what has drifted longest.
fn drifted<'a>(
    pool: &Pool,
    there: &[&'a StateNode],
    leaving: &[&StateNode],
    judge: &Judge<'_>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Vec<&'a str> {
    let mut found: Vec<_> = there
        .iter()
        .filter(|state| is_up(state) && judge.blocker(state, DRIFTED).is_none())
        .filter_map(|state| {
            let since = state.obsolete.as_ref()?.since;
            Some((judge.carries(state), since, state.claim.as_deref()?))
        })
        .collect();
    found.sort_unstable();
    // Machines whose replacements have been ordered are marked only then.
    let unmarked = leaving.iter().filter(|state| is_up(state)).count();
    let allowed = budgets::allowed(pool, snapshot, DRIFTED, now).nodes;
    let left = usize::try_from(allowed).unwrap_or(usize::MAX).saturating_sub(unmarked);
    found.into_iter().take(left).map(|(_, _, claim)| claim).collect()
}

impl Replicas {
    /// Orders up to `missing` machines of the cheapest type, as far as limits allow.
    fn fill_up(&mut self, pool: &Pool, missing: u32, headroom: &mut Headroom, snapshot: &Snapshot) {
        let mut problem = |reason: &str, message: String| {
            let (pool, reason) = (pool.name.clone(), reason.to_owned());
            self.problems.push(PoolProblem { pool, reason, message });
        };
        let dimensions = Dimensions::of(snapshot.daemons.iter().map(|daemon| &**daemon));
        let scope = match snapshot.settings.min_values {
            MinValuesPolicy::Strict => Scope::Open,
            MinValuesPolicy::BestEffort => Scope::Relaxed,
        };
        let store = match Store::new(pool, &dimensions, &snapshot.daemons, &[], scope) {
            Ok(store) => store,
            Err(message) => return problem("NodePoolValidationFailed", message),
        };
        let stores = [store];
        let domains = Domains::new(&stores, Vec::new());
        let nothing = "NodePool requirements filtered out all compatible available instance types";
        let Some(item) = domains.menu(0).first().copied() else {
            return problem("NoCompatibleInstanceTypes", nothing.to_owned());
        };
        let load = dimensions.vector(&crate::resources::Resources::default());
        let bin = Bin { domain: 0, item, load, counts: Vec::new(), copies: 1 };
        let machine = domains.machine(&bin);
        let draft = Draft::new(&domains, &bin, &[], &snapshot.settings);
        let count = missing.min(headroom.copies(&machine));
        headroom.take(&machine, count);
        let mut rest = count;
        while rest > 0 {
            let Some((launch, report, alike)) = draft.launch(&machine, headroom, rest) else {
                let message = format!("{nothing} due to minValues incompatibility");
                return problem("NoCompatibleInstanceTypes", message);
            };
            rest -= alike;
            self.launches.extend((0..alike).map(|_| (launch.clone(), report.clone())));
        }
    }

    /// Gives up `surplus` machines: those that are not launched, those that are empty, those whose
    /// pods cost least to move; pods that must not be disrupted come last.
    fn give_up(
        &mut self,
        pool: &Pool,
        mut there: Vec<&StateNode>,
        surplus: u32,
        residents: &Residents<'_>,
        now: Timestamp,
    ) {
        let rank = |state: &StateNode| {
            let pods = residents.bound(state);
            let protected = pods.iter().any(|pod| is_protected(pod, now));
            let moving = || pods.iter().filter(|pod| !belongs_to_node(pod));
            let stage = match state.stage {
                Stage::Ordered => 0,
                _ if moving().next().is_none() && !protected => 1,
                _ => 2,
            };
            (stage, protected, moving().map(|pod| eviction_cost(pod)).sum::<i64>())
        };
        there.sort_by_cached_key(|state| (rank(state), state.claim.clone()));
        let going = there.into_iter().take(usize::try_from(surplus).unwrap_or(usize::MAX));
        self.terminations.extend(going.filter_map(|state| {
            Some(Termination {
                claim: state.claim.clone()?,
                node: state.has_node.then(|| state.node.name.clone()),
                pool: pool.name.clone(),
                reason: REASON.to_owned(),
            })
        }));
    }
}
