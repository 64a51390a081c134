//! How long to wait after failed pods before the next are made.
//!
//! Source: Kubernetes `pkg/controller/job/backoff_utils.go`.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use crate::workloads::pods::condition;

/// After the first failure.
const FIRST: SignedDuration = SignedDuration::from_secs(10);
/// At most.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// Failures of a Job's pods in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    latest: Option<Timestamp>,
}

impl Backoff {
    /// What it is after these pods, too, have ended.
    pub(super) fn after(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let start = if success.is_some() { Self::default() } else { self };
        let later = failed
            .iter()
            .map(|pod| finished_at(pod))
            .filter(|at| success.is_none_or(|success| *at > success));
        later.fold(start, |backoff, at| Self {
            failures: backoff.failures + 1,
            latest: backoff.latest.max(Some(at)),
        })
    }

    /// When the next pod may be made.
    pub(super) fn until(self) -> Option<Timestamp> {
        until(self.failures, self.latest?)
    }
}

/// When, after `failures` in a row of which the last was at `latest`, the next pod may be made.
pub(super) fn until(failures: u32, latest: Timestamp) -> Option<Timestamp> {
    let doublings = failures.checked_sub(1)?.min(10);
    let pause = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    latest.checked_add(pause).ok()
}

/// When a pod ended, as far as its status tells.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let ends: Option<Vec<Timestamp>> = containers
        .iter()
        .map(|container| {
            let ended = container.state.as_ref()?.terminated.as_ref()?;
            Some(ended.finished_at.as_ref()?.0)
        })
        .collect();
    let unready = condition(pod, "Ready").filter(|ready| ready.status == "False");
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    ends.and_then(|ends| ends.into_iter().max())
        .or_else(|| unready.and_then(|ready| ready.last_transition_time.as_ref()).map(|t| t.0))
        .or_else(|| {
            let deletion = pod.metadata.deletion_timestamp.as_ref()?;
            deletion.0.checked_sub(SignedDuration::from_secs(grace)).ok()
        })
        .or_else(|| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
        .unwrap_or(Timestamp::MIN)
}
