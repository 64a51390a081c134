//! Machines that go: because they are empty, outdated, or because others do for less.
//!
//! ```text
//! commands ── replacements under way: who is marked, who may go now
//! emptiness, drift, consolidation ── new commands, at most one of them with replacements a plan
//!     ├── candidates: who may be disrupted, and why not
//!     ├── vacancy: quick: is there room elsewhere?
//!     ├── rehearsal: the planner is asked what would have to be bought
//!     └── worth: does it pay?
//! ```
//!
//! A command never acts on what it remembers. A replacement says in its annotations whose place it
//! takes; the pods of those machines wait for a place in every plan from then on (`departure`),
//! so that their room is kept for them, and is ordered anew if a replacement is lost. When all of
//! them have a place on machines that are up, their machine goes.

pub(crate) mod candidates;
pub(crate) mod commands;
mod consolidation;
pub(crate) mod departure;
mod drift;
pub(crate) mod emptiness;
mod market;
pub(crate) mod rehearsal;
pub(crate) mod vacancy;
pub(crate) mod worth;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use self::candidates::{Candidate, Judge, is_up};
use self::departure::Movers;
use self::rehearsal::{Rehearsal, rehearse};
use crate::budgets;
use crate::plan::{Command, Nomination, Termination};
use crate::pod::Pod;
use crate::provisioning::Provisioning;
use crate::report::{Blocker, Kept, Misread, PoolProblem};
use crate::residents::Residents;
use crate::snapshot::{PackingRule, Pool, Snapshot, StateNode};

pub use worth::{HORIZON_HOURS, POD_MOVE_USD};

/// Machines that others do the work of for less. The reasons are those of Karpenter's budgets.
pub(crate) const UNDERUTILIZED: &str = "Underutilized";
/// Machines that are not as their pool wants them.
pub(crate) const DRIFTED: &str = "Drifted";
/// Machines that expire soon; budgets count them as drifted.
pub(crate) const EXPIRED: &str = "Expired";
/// Machines that somebody wants replaced; budgets do not hold them.
pub(crate) const REQUESTED: &str = "Requested";

/// How often the planner is asked for outdated machines in one plan.
const REHEARSALS: usize = 3;
/// For how long a new pod may go unseen by the scheduler; machines stay while there is one.
const UNSEEN: SignedDuration = SignedDuration::from_secs(10);
/// The same for machines that are empty and that it fits on: the scheduler may be behind.
const UNSEEN_THAT_FITS: SignedDuration = SignedDuration::from_secs(60);

/// What decisions about disruption look at.
pub(crate) struct Scene<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) residents: &'a Residents<'a>,
    pub(crate) judge: Judge<'a>,
    /// The plan for the pods that wait, those that leave their machines included.
    pub(crate) provisioning: &'a Provisioning,
    pub(crate) now: Timestamp,
}

/// What is to be done about machines that are no longer wanted.
#[derive(Default)]
pub(crate) struct Disruption {
    pub(crate) commands: Vec<Command>,
    pub(crate) kept: Vec<Kept>,
    pub(crate) problems: Vec<PoolProblem>,
    pub(crate) misread: Vec<Misread>,
    pub(crate) next: Option<Timestamp>,
    /// The plan with replacements, and who moves in it besides; it takes the place of the one
    /// before.
    pub(crate) instead: Option<(Provisioning, Movers)>,
}

/// How many more machines of each pool may be disrupted for one reason.
#[derive(Clone)]
pub(crate) struct Allowance(BTreeMap<String, u64>);

impl Allowance {
    /// What budgets leave beside machines that go for another reason.
    fn of(scene: &Scene<'_>, reason: &str, going: &[Termination], found: &mut Disruption) -> Self {
        let mut left = |pool: &Pool| {
            let going = going.iter().filter(|termination| termination.pool == pool.name).count();
            let allowed = budgets::allowed(pool, scene.snapshot, reason, scene.now);
            if allowed.nodes == 0 {
                allowed.changes.into_iter().for_each(|at| found.look_again(at));
            }
            (pool.name.clone(), allowed.nodes.saturating_sub(going as u64))
        };
        Self(scene.snapshot.pools.iter().map(&mut left).collect())
    }

