//! Counts and conditions of a Deployment.
//!
//! Source: Kubernetes `pkg/controller/deployment/{sync,progress}.go`.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::limits::{max_unavailable, wanted};

/// Counts over all sets, and whether enough pods are available.
pub(super) fn calculate(
    deployment: &Deployment,
    old: &[Arc<ReplicaSet>],
    new: Option<&Arc<ReplicaSet>>,
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |field: fn(&ReplicaSetStatus) -> Option<i32>| -> i32 {
        let sets = old.iter().chain(new);
        sets.filter_map(|set| set.status.as_ref().and_then(field)).sum()
    };
    let available = sum(|status| status.available_replicas);
    let specified: i32 = old.iter().chain(new).map(|set| replicas(set)).sum();
    let before = deployment.status.clone().unwrap_or_default();
    let updated = new.and_then(|set| set.status.as_ref()).map_or(0, |status| status.replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(sum(|status| Some(status.replicas))),
        updated_replicas: some(updated),
        ready_replicas: some(sum(|status| status.ready_replicas)),
        available_replicas: some(available),
        unavailable_replicas: some((specified - available).max(0)),
        terminating_replicas: Some(sum(|status| status.terminating_replicas)),
        collision_count: before.collision_count,
        conditions: before.conditions,
    };
    let enough = available >= wanted(deployment) - max_unavailable(deployment);
    let (truth, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set_condition(&mut status, condition("Available", truth, reason, message, now));
    status
}

/// What the rollout is doing, on top of the counts in `status`; and when it has to be looked at
/// again lest it is stuck.
pub(super) fn note_progress(
    deployment: &Deployment,
    status: &mut DeploymentStatus,
    old: &[Arc<ReplicaSet>],
    new: Option<&Arc<ReplicaSet>>,
    now: Timestamp,
) -> Option<Timestamp> {
    let deadline = progress_deadline(deployment);
    if deadline.is_none() {
        remove_condition(status, "Progressing");
    }
    let current = find(status, "Progressing").cloned();
    let finished_before = status.replicas == status.updated_replicas
        && current.as_ref().is_some_and(|c| c.reason.as_deref() == Some("NewReplicaSetAvailable"));
    if let Some(deadline) = deadline
        && !finished_before
    {
        let what = match new {
            Some(set) => {
                format!("ReplicaSet {:?}", set.metadata.name.as_deref().unwrap_or_default())
            }
            None => {
                let name = deployment.metadata.name.as_deref().unwrap_or_default();
                format!("Deployment {name:?}")
            }
        };
        if is_complete(deployment, status) {
            let message = format!("{what} has successfully progressed.");
            let reached = condition("Progressing", "True", "NewReplicaSetAvailable", &message, now);
            set_condition(status, reached);
        } else if progresses(deployment, status) {
            let message = format!("{what} is progressing.");
            let mut moving = condition("Progressing", "True", "ReplicaSetUpdated", &message, now);
            if let Some(current) = current.filter(|current| current.status == "True") {
                moving.last_transition_time = current.last_transition_time;
            }
            // The update time has to move even if nothing else does.
            remove_condition(status, "Progressing");
            set_condition(status, moving);
        } else if timed_out(status, deadline, now) {
            let message = format!("{what} has timed out progressing.");
            let late = condition("Progressing", "False", "ProgressDeadlineExceeded", &message, now);
            set_condition(status, late);
        }
    }
    match replica_failure(old, new) {
        Some(failure) => set_condition(status, failure),
        None => remove_condition(status, "ReplicaFailure"),
    }
    let progressing = find(status, "Progressing")?;
    if is_complete(deployment, status)
        || progressing.reason.as_deref() == Some("ProgressDeadlineExceeded")
    {
        return None;
    }
    // A second more, since times are stored in whole seconds.
    let updated = progressing.last_update_time.as_ref()?.0;
    updated.checked_add(deadline? + SignedDuration::from_secs(1)).ok().filter(|when| *when > now)
}

/// Pausing and resuming stop the clock of the progress deadline.
pub(super) fn note_paused(deployment: &Deployment, status: &mut DeploymentStatus, now: Timestamp) {
    if progress_deadline(deployment).is_none() {
        return;
    }
    let reason = find(status, "Progressing").and_then(|c| c.reason.clone()).unwrap_or_default();
    if reason == "ProgressDeadlineExceeded" {
        return;
    }
    let paused = is_paused(deployment);
    let was = reason == "DeploymentPaused";
    if paused != was {
        let (reason, message) = if paused {
            ("DeploymentPaused", "Deployment is paused")
        } else {
            ("DeploymentResumed", "Deployment is resumed")
        };
        set_condition(status, condition("Progressing", "Unknown", reason, message, now));
    }
}

/// `spec.paused`.
pub(super) fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true)
}

/// All pods are of the current template and available, and there are no others.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = wanted(deployment);
    status.updated_replicas.unwrap_or(0) == wanted
        && status.replicas.unwrap_or(0) == wanted
        && status.available_replicas.unwrap_or(0) == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// How long a rollout may stand still; `None` means forever.
pub(super) fn progress_deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.as_ref()?.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| SignedDuration::from_secs(seconds.into()))
}

/// A condition that begins now.
pub(super) fn condition(
    type_: &str,
    truth: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: truth.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// A condition of the status.
pub(super) fn find<'a>(
    status: &'a DeploymentStatus,
    type_: &str,
) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// Sets a condition, unless it says the same for the same reason already.
pub(super) fn set_condition(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(current) = find(status, &condition.type_)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time.clone_from(&current.last_transition_time);
    }
    remove_condition(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

fn remove_condition(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}

fn progresses(deployment: &Deployment, new: &DeploymentStatus) -> bool {
    let old = deployment.status.clone().unwrap_or_default();
    let n = |field: Option<i32>| field.unwrap_or(0);
    let outdated = |status: &DeploymentStatus| n(status.replicas) - n(status.updated_replicas);
    n(new.updated_replicas) > n(old.updated_replicas)
        || outdated(new) < outdated(&old)
        || n(new.ready_replicas) > n(old.ready_replicas)
        || n(new.available_replicas) > n(old.available_replicas)
}

fn timed_out(status: &DeploymentStatus, deadline: SignedDuration, now: Timestamp) -> bool {
    let Some(progressing) = find(status, "Progressing") else { return false };
    match progressing.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => {
            let from = progressing.last_update_time.as_ref();
            from.is_some_and(|from| now.duration_since(from.0) > deadline)
        }
    }
}

fn replica_failure(
    old: &[Arc<ReplicaSet>],
    new: Option<&Arc<ReplicaSet>>,
) -> Option<DeploymentCondition> {
    let sets = new.into_iter().chain(old);
    let mut conditions = sets
        .filter_map(|set| set.status.as_ref().and_then(|status| status.conditions.as_ref()))
        .flatten();
    let failure = conditions.find(|condition| condition.type_ == "ReplicaFailure")?;
    Some(DeploymentCondition {
        type_: failure.type_.clone(),
        status: failure.status.clone(),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        last_update_time: failure.last_transition_time.clone(),
        last_transition_time: failure.last_transition_time.clone(),
    })
}

/// `spec.replicas` of a set.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// `status.availableReplicas` of a set.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Zero is left out, as Go does.
fn some(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}
