//! The status of a ReplicaSet. Source: Kubernetes `pkg/controller/replicaset/replica_set_utils.go`.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::status::Status;
use crate::workloads::pods::{OwnedPods, is_active, is_available, ready_since};

/// The status that fits `pods`; `failure` says whether pods were missing, and what went wrong.
pub(super) fn calculate(
    set: &ReplicaSet,
    pods: Option<&OwnedPods>,
    failure: Option<&(bool, Status)>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let none = OwnedPods::default();
    let pods = pods.unwrap_or(&none);
    let spec = set.spec.clone().unwrap_or_default();
    let template = spec.template.and_then(|template| template.metadata);
    let wanted = template.and_then(|metadata| metadata.labels).unwrap_or_default();
    let fully_labeled: usize = pods
        .labels
        .iter()
        .filter(|(labels, _)| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)))
        .map(|(_, count)| count)
        .sum();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let available = if min_ready == 0 {
        pods.ready
    } else {
        pods.iter().filter(|pod| is_active(pod) && is_available(pod, min_ready, now)).count()
    };
    let old = set.status.clone().unwrap_or_default();
    ReplicaSetStatus {
        replicas: count(pods.active),
        fully_labeled_replicas: Some(count(fully_labeled)).filter(|n| *n > 0),
        ready_replicas: Some(count(pods.ready)).filter(|n| *n > 0),
        available_replicas: Some(count(available)).filter(|n| *n > 0),
        terminating_replicas: Some(count(pods.terminating)),
        observed_generation: set.metadata.generation,
        conditions: conditions(old.conditions, failure, now),
    }
}

/// When the next ready pod becomes available, if one will.
pub(super) fn next_available(
    set: &ReplicaSet,
    pods: &OwnedPods,
    now: Timestamp,
) -> Option<Timestamp> {
    let seconds = set.spec.as_ref()?.min_ready_seconds.filter(|seconds| *seconds > 0)?;
    let ready = pods.iter().filter(|pod| is_active(pod)).filter_map(|pod| ready_since(pod));
    ready
        .filter_map(|since| since.checked_add(SignedDuration::from_secs(seconds.into())).ok())
        .filter(|when| *when > now)
        .min()
}

fn conditions(
    old: Option<Vec<ReplicaSetCondition>>,
    failure: Option<&(bool, Status)>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = old.unwrap_or_default();
    let has = conditions.iter().any(|condition| condition.type_ == "ReplicaFailure");
    match failure {
        Some((missing, status)) if !has => conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".into(),
            status: "True".into(),
            reason: Some(if *missing { "FailedCreate" } else { "FailedDelete" }.into()),
            message: Some(status.to_string()),
            last_transition_time: Some(Time(now)),
        }),
        None if has => conditions.retain(|condition| condition.type_ != "ReplicaFailure"),
        _ => {}
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}
