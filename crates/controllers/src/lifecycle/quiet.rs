//! Whether a node has been quiet for as long as its pool wants: the condition `Consolidatable`.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeclaim/disruption/consolidation.go`.

use std::time::Duration;

use aerostat_api::labels;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::Work;
use crate::context::Context;

const CONDITION: &str = "Consolidatable";

/// Sets or removes the condition; returns when that may change by itself.
pub(super) fn mark(context: &Context, work: &mut Work) -> Option<Duration> {
    let Some(due) = due(context, work) else {
        work.conditions.clear(CONDITION);
        return None;
    };
    match Duration::try_from(due.duration_since(context.clock.now())) {
        Ok(left) if !left.is_zero() => {
            work.conditions.clear(CONDITION);
            Some(left)
        }
        _ => {
            work.conditions.set_true(CONDITION);
            None
        }
    }
}

/// When the node will have been quiet for long enough; `None` for never.
fn due(context: &Context, work: &Work) -> Option<Timestamp> {
    let initialized = work.conditions.true_since("Initialized")?;
    let index = context.index();
    let pool = index.pools.get(work.claim.labels().get(labels::NODEPOOL)?)?;
    if pool.spec.replicas.is_some() {
        return None;
    }
    let after = pool.spec.disruption.consolidate_after.duration?.0;
    let seen = index.last_pod_event.get(work.status.node_name.as_ref()?).copied();
    let written = work.status.last_pod_event_time.as_ref().map(|time| time.0);
    let since = seen.max(written).max(Some(initialized))?;
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    Some(since.checked_add(after).unwrap_or(Timestamp::MAX))
}
