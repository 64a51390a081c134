//! Runs the pods of Jobs until enough have succeeded, or too many have failed.
//!
//! Behaviour follows Kubernetes `pkg/controller/job` and `pkg/controller/ttlafterfinished`. Pods
//! are not adopted: a Job owns what it made.
//!
//! - `sync`: one look at one Job: what has ended, what to start, whether it is finished.
//! - `track`: counting ended pods exactly once, by finalizer.
//! - `indexes`: completion indexes of Indexed Jobs.
//! - `backoff`: how long to wait after failures.
//! - `policy`: pod failure policy and success policy.

mod backoff;
mod indexes;
mod policy;
mod sync;
#[cfg(test)]
mod tests;
mod track;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::owner::{controller_of, key, uid};
use super::pods::PodIndex;
use super::queue::Queue;
use crate::informer::{Change, Informer};
use crate::registry::{Cluster, DeleteOptions, Propagation};
use crate::store::Key;
use backoff::Backoff;

const COMPONENT: &str = "job-controller";
/// Keeps an ended pod until it is counted.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Changes of pods are looked at together.
const BATCH: SignedDuration = SignedDuration::from_secs(1);

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut jobs = cluster.informer::<Job>();
    let mut pods = cluster.informer::<Pod>();
    let mut controller = Controller::new(cluster.clone());
    loop {
        tokio::select! {
            biased;
            change = jobs.next() => match change {
                Some(change) => controller.job_changed(change),
                None => return,
            },
            change = pods.next() => match change {
                Some(change) => controller.pod_changed(change),
                None => return,
            },
            () = controller.queue.due(cluster.clock()) => {}
        }
        controller.drain(&mut jobs, &mut pods);
        while let Some(key) = controller.queue.pop(cluster.clock().now()) {
            controller.reconcile(key);
            // Others see each burst before the next one.
            tokio::task::yield_now().await;
            controller.drain(&mut jobs, &mut pods);
        }
    }
}

struct Controller {
    cluster: Cluster,
    jobs: BTreeMap<String, Arc<Job>>,
    pods: PodIndex,
    backoffs: BTreeMap<Key, Backoff>,
    queue: Queue<Key>,
}

impl Controller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            jobs: BTreeMap::new(),
            pods: PodIndex::new("Job"),
            backoffs: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    fn drain(&mut self, jobs: &mut Informer<Job>, pods: &mut Informer<Pod>) {
        while let Some(change) = jobs.try_next() {
            self.job_changed(change);
        }
        while let Some(change) = pods.try_next() {
            self.pod_changed(change);
        }
    }

    fn job_changed(&mut self, change: Change<Job>) {
        match change {
            Change::Applied { new, old } => {
                let key = key(&new.metadata);
                let same_spec =
                    old.is_some_and(|old| old.metadata.generation == new.metadata.generation);
                if same_spec {
                    self.queue.add_at(self.cluster.clock().now() + BATCH, key);
                } else {
                    self.queue.add(key);
                }
                self.jobs.insert(uid(&new.metadata).to_owned(), new);
            }
            Change::Deleted(job) => {
                let key = key(&job.metadata);
                self.backoffs.remove(&key);
                self.queue.succeeded(&key);
                self.jobs.remove(uid(&job.metadata));
                // Nobody counts its pods any more: let them go.
                let pods: Vec<_> = self
                    .pods
                    .owned(uid(&job.metadata))
                    .map(|pods| pods.iter().cloned().collect())
                    .unwrap_or_default();
                for pod in pods {
                    self.release(&pod);
                }
            }
        }
    }

    fn pod_changed(&mut self, change: Change<Pod>) {
        if let Change::Applied { new, .. } = &change {
            let owner = controller_of(&new.metadata).filter(|owner| owner.kind == "Job");
            let counted_by_nobody = owner.is_some_and(|owner| {
                // The informer may not have told of the Job yet.
                let namespace = new.metadata.namespace.as_deref().unwrap_or_default();
                let job = self.jobs.get(&owner.uid).cloned();
                job.or_else(|| self.cluster.get::<Job>(namespace, &owner.name))
                    .is_none_or(|job| uid(&job.metadata) != owner.uid || is_finished(&job))
            });
            if counted_by_nobody {
                self.release(new);
            }
        }
        let concerned = self.pods.apply(change);
        let when = self.cluster.clock().now() + BATCH;
        for owner in [concerned.before, concerned.after].into_iter().flatten() {
            if let Some(job) = self.jobs.get(&owner) {
                self.queue.add_at(when, key(&job.metadata));
            }
        }
    }

    fn release(&self, pod: &Pod) {
        if track::has_finalizer(pod) {
            // Gone is as good as released.
            let _ = track::remove_finalizer(&self.cluster, pod);
        }
    }

    fn reconcile(&mut self, key: Key) {
        // A Job may have changed since the informer told of it: read it as it is.
        let Some(job) = self.cluster.get::<Job>(&key.0, &key.1) else { return };
        let now = self.cluster.clock().now();
        if is_finished(&job) {
            self.backoffs.remove(&key);
            self.queue.succeeded(&key);
            self.expire(key, &job, now);
            return;
        }
        let pods: Vec<_> = self
            .pods
            .owned(uid(&job.metadata))
            .map(|pods| pods.iter().cloned().collect())
            .unwrap_or_default();
        let backoff = self.backoffs.entry(key.clone()).or_default();
        match sync::run(&self.cluster, &job, pods, backoff, now) {
            Ok(again) => {
                self.queue.succeeded(&key);
                if let Some(when) = again {
                    self.queue.add_at(when, key);
                }
            }
            Err(error) => {
                tracing::debug!(%error, namespace = key.0, name = key.1, "job is tried again");
                self.queue.retry(key, now);
            }
        }
    }

    /// Deletes a finished Job when its time to live is over.
    fn expire(&mut self, key: Key, job: &Job, now: Timestamp) {
        let Some(ttl) = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished) else {
            return;
        };
        if job.metadata.deletion_timestamp.is_some() {
            return;
        }
        let status = job.status.clone().unwrap_or_default();
        let finished = finished_condition(&status).and_then(|c| c.last_transition_time.as_ref());
        let Some(finished) = finished else { return };
        let due = finished.0 + SignedDuration::from_secs(ttl.into());
        if due > now {
            self.queue.add_at(due, key);
            return;
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Foreground),
            uid: job.metadata.uid.clone(),
            ..DeleteOptions::default()
        };
        if self.cluster.delete::<Job>(&key.0, &key.1, &options).is_err_and(|e| e.code != 404) {
            self.queue.retry(key, now);
        }
    }
}

/// The condition that says how the Job ended.
fn finished_condition(status: &JobStatus) -> Option<&JobCondition> {
    status.conditions.iter().flatten().find(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })
}

fn is_finished(job: &Job) -> bool {
    job.status.as_ref().is_some_and(|status| finished_condition(status).is_some())
}
