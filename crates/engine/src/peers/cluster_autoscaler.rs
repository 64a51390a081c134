//! cluster-autoscaler's rules: node groups of one instance type, scaled up for pods that wait, and
//! down when a machine has been needed little for ten minutes.
//!
//! A node group is a NodePool and an instance type of [`Settings::node_groups`], over all zones that
//! the pool allows. A scale-up tries each group alone and takes the one that wastes least (expander
//! `least-waste`); pods that another group would have to carry wait for the next scan. A machine goes
//! if its pods ask for less than half of it and have room elsewhere, ten minutes after the last pod
//! came or went and after the last machine was added; machines without pods go ten at a time, others
//! one by one. Budgets and `consolidateAfter` are Karpenter's and do not count.
//!
//! Where it differs: a group is filled by our packing, which is at least as dense as first fit; how
//! long a machine has been unneeded is told by its pods alone, not by room elsewhere; scale-up is
//! not held back by failed groups other than by what is out of stock.
//!
//! Source of the rules and defaults: kubernetes-sigs/cluster-autoscaler `core/static_autoscaler.go`,
//! `config/const.go`, `expander/waste/waste.go`, `core/scaledown/planner/planner.go`.
//!
//! [`Settings::node_groups`]: crate::snapshot::Settings::node_groups

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::disruption::UNDERUTILIZED;
use crate::disruption::candidates::{Candidate, Judge, is_up};
use crate::disruption::emptiness::EMPTY;
use crate::disruption::rehearsal::rehearse;
use crate::disruption::vacancy::Vacancies;
use crate::plan::{Command, Plan, Termination};
use crate::provisioning::{Provisioning, provision};
use crate::report::{Blocker, Kept, PoolProblem, Report};
use crate::residents::Residents;
use crate::resources::Resources;
use crate::snapshot::{Snapshot, StateNode};
use crate::twins;
use crate::volumes::resolved;

/// `--scale-down-unneeded-time` and `--scale-down-delay-after-add`.
const UNNEEDED: SignedDuration = SignedDuration::from_mins(10);
/// `--scale-down-utilization-threshold`.
const THRESHOLD: f64 = 0.5;
/// `--max-empty-bulk-delete`.
const EMPTY_AT_ONCE: usize = 10;

/// Decides as cluster-autoscaler does.
pub(crate) fn plan(snapshot: &Snapshot, groups: &[String], now: Timestamp) -> (Plan, Report) {
    let clear = twins::clear(snapshot);
    let (rest, unresolved) = resolved(&clear.snapshot);
    let (grouped, problems) = with_groups(&rest, groups);
    let all = provision(&grouped, &Residents::of(&grouped), now);
    let mut chosen = Provisioning::default();
    let mut down = ScaleDown::default();
    if all.launches.is_empty() {
        down = scale_down(&grouped, &all, now);
    } else if let Some(best) = least_wasteful(&grouped, now) {
        chosen = best;
    }
    let (launches, reports) = chosen.launches.into_iter().unzip();
    let nominations = if all.launches.is_empty() { all.nominations } else { chosen.nominations };
    let next = [all.next, chosen.next, down.next].into_iter().flatten().min();
    let plan = Plan {
        launches,
        nominations,
        terminations: down.terminations,
        commands: down.commands,
        next,
        ..Plan::default()
    };
    let mut unplaced: Vec<_> = all.unplaced.into_iter().chain(unresolved).collect();
    unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    down.kept.sort_by(|a, b| a.claim.cmp(&b.claim));
    let report = Report {
        launches: reports,
        unplaced,
        waiting: all.waiting,
        pools: all.problems.into_iter().chain(problems).chain(clear.problems).collect(),
        misread: Vec::new(),
        kept: down.kept,
        left_out: clear.left_out.into_iter().chain(all.left_out).collect(),
        certificate: chosen.certificate,
    };
    (plan, report)
}

/// The cluster as its node groups have it: pools buy nothing but the groups' types.
fn with_groups(snapshot: &Snapshot, groups: &[String]) -> (Snapshot, Vec<PoolProblem>) {
    let mut grouped = snapshot.clone();
    let mut problems = Vec::new();
    // Groups have no order: a pool's weight is Karpenter's.
    for pool in &mut grouped.pools {
        pool.weight = 0;
        let types = pool.types.iter().filter(|kind| groups.contains(&kind.name));
        pool.types = Arc::new(types.cloned().collect());
        if pool.types.is_empty() {
            let message = format!("it has no node group: it sells none of {}", groups.join(", "));
            let (pool, reason) = (pool.name.clone(), "NoNodeGroup".to_owned());
            problems.push(PoolProblem { pool, reason, message });
        }
    }
    (grouped, problems)
}

/// The scale-up of the group that wastes least of what it adds; the first of equals.
fn least_wasteful(grouped: &Snapshot, now: Timestamp) -> Option<Provisioning> {
    let mut best: Option<(f64, Provisioning)> = None;
    for (at, pool) in grouped.pools.iter().enumerate() {
        for kind in pool.types.iter() {
            let mut only = grouped.clone();
            for (other, pool) in only.pools.iter_mut().enumerate() {
                pool.types =
                    if other == at { Arc::new(vec![kind.clone()]) } else { Arc::default() };
            }
            let option = provision(&only, &Residents::of(&only), now);
            let Some(waste) = waste(&option) else { continue };
            if best.as_ref().is_none_or(|(least, _)| waste < *least) {
                best = Some((waste, option));
            }
        }
    }
    best.map(|(_, option)| option)
}

