//! Which machines may be disrupted, and why others may not.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/disruption/types.go`,
//! `pkg/controllers/state/statenode.go`, `pkg/utils/pdb/pdb.go`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::labels;
use jiff::{SignedDuration, Timestamp};

use super::departure::is_movable;
use super::emptiness::is_protected;
use super::worth::{eviction_cost, move_price};
use super::{DRIFTED, EXPIRED, REQUESTED};
use crate::cost::Price;
use crate::pod::Pod;
use crate::report::Blocker;
use crate::residents::Residents;
use crate::snapshot::{Pdb, Pool, Snapshot, Stage, StateNode};

/// Says who may be disrupted.
pub(crate) struct Judge<'a> {
    residents: &'a Residents<'a>,
    pools: BTreeMap<&'a str, &'a Pool>,
    pdbs: BTreeMap<&'a str, Vec<&'a Pdb>>,
    /// What stands against the eviction of the pods of one owner: they have the same labels.
    known: RefCell<BTreeMap<(String, String), Option<Blocker>>>,
    /// Waited for besides what pools say.
    validation: Duration,
    pub(crate) now: Timestamp,
}

/// A machine that may be disrupted.
pub(crate) struct Candidate<'a> {
    pub(crate) state: &'a StateNode,
    pub(crate) claim: &'a str,
    pub(crate) pool: &'a Pool,
    /// The pods that have to move, the largest first.
    pub(crate) pods: Vec<&'a Arc<Pod>>,
    /// What it costs.
    pub(crate) price: Price,
    /// What the moves cost.
    pub(crate) moves: Price,
    /// What the moves cost by Karpenter's count, in 2^-27ths: 1 and what each pod costs.
    pub(crate) weight: u64,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        residents: &'a Residents<'a>,
        now: Timestamp,
    ) -> Self {
        let mut pdbs: BTreeMap<&str, Vec<&Pdb>> = BTreeMap::new();
        for pdb in &snapshot.pdbs {
            pdbs.entry(&pdb.namespace).or_default().push(pdb);
        }
        let pools = snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
        let validation = snapshot.settings.waits.validation;
        Self { residents, pools, pdbs, known: RefCell::default(), validation, now }
    }

    /// The pool behind a machine, if it holds as many machines as pods need.
    pub(crate) fn pool(&self, state: &StateNode) -> Option<&'a Pool> {
        let pool = self.pools.get(state.pool.as_deref()?)?;
        pool.replicas.is_none().then_some(*pool)
    }

    /// What stands against the disruption of a machine for `reason`, its pool's budgets aside.
    /// Machines that have to go sometime are not held by their pods if they may end them.
    pub(crate) fn blocker(&self, state: &StateNode, reason: &str) -> Option<Blocker> {
        if state.do_not_disrupt && reason != REQUESTED {
            return Some(Blocker::Node);
        }
        let is_eventual = [DRIFTED, EXPIRED, REQUESTED].contains(&reason);
        let pool = state.pool.as_deref().and_then(|pool| self.pools.get(pool));
        let may_end = pool.is_some_and(|pool| pool.termination_grace.is_some());
        if is_eventual && may_end {
            return None;
        }
        let pods = self.residents.bound(state).iter().filter(|pod| !pod.deleting);
        pods.clone()
            .find(|pod| is_protected(pod, self.now))
            .map(|pod| Blocker::Pod { pod: (pod.namespace.clone(), pod.name.clone()) })
            .or_else(|| pods.filter(|pod| is_movable(pod)).find_map(|pod| self.guarded(pod)))
    }

    /// The PodDisruptionBudget that stands against the eviction of a pod.
    fn guarded(&self, pod: &Pod) -> Option<Blocker> {
        if surges(pod) {
            return None;
        }
        let pdbs = self.pdbs.get(pod.namespace.as_str())?;
        let judged = || {
            let about = |pdb: &&&Pdb| {
                pdb.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
            };
            let about: Vec<&Pdb> = pdbs.iter().filter(about).copied().collect();
            let name = |pdb: &Pdb| format!("{}/{}", pdb.namespace, pdb.name);
            let pod = (pod.namespace.clone(), pod.name.clone());
            match about.as_slice() {
                [pdb] if pdb.allowed <= 0 => Some(Blocker::Pdb { pod, pdb: name(pdb) }),
                [] | [_] => None,
                many => {
                    Some(Blocker::ManyPdbs { pod, pdbs: many.iter().map(|p| name(p)).collect() })
                }
            }
        };
        let Some(owner) = &pod.owner else { return judged() };
        let key = (owner.uid.clone(), owner.name.clone());
        // Labels of pods of one StatefulSet or Job differ in their index only.
        self.known.borrow_mut().entry(key).or_insert_with(judged).clone()
    }

    /// When a machine will have been quiet for as long as its pool wants; `None` if the pool never
    /// gives up machines to save money, or if the machine is not up or about to go.
    pub(crate) fn quiet_from(&self, state: &StateNode, pool: &Pool) -> Option<Timestamp> {
        let after = pool.consolidate_after?.saturating_add(self.validation);
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        let initialized = state.initialized.filter(|_| is_up(state))?;
        let quiet_since = state.last_pod_event.map_or(initialized, |event| event.max(initialized));
        Some(quiet_since.checked_add(after).unwrap_or(Timestamp::MAX))
    }

    /// A machine that is up, with what has to move.
    pub(crate) fn candidate(&self, state: &'a StateNode) -> Option<Candidate<'a>> {
        let (claim, pool) = (state.claim.as_deref()?, self.pool(state)?);
        let movable = |pod: &&&'a Arc<Pod>| is_movable(pod);
        let mut pods: Vec<_> =
            self.residents.bound(state).iter().filter(movable).copied().collect();
        pods.sort_by(|a, b| {
            let size = |pod: &Pod| (pod.requests.cpu, pod.requests.memory);
            size(b)
                .cmp(&size(a))
                .then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
        });
        let price = state.price.and_then(Price::from_usd).unwrap_or_default();
        let moves = pods.iter().map(|pod| move_price(pod, pool)).sum();
        let weight = weight(pods.iter().copied());
        is_up(state).then_some(Candidate { state, claim, pool, pods, price, moves, weight })
    }

    /// Whether a machine carries pods that would have to move.
    pub(crate) fn carries(&self, state: &StateNode) -> bool {
        self.residents.bound(state).iter().any(|pod| is_movable(pod))
    }

    /// Whether a machine carries nothing and will go for it: pods that move there keep it.
    pub(crate) fn is_idle(&self, state: &StateNode) -> bool {
        let goes = self.pool(state).is_some_and(|pool| pool.consolidate_after.is_some());
        goes && !self.carries(state)
    }

    /// What moving all pods of a machine costs by Karpenter's count.
    pub(crate) fn weight(&self, state: &StateNode) -> u64 {
        weight(self.residents.bound(state).iter().copied().filter(|pod| is_movable(pod)))
    }
}

/// Whether a pod leaves by a rollout, which brings its successor first: no PodDisruptionBudget is
/// asked then.
fn surges(pod: &Pod) -> bool {
    let is_said = pod.annotations.get(labels::SURGE).is_some_and(|value| value == "true");
    is_said && pod.owner.as_ref().is_some_and(|owner| owner.kind == "ReplicaSet")
}

/// 1 and what each pod costs.
fn weight<'p>(pods: impl Iterator<Item = &'p Arc<Pod>>) -> u64 {
    let one = super::worth::ONE.unsigned_abs();
    pods.fold(one, |sum, pod| sum.saturating_add(eviction_cost(pod).max(0).unsigned_abs()))
}

/// Whether a machine is up and not about to go.
pub(crate) fn is_up(state: &StateNode) -> bool {
    state.has_node && state.stage == Stage::Initialized && !state.deleting && !state.is_disrupted()
}
