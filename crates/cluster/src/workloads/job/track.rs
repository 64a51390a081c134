//! Counting ended pods exactly once.
//!
//! A pod keeps a finalizer until the status counts it: first its UID is put into
//! `status.uncountedTerminatedPods`, then the finalizer is taken off, then the UID becomes a
//! number. Source: Kubernetes `pkg/controller/job/job_controller.go`.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::FINALIZER;
use crate::registry::Cluster;
use crate::status::Status;
use crate::workloads::owner::{key, uid};

/// Whether a pod is still to be counted.
pub(super) fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Takes the finalizer off a pod. One that is gone already is no error.
///
/// # Errors
///
/// What the registry answers.
pub(super) fn remove_finalizer(cluster: &Cluster, pod: &Pod) -> Result<(), Status> {
    let (namespace, name) = key(&pod.metadata);
    let result = cluster.modify::<Pod>(&namespace, &name, |current| {
        if current.metadata.uid == pod.metadata.uid
            && let Some(finalizers) = &mut current.metadata.finalizers
        {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
    });
    match result {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// The UIDs that the status knows but does not count yet.
pub(super) fn uncounted(status: &JobStatus) -> (BTreeSet<String>, BTreeSet<String>) {
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let set = |list: Option<Vec<String>>| list.unwrap_or_default().into_iter().collect();
    (set(uncounted.succeeded), set(uncounted.failed))
}

/// Counts the uncounted whose pods have lost their finalizer; `held` are the UIDs that have it.
/// Succeeded pods of Indexed Jobs are counted by index instead.
pub(super) fn count(status: &mut JobStatus, held: &BTreeSet<String>) {
    let (succeeded, failed) = uncounted(status);
    let split = |uids: BTreeSet<String>| -> (Vec<String>, i32) {
        let all = uids.len();
        let kept: Vec<String> = uids.into_iter().filter(|uid| held.contains(uid)).collect();
        let counted = i32::try_from(all - kept.len()).unwrap_or(i32::MAX);
        (kept, counted)
    };
    let (succeeded, more_succeeded) = split(succeeded);
    let (failed, more_failed) = split(failed);
    let add = |to: Option<i32>, more: i32| Some(to.unwrap_or(0) + more).filter(|n| *n > 0);
    status.succeeded = add(status.succeeded, more_succeeded);
    status.failed = add(status.failed, more_failed);
    let list = |uids: Vec<String>| Some(uids).filter(|uids| !uids.is_empty());
    status.uncounted_terminated_pods =
        Some(UncountedTerminatedPods { succeeded: list(succeeded), failed: list(failed) });
}

/// The UIDs of pods that still have the finalizer.
pub(super) fn held<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> BTreeSet<String> {
    pods.into_iter()
        .filter(|pod| has_finalizer(pod))
        .map(|pod| uid(&pod.metadata).to_owned())
        .collect()
}
