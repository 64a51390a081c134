//! The least that still breaks a rule.

use super::case::{Case, Workload};
use super::ledger::Violation;
use super::play::play;

/// Takes away whatever the violation does not need: what happens, Deployments, pools, and what is
/// special about them.
pub fn shrink(case: &Case, violations: &[Violation]) -> Case {
    let breaks = |case: &Case| {
        let found = play(case).violations;
        found.iter().any(|found| violations.iter().any(|known| known.rule == found.rule))
    };
    let mut least = case.clone();
    loop {
        let before = least.clone();
        for at in (0..least.happenings.len()).rev() {
            try_without(&mut least, breaks, |case| drop(case.happenings.remove(at)));
        }
        for at in (0..least.workloads.len()).rev() {
            try_without(&mut least, breaks, |case| drop(case.workloads.remove(at)));
        }
        try_without(&mut least, breaks, |case| case.jobs.clear());
        try_without(&mut least, breaks, |case| case.daemons.clear());
        for at in (1..least.pools.len()).rev() {
            try_without(&mut least, breaks, |case| drop(case.pools.remove(at)));
        }
        for at in 0..least.workloads.len() {
            let plain: [fn(&mut Workload); 7] = [
                |w| w.guard = None,
                |w| w.do_not_disrupt = None,
                |w| w.spread = None,
                |w| w.pool = None,
                |w| w.move_usd = None,
                |w| w.ignores_term = false,
                |w| w.replicas = (w.replicas / 2).max(1),
            ];
            for plain in plain {
                try_without(&mut least, breaks, |case| plain(&mut case.workloads[at]));
            }
        }
        for at in 0..least.pools.len() {
            try_without(&mut least, breaks, |case| case.pools[at].expire_after = None);
            try_without(&mut least, breaks, |case| case.pools[at].termination_grace = None);
            try_without(&mut least, breaks, |case| {
                case.pools[at].budgets.retain(|budget| budget.minutes.is_none());
            });
            try_without(&mut least, breaks, |case| case.pools[at].weight = None);
            try_without(&mut least, breaks, |case| case.pools[at].limit_cpu = None);
            try_without(&mut least, breaks, |case| case.pools[at].limit_nodes = None);
        }
        if least == before {
            return least;
        }
    }
}

fn try_without(case: &mut Case, breaks: impl Fn(&Case) -> bool, change: impl FnOnce(&mut Case)) {
    let mut less = case.clone();
    change(&mut less);
    if less != *case && breaks(&less) {
        *case = less;
    }
}