    fn left(&self, pool: &Pool) -> u64 {
        self.0.get(&pool.name).copied().unwrap_or(0)
    }

    fn take(&mut self, pool: &Pool) {
        if let Some(left) = self.0.get_mut(&pool.name) {
            *left = left.saturating_sub(1);
        }
    }
}

/// Decides who goes besides those that are empty and given up already (`going`).
pub(crate) fn disrupt(scene: &Scene<'_>, going: &[Termination]) -> Disruption {
    let mut found = Disruption::default();
    let gone: BTreeSet<&str> = going.iter().map(|t| t.claim.as_str()).collect();
    replace_outdated(scene, going, &mut found);
    let is_free = found.commands.is_empty() && found.instead.is_none();
    if !is_free || !going.is_empty() || !scene.is_calm(&mut found) {
        return found;
    }
    let mut allowance = Allowance::of(scene, UNDERUTILIZED, going, &mut found);
    let mut candidates = Vec::new();
    for state in scene.snapshot.nodes.iter().filter(|state| is_up(state)) {
        let Some(candidate) = scene.judge.candidate(state) else { continue };
        // Those that carry nothing go by another rule; replacements are left alone.
        if candidate.pods.is_empty() || gone.contains(candidate.claim) || state.obsolete.is_some() {
            continue;
        }
        found.misread.extend(candidate.pods.iter().filter_map(|pod| worth::misread(pod)));
        match scene.consolidatable(&candidate) {
            Ok(at) if at > scene.now => found.look_again(at),
            Ok(_) => match scene.snapshot.spared.get(candidate.claim) {
                Some(until) if *until > scene.now => {
                    found.look_again(*until);
                    found.kept.push(candidate.kept(Blocker::RolledBack));
                }
                _ => candidates.push(candidate),
            },
            Err(why) => found.kept.push(candidate.kept(why)),
        }
    }
    if !candidates.is_empty() {
        consolidation::consolidate(scene, candidates, &mut allowance, &mut found);
    }
    found
}

/// Orders a replacement for one machine that is outdated; those that carry nothing just go.
fn replace_outdated(scene: &Scene<'_>, going: &[Termination], found: &mut Disruption) {
    let (outdated, blocked, next) = drift::outdated(scene.snapshot, &scene.judge);
    next.into_iter().for_each(|at| found.look_again(at));
    for (state, why) in blocked {
        found.kept.extend(kept(state, why));
    }
    let mut allowance = Allowance::of(scene, DRIFTED, going, found);
    let mut tries = REHEARSALS;
    for drift::Outdated { candidate, reason, .. } in outdated {
        if going.iter().any(|termination| termination.claim == candidate.claim) {
            continue;
        }
        if reason != REQUESTED && allowance.left(candidate.pool) == 0 {
            let reason = DRIFTED.to_owned();
            found.kept.push(candidate.kept(Blocker::Budget { reason }));
        } else if scene.is_expected(candidate.state) {
            found.kept.push(candidate.kept(Blocker::Nominated));
        } else if candidate.pods.is_empty() {
            allowance.take(candidate.pool);
            found.delete(&[&candidate], reason, Vec::new());
        } else if tries > 0 && found.commands.is_empty() && scene.provisioning.launches.is_empty() {
            tries -= 1;
            match rehearse(scene.snapshot, scene.provisioning, &[&candidate], scene.now) {
                Ok(rehearsal) => {
                    found.replace(&[&candidate], reason, rehearsal);
                    return;
                }
                Err(why) => found.kept.push(candidate.kept(why)),
            }
        }
    }
}

/// New pods that the scheduler has not looked at, each with the time until which it may not have:
/// whoever is not looked at by then may belong to a scheduler that never will.
fn unseen(
    snapshot: &Snapshot,
    patience: SignedDuration,
    now: Timestamp,
) -> impl Iterator<Item = (&Pod, Timestamp)> {
    let unseen = snapshot.pods.iter().map(|pod| &**pod).filter(|pod| {
        let settled = pod.node.is_some() || pod.unschedulable_since.is_some();
        !(settled || pod.nominated_node.is_some() || pod.deleting || pod.terminal || pod.gated)
    });
    let until = move |pod: &Pod| pod.created.checked_add(patience).unwrap_or(Timestamp::MAX);
    unseen.map(move |pod| (pod, until(pod))).filter(move |(_, until)| *until > now)
}

