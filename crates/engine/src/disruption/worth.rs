//! What moving pods costs, and whether it pays.
//!
//! A machine less, or a cheaper one, must save within [`HORIZON_HOURS`] what the restarts of its
//! pods are worth. A pod's move costs what its annotation `aerostat.dev/pod-move-usd` says, or its
//! NodePool's, or [`POD_MOVE_USD`]; that is scaled by the pod's deletion cost and priority as
//! Karpenter weighs them, so that a pod of deletion cost -2147483648 is moved for nothing. Pods of
//! Jobs lose their work: they are not moved to save money unless it is said what that costs.

use crate::cost::{self, Price};
use crate::pod::Pod;
use crate::report::Misread;
use crate::snapshot::{PackingRule, Pool, Snapshot};

/// USD for the move of a pod of which nothing is said.
pub const POD_MOVE_USD: f64 = 0.0005;
/// Within how many hours a move must pay for itself.
pub const HORIZON_HOURS: u64 = 1;

/// The weight of an ordinary pod in [`eviction_cost`].
pub(crate) const ONE: i64 = 1 << 27;

/// What it costs to move a pod, in 2^-27ths: 1, more for pods of high priority and deletion cost,
/// between -10 and 10. Source: kubernetes-sigs/karpenter `pkg/utils/disruption/disruption.go`.
pub(crate) fn eviction_cost(pod: &Pod) -> i64 {
    let cost = pod.annotations.get("controller.kubernetes.io/pod-deletion-cost");
    let cost = cost.and_then(|text| text.parse::<i32>().ok()).map_or(0, i64::from);
    (ONE + cost + i64::from(pod.priority) * 4).clamp(-10 * ONE, 10 * ONE)
}

/// What it costs to move a pod of a pool's machine. What cannot be read counts as not said.
pub(crate) fn move_price(pod: &Pod, pool: &Pool) -> Price {
    let said = cost::move_price(&pod.annotations).ok().flatten().or(pool.move_price);
    let base = said.or(Price::from_usd(POD_MOVE_USD)).unwrap_or_default();
    let weight = u128::from(eviction_cost(pod).max(0).unsigned_abs());
    let nano = (u128::from(base.nano()) * weight) >> 27;
    Price::from_nano(u64::try_from(nano).unwrap_or(u64::MAX))
}

/// What a pod says of its moves, if that cannot be read.
pub(crate) fn misread(pod: &Pod) -> Option<Misread> {
    let why = cost::move_price(&pod.annotations).err()?;
    let message = format!("{why}; its NodePool's value is used");
    Some(Misread { pod: (pod.namespace.clone(), pod.name.clone()), message })
}

/// Whether a pod is of a Job, which would begin anew elsewhere, and nothing says what that costs.
pub(crate) fn is_work(pod: &Pod, pool: &Pool) -> bool {
    let is_said = matches!(cost::move_price(&pod.annotations), Ok(Some(_)));
    let is_said = is_said || pool.move_price.is_some();
    !is_said && pod.owner.as_ref().is_some_and(|owner| owner.kind == "Job")
}

/// Whether machines for `price` are to be given up for machines that cost `instead`, if the pods
/// that move cost `moves`. By Karpenter's rule moves cost nothing.
pub(crate) fn pays(price: Price, instead: Price, moves: Price, snapshot: &Snapshot) -> bool {
    let saved = price.nano().saturating_sub(instead.nano());
    let moves = match snapshot.settings.packing {
        PackingRule::Price => moves.nano(),
        PackingRule::Karpenter => 0,
    };
    saved > 0 && saved.saturating_mul(HORIZON_HOURS) >= moves
}
