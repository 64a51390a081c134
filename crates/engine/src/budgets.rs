//! How many nodes of a pool may be disrupted now.
//!
//! Source: kubernetes-sigs/karpenter `pkg/apis/v1/nodepool.go`, `pkg/controllers/disruption/helpers.go`.
//! The time zone is ours: `aerostat.dev/budget-time-zone` on the pool, UTC unless set. So is what
//! becomes of a schedule that never comes: it counts as one that cannot be read.

use aerostat_api::labels;
use aerostat_api::nodepool::Budget;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::schedule::{Schedule, time_zone};
use crate::snapshot::{Pool, Snapshot, Stage, StateNode};

/// What nodes are disrupted for within budgets.
pub const REASONS: [&str; 3] = ["Drifted", "Empty", "Underutilized"];
/// A budget that holds for so many hits on end is taken to hold for ever.
const HITS: usize = 1000;
/// So many budgets in turn are taken to close a pool for ever.
const TURNS: usize = 100;

/// How many nodes of a pool may be disrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// How many more.
    pub(crate) nodes: u64,
    /// When a schedule may change that.
    pub(crate) changes: Option<Timestamp>,
}

/// How many more nodes of `pool` may be disrupted for `reason`: the least that its budgets allow
/// at `now`, less those that are being disrupted. If one of its budgets cannot be read, none.
pub(crate) fn allowed(pool: &Pool, snapshot: &Snapshot, reason: &str, now: Timestamp) -> Allowance {
    let mine = |state: &&StateNode| {
        state.claim.is_some()
            && state.pool.as_ref() == Some(&pool.name)
            && state.stage == Stage::Initialized
    };
    let (mut nodes, mut disrupted) = (0_u64, 0_u64);
    for state in snapshot.nodes.iter().filter(mine) {
        nodes += 1;
        disrupted += u64::from(state.deleting || state.is_disrupted() || is_not_ready(state));
    }
    let Ok(budgets) = read(&pool.budgets, pool.budget_time_zone.as_deref(), now) else {
        return Allowance { nodes: 0, changes: None };
    };
    let mut least = nodes;
    let mut changes = None;
    for Reading { budget, amount, holds, until } in &budgets {
        if applies(budget, reason) {
            changes = changes.into_iter().chain(*until).min();
            if *holds {
                least = least.min(amount.of(nodes));
            }
        }
    }
    Allowance { nodes: least.saturating_sub(disrupted), changes }
}

/// What a pool's budgets say at one time, however many nodes it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// What cannot be read, and where it stands; then nothing may be disrupted.
    pub problems: Vec<String>,
    /// For what nothing may be disrupted.
    pub closed: Vec<Closed>,
    /// When a schedule begins or ends.
    pub changes: Option<Timestamp>,
}

/// A reason for which no node may be disrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// One of [`REASONS`].
    pub reason: &'static str,
    /// Until when, if it ends.
    pub until: Option<Timestamp>,
}

/// What `budgets` say at `now`, their schedules in the time zone called `zone`.
#[must_use]
pub fn outlook(budgets: &[Budget], zone: Option<&str>, now: Timestamp) -> Outlook {
    let readings = match read(budgets, zone, now) {
        Ok(readings) => readings,
        Err(problems) => return Outlook { problems, ..Outlook::default() },
    };
    let closed = REASONS.iter().filter_map(|reason| {
        let closing = |at| closing(budgets, zone, reason, at);
        let mut until = closing(now)?;
        for _ in 0..TURNS {
            match until.and_then(closing) {
                Some(later) => until = later,
                None => return Some(Closed { reason, until }),
            }
        }
        Some(Closed { reason, until: None })
    });
    Outlook {
        problems: Vec::new(),
        closed: closed.collect(),
        changes: readings.iter().filter_map(|reading| reading.until).min(),
    }
}

/// Whether a budget allows nothing for `reason` at `at`, and until when.
fn closing(
    budgets: &[Budget],
    zone: Option<&str>,
    reason: &str,
    at: Timestamp,
) -> Option<Option<Timestamp>> {
    let readings = read(budgets, zone, at).ok()?;
    let closes = |reading: &&Reading<'_>| {
        reading.holds && reading.amount.of(u64::MAX) == 0 && applies(reading.budget, reason)
    };
    let until = |reading: &Reading<'_>| reading.until;
    // Endless is longer than any end.
    readings.iter().filter(closes).map(until).max_by_key(|until| (until.is_none(), *until))
}