/// The part of cpu and memory, in the mean of both, that new machines have and nobody asks for.
fn waste(option: &Provisioning) -> Option<f64> {
    let (mut room, mut asked) = (Resources::default(), Resources::default());
    for (_, report) in &option.launches {
        room.add(&report.allocatable);
        asked.add(&report.requests);
    }
    (!option.launches.is_empty())
        .then(|| (2.0 - part(asked.cpu, room.cpu) - part(asked.memory, room.memory)) / 2.0)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn part(asked: i64, room: i64) -> f64 {
    asked as f64 / room.max(1) as f64
}

/// What goes, and why others stay.
#[derive(Default)]
struct ScaleDown {
    terminations: Vec<Termination>,
    commands: Vec<Command>,
    kept: Vec<Kept>,
    next: Option<Timestamp>,
}

fn scale_down(snapshot: &Snapshot, all: &Provisioning, now: Timestamp) -> ScaleDown {
    let mut down = ScaleDown::default();
    let later = |time: Timestamp| time.checked_add(UNNEEDED).unwrap_or(Timestamp::MAX);
    let added = snapshot.nodes.iter().map(|state| later(state.created)).max();
    if let Some(until) = added.filter(|until| *until > now) {
        down.next = Some(until);
        return down;
    }
    // One machine is drained at a time.
    let is_draining = snapshot.nodes.iter().any(|state| state.deleting);
    let residents = Residents::of(snapshot);
    let judge = Judge::new(snapshot, &residents, now);
    let mut vacancies = Vacancies::new(snapshot, &residents, &judge, &all.expecting);
    for state in snapshot.nodes.iter().filter(|state| is_up(state)) {
        let Some(candidate) = judge.candidate(state) else { continue };
        let utilization = utilization(state, &residents);
        let Some(initialized) = state.initialized.filter(|_| utilization < THRESHOLD) else {
            continue;
        };
        let quiet = state.last_pod_event.map_or(initialized, |event| event.max(initialized));
        if later(quiet) > now {
            down.next = Some(down.next.map_or(later(quiet), |next| next.min(later(quiet))));
            continue;
        }
        let blocker = if all.expecting.contains(&state.node.name) {
            Some(Blocker::Nominated)
        } else {
            judge.blocker(state, UNDERUTILIZED).or_else(|| unreplicated(&candidate))
        };
        if let Some(blocker) = blocker {
            down.keep(&candidate, blocker);
        } else if candidate.pods.is_empty() {
            if down.terminations.len() < EMPTY_AT_ONCE {
                down.terminations.push(termination(&candidate, EMPTY));
            }
        } else if down.commands.is_empty() && !is_draining {
            down.consider(snapshot, all, &candidate, &mut vacancies, now);
        }
    }
    // Empty machines go first, and alone.
    if !down.terminations.is_empty() {
        down.commands.clear();
    }
    let going = down.commands.iter().flat_map(|command| command.candidates.clone());
    down.terminations.extend(going.collect::<Vec<_>>());
    down
}

impl ScaleDown {
    fn keep(&mut self, candidate: &Candidate<'_>, blocker: Blocker) {
        let (claim, price) = (candidate.claim.to_owned(), candidate.price.usd());
        self.kept.push(Kept { claim, blocker, price });
    }

    /// Gives a machine up if its pods have room elsewhere.
    fn consider<'a>(
        &mut self,
        snapshot: &Snapshot,
        all: &Provisioning,
        candidate: &Candidate<'a>,
        vacancies: &mut Vacancies<'a>,
        now: Timestamp,
    ) {
        let tried = vacancies.try_move(candidate);
        let moves = if vacancies.is_awkward(candidate) {
            rehearse(snapshot, all, &[candidate], now).and_then(|rehearsal| {
                let moved: BTreeSet<_> = rehearsal.movers.keys().collect();
                let mut moves = rehearsal.provisioning.nominations;
                moves.retain(|nomination| moved.contains(&nomination.pod));
                if rehearsal.provisioning.launches.is_empty() {
                    Ok(moves)
                } else {
                    Err(Blocker::NotCheaper)
                }
            })
        } else if let Some(pod) = tried.left.first() {
            let message = "no other node has room for it".to_owned();
            Err(Blocker::NoPlace { pod: (pod.namespace.clone(), pod.name.clone()), message })
        } else {
            Ok(tried.moves.clone())
        };
        match moves {
            Ok(moves) => self.commands.push(Command {
                reason: UNDERUTILIZED.to_owned(),
                candidates: vec![termination(candidate, UNDERUTILIZED)],
                replacements: 0,
                saves: candidate.price.usd(),
                moves,
            }),
            Err(blocker) => {
                vacancies.undo(&tried);
                self.keep(candidate, blocker);
            }
        }
    }
}

/// A pod that nobody would make anew.
fn unreplicated(candidate: &Candidate<'_>) -> Option<Blocker> {
    let bare = candidate.pods.iter().find(|pod| pod.owner.is_none())?;
    Some(Blocker::Pod { pod: (bare.namespace.clone(), bare.name.clone()) })
}

/// The larger part of cpu or memory that pods ask for, daemons included.
fn utilization(state: &StateNode, residents: &Residents<'_>) -> f64 {
    let (used, room) = (residents.used(state), &state.node.allocatable);
    part(used.cpu, room.cpu).max(part(used.memory, room.memory))
}

fn termination(candidate: &Candidate<'_>, reason: &str) -> Termination {
    Termination {
        claim: candidate.claim.to_owned(),
        node: Some(candidate.state.node.name.clone()),
        pool: candidate.pool.name.clone(),
        reason: reason.to_owned(),
    }
}
