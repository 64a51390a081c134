//! How many nodes of a pool may be disrupted now.
//!
//! Source: kubernetes-sigs/karpenter `pkg/apis/v1/nodepool.go`, `pkg/controllers/disruption/helpers.go`.

use crate::snapshot::{Pool, Snapshot, Stage, StateNode};

/// How many more nodes of `pool` may be disrupted for `reason` (`Empty`, `Drifted`,
/// `Underutilized`): the least that its budgets allow, less those that are being disrupted. A
/// budget with a schedule counts as if it always held. A budget that cannot be read allows none.
pub(crate) fn allowed(pool: &Pool, snapshot: &Snapshot, reason: &str) -> u64 {
    let mine = |state: &&StateNode| {
        state.claim.is_some()
            && state.pool.as_ref() == Some(&pool.name)
            && state.stage == Stage::Initialized
    };
    let (mut nodes, mut disrupted) = (0_u64, 0_u64);
    for state in snapshot.nodes.iter().filter(mine) {
        nodes += 1;
        disrupted += u64::from(state.deleting || is_not_ready(state));
    }
    let applies = |reasons: &Option<Vec<String>>| {
        reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|other| other == reason))
    };
    let budgets = pool.budgets.iter().filter(|budget| applies(&budget.reasons));
    let least = budgets.map(|budget| amount(&budget.nodes, nodes)).min();
    least.unwrap_or(nodes).saturating_sub(disrupted)
}

/// A number, or a percentage of `nodes`, rounded up.
fn amount(text: &str, nodes: u64) -> u64 {
    match text.strip_suffix('%') {
        Some(percent) => (nodes * percent.parse::<u64>().unwrap_or(0)).div_ceil(100),
        None => text.parse().unwrap_or(0),
    }
}

fn is_not_ready(state: &StateNode) -> bool {
    let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    state.node.taints.iter().any(|taint| keys.contains(&taint.key.as_str()))
}