/// A budget at one time.
struct Reading<'a> {
    budget: &'a Budget,
    amount: Amount,
    /// Whether it holds.
    holds: bool,
    /// When that changes.
    until: Option<Timestamp>,
}

/// Reads all budgets.
fn read<'a>(
    budgets: &'a [Budget],
    zone: Option<&str>,
    now: Timestamp,
) -> Result<Vec<Reading<'a>>, Vec<String>> {
    let mut problems = Vec::new();
    let zone = zone.map_or(Ok(TimeZone::UTC), time_zone).unwrap_or_else(|why| {
        problems.push(format!("metadata.annotations[{}]: {why}", labels::BUDGET_TIME_ZONE));
        TimeZone::UTC
    });
    let mut readings = Vec::new();
    for (at, budget) in budgets.iter().enumerate() {
        match reading(budget, &zone, now) {
            Ok(reading) => readings.push(reading),
            Err(why) => problems.push(format!("spec.disruption.budgets[{at}].{why}")),
        }
    }
    if problems.is_empty() { Ok(readings) } else { Err(problems) }
}

fn reading<'a>(budget: &'a Budget, zone: &TimeZone, now: Timestamp) -> Result<Reading<'a>, String> {
    let amount = Amount::parse(&budget.nodes).map_err(|why| format!("nodes: {why}"))?;
    let Some(text) = &budget.schedule else {
        return match budget.duration {
            None => Ok(Reading { budget, amount, holds: true, until: None }),
            Some(_) => Err("schedule: it must be set with duration".to_owned()),
        };
    };
    let duration = budget.duration.ok_or("duration: it must be set with schedule")?;
    let duration = SignedDuration::try_from(duration.0).unwrap_or(SignedDuration::MAX);
    let in_field = |why: String| format!("schedule: {why}");
    let schedule = Schedule::parse(text, zone.clone()).map_err(in_field)?;
    let never = || in_field(format!("{text:?} never comes"));
    // A hit longer ago than the duration has ended.
    let begun = now.checked_sub(duration).unwrap_or(Timestamp::MIN);
    let first = schedule.next(begun).ok_or_else(never)?;
    if first > now {
        return Ok(Reading { budget, amount, holds: false, until: Some(first) });
    }
    let ends = |hit: Timestamp| hit.checked_add(duration).unwrap_or(Timestamp::MAX);
    let mut end = ends(first);
    let hits = std::iter::successors(schedule.next(first), |hit| schedule.next(*hit));
    for (count, hit) in hits.enumerate() {
        if count == HITS {
            return Ok(Reading { budget, amount, holds: true, until: None });
        }
        if hit > end {
            break;
        }
        end = ends(hit);
    }
    Ok(Reading { budget, amount, holds: true, until: Some(end) })
}

fn applies(budget: &Budget, reason: &str) -> bool {
    budget.reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|other| other == reason))
}

/// A number of nodes, or a part of them.
#[derive(Clone, Copy)]
enum Amount {
    Nodes(u64),
    Percent(u64),
}

impl Amount {
    fn parse(text: &str) -> Result<Self, String> {
        let (digits, percent) = match text.strip_suffix('%') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let digits = Some(digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(number) if percent && number <= 100 => Ok(Self::Percent(number)),
            Some(number) if !percent => Ok(Self::Nodes(number)),
            _ => Err(format!("{text:?} is neither a number nor a percentage up to 100%")),
        }
    }

    /// How many of `nodes`; a percentage is rounded up.
    fn of(self, nodes: u64) -> u64 {
        match self {
            Self::Nodes(number) => number,
            Self::Percent(percent) => {
                let part = (u128::from(nodes) * u128::from(percent)).div_ceil(100);
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        }
    }
}

fn is_not_ready(state: &StateNode) -> bool {
    let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    state.node.taints.iter().any(|taint| keys.contains(&taint.key.as_str()))
}

#[cfg(test)]
mod tests;