impl Scene<'_> {
    /// Whether nothing else is going on that machines may be needed for.
    fn is_calm(&self, found: &mut Disruption) -> bool {
        let last = unseen(self.snapshot, UNSEEN, self.now).map(|(_, until)| until).max();
        last.into_iter().for_each(|at| found.look_again(at));
        let provisioning = &self.provisioning;
        last.is_none() && provisioning.launches.is_empty() && provisioning.waiting.is_empty()
    }

    /// Whether pods are on their way to a machine.
    fn is_expected(&self, state: &StateNode) -> bool {
        self.provisioning.expecting.contains(&state.node.name)
            || !self.residents.nominated(state).is_empty()
            || state.nominated_until.is_some_and(|until| until > self.now)
    }

    /// From when on a machine may be given up to save money, or why not.
    fn consolidatable(&self, candidate: &Candidate<'_>) -> Result<Timestamp, Blocker> {
        let (state, pool) = (candidate.state, candidate.pool);
        let name = || pool.name.clone();
        let Some(quiet) = self.judge.quiet_from(state, pool) else {
            return Err(Blocker::Never { pool: name() });
        };
        if !matches!(pool.policy.as_str(), "WhenEmptyOrUnderutilized" | "Balanced") {
            return Err(Blocker::WhenEmpty { pool: name() });
        }
        if quiet > self.now {
            return Ok(quiet);
        }
        if let Some(blocker) = self.judge.blocker(state, UNDERUTILIZED) {
            return Err(blocker);
        }
        if self.is_expected(state) {
            return Err(Blocker::Nominated);
        }
        let by_price = self.snapshot.settings.packing == PackingRule::Price;
        if by_price && let Some(pod) = candidate.pods.iter().find(|pod| worth::is_work(pod, pool)) {
            return Err(Blocker::Work { pod: (pod.namespace.clone(), pod.name.clone()) });
        }
        if candidate.price == crate::cost::Price::default() {
            return Err(Blocker::NoPrice);
        }
        Ok(quiet)
    }
}

impl Candidate<'_> {
    fn kept(&self, blocker: Blocker) -> Kept {
        Kept { claim: self.claim.to_owned(), blocker, price: self.price.usd() }
    }

    fn termination(&self, reason: &str) -> Termination {
        Termination {
            claim: self.claim.to_owned(),
            node: Some(self.state.node.name.clone()),
            pool: self.pool.name.clone(),
            reason: reason.to_owned(),
        }
    }
}

fn kept(state: &StateNode, blocker: Blocker) -> Option<Kept> {
    Some(Kept { claim: state.claim.clone()?, blocker, price: state.price.unwrap_or(0.0) })
}

impl Disruption {
    fn look_again(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Gives up machines whose pods have room elsewhere.
    fn delete(&mut self, going: &[&Candidate<'_>], reason: &str, moves: Vec<Nomination>) {
        self.commands.push(Command {
            reason: reason.to_owned(),
            candidates: going.iter().map(|candidate| candidate.termination(reason)).collect(),
            replacements: 0,
            saves: going.iter().map(|candidate| candidate.price.usd()).sum(),
            moves,
        });
    }

    /// Gives up machines for what a rehearsal would buy; if that is nothing, they go at once.
    fn replace(&mut self, going: &[&Candidate<'_>], reason: &str, rehearsal: Rehearsal) {
        let Rehearsal { mut provisioning, movers } = rehearsal;
        let claims = || going.iter().map(|candidate| candidate.claim);
        for (launch, _) in &mut provisioning.launches {
            launch.annotations.extend(commands::annotations(claims(), reason));
        }
        let is_mover = |nomination: &&Nomination| movers.contains_key(&nomination.pod);
        let moves = provisioning.nominations.iter().filter(is_mover).cloned().collect();
        self.delete(going, reason, moves);
        if let Some(command) = self.commands.last_mut() {
            command.replacements = provisioning.launches.len();
            command.saves -= provisioning.launches.iter().map(|(_, r)| r.price).sum::<f64>();
        }
        self.instead = Some((provisioning, movers));
    }
}
