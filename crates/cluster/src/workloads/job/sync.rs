//! One look at one Job.
//!
//! Source: Kubernetes `pkg/controller/job/job_controller.go` (`syncJob` and what it calls).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::backoff::Backoff;
use super::indexes::{self, Indexes};
use super::{COMPONENT, FINALIZER, policy, track};
use crate::events::EventType;
use crate::registry::Cluster;
use crate::status::Status;
use crate::workloads::owner::{key, uid};
use crate::workloads::pod_control::{PodControl, from_template, is_namespace_terminating};
use crate::workloads::pods::{is_active, is_ready, is_terminating, phase};
use crate::workloads::victims;

/// So many pods are created, deleted or counted in one look.
const BURST: usize = 500;

/// Whether a pod counts as failed: it did fail, or it was deleted before it could succeed (unless
/// the Job only replaces pods that have failed for certain).
pub(super) fn is_failed(pod: &Pod, job: &Job) -> bool {
    match phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => !only_replaces_failed(job) && pod.metadata.deletion_timestamp.is_some(),
    }
}

fn only_replaces_failed(job: &Job) -> bool {
    let spec = job.spec.as_ref();
    spec.and_then(|spec| spec.pod_replacement_policy.as_deref()) == Some("Failed")
}

/// Brings `job` one step further; `pods` are all pods that it owns. Returns when to look again
/// even if nothing happens.
///
/// # Errors
///
/// What the registry answers to a write; what was done until then stays.
pub(super) fn run(
    cluster: &Cluster,
    job: &Job,
    pods: Vec<Arc<Pod>>,
    backoff: &mut Backoff,
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    let mut sync = Sync::new(cluster, job, pods, now);
    let (succeeded, failed) = sync.newly_ended();
    let mut counts = sync.add_up(&succeeded, &failed);
    let new_backoff = backoff.after(&succeeded, &failed);
    let suspended = sync.suspended();
    if sync.status.start_time.is_none() && !suspended {
        sync.status.start_time = Some(Time(now));
    }
    let mut verdict = sync.verdict(&counts);
    if let Some(indexes) = &sync.indexes {
        counts.succeeded = indexes.succeeded.len();
        verdict = verdict.or_else(|| sync.index_verdict());
    }
    let mut failure = None;
    if verdict.is_some() {
        if let Err(status) = sync.delete_active() {
            // Not finished as long as a pod may still run.
            verdict = None;
            failure = Some(status);
        }
    } else {
        let managed = job.metadata.deletion_timestamp.is_none();
        if managed {
            failure = sync.manage(&counts, new_backoff).err();
        }
        if sync.is_complete(&counts) {
            let message = "Reached expected number of succeeded pods";
            verdict = Some(sync.condition("SuccessCriteriaMet", "CompletionsReached", message));
        } else if managed {
            sync.note_suspension(suspended);
        }
    }
    sync.finish(verdict)?;
    *backoff = new_backoff;
    failure.map_or(Ok(sync.again), Err)
}

/// How many pods have ended, counted or not.
struct Counts {
    succeeded: usize,
    failed: usize,
}

struct Sync<'a> {
    cluster: &'a Cluster,
    job: &'a Job,
    spec: JobSpec,
    control: PodControl<'a>,
    now: Timestamp,
    pods: Vec<Arc<Pod>>,
    active: Vec<Arc<Pod>>,
    /// Counts after what this look does to the pods.
    active_count: usize,
    ready_count: usize,
    terminating_count: usize,
    indexes: Option<Indexes>,
    /// The status to be.
    status: JobStatus,
    again: Option<Timestamp>,
}

impl<'a> Sync<'a> {
    fn new(cluster: &'a Cluster, job: &'a Job, pods: Vec<Arc<Pod>>, now: Timestamp) -> Self {
        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        let spec = job.spec.clone().unwrap_or_default();
        let indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let mut status = job.status.clone().unwrap_or_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        Self {
            cluster,
            job,
            control: PodControl::new(cluster, COMPONENT, job),
            now,
            active_count: active.len(),
            ready_count: active.iter().filter(|pod| is_ready(pod)).count(),
            terminating_count: pods.iter().filter(|pod| is_terminating(pod)).count(),
            indexes: indexed.then(|| Indexes::of(job, &pods, &active)),
            spec,
            pods,
            active,
            status,
            again: None,
        }
    }

    fn suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    fn look_again(&mut self, when: Timestamp) {
        self.again = Some(self.again.map_or(when, |again| again.min(when)));
    }

    fn condition(&self, type_: &str, reason: &str, message: &str) -> JobCondition {
        JobCondition {
            type_: type_.to_owned(),
            status: "True".into(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_probe_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
        }
    }

    fn find(&self, type_: &str) -> Option<&JobCondition> {
        let conditions = self.status.conditions.iter().flatten();
        conditions.clone().find(|condition| condition.type_ == type_ && condition.status == "True")
    }

    /// Pods that have ended and that the status knows nothing of: succeeded, failed.
    fn newly_ended(&self) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
        let (succeeded, failed) = track::uncounted(&self.status);
        let fresh = self.pods.iter().filter(|pod| {
            track::has_finalizer(pod)
                && self
                    .indexes
                    .as_ref()
                    .is_none_or(|all| indexes::index(pod, all.completions).is_some())
        });
        let new_succeeded = fresh
            .clone()
            .filter(|pod| phase(pod) == "Succeeded" && !succeeded.contains(uid(&pod.metadata)));
        let new_failed =
            fresh.filter(|pod| is_failed(pod, self.job) && !failed.contains(uid(&pod.metadata)));
        (new_succeeded.cloned().collect(), new_failed.cloned().collect())
    }

    fn add_up(&self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Counts {
        let (uncounted_succeeded, uncounted_failed) = track::uncounted(&self.status);
        let counting = failed.iter().filter(|pod| policy::judge(self.job, pod).counts).count();
        let before = |number: Option<i32>| usize::try_from(number.unwrap_or(0)).unwrap_or(0);
        Counts {
            succeeded: before(self.status.succeeded) + succeeded.len() + uncounted_succeeded.len(),
            failed: before(self.status.failed) + counting + uncounted_failed.len(),
        }
    }

    /// Whether the Job's fate is decided, by an earlier look or by failures.
    fn verdict(&mut self, counts: &Counts) -> Option<JobCondition> {
        if let Some(met) = self.find("SuccessCriteriaMet") {
            return Some(met.clone());
        }
        if let Some(target) = self.find("FailureTarget") {
            let failed = JobCondition { type_: "Failed".into(), ..target.clone() };
            return Some(JobCondition { last_transition_time: Some(Time(self.now)), ..failed });
        }
        let failed_pods = self.pods.iter().filter(|pod| is_failed(pod, self.job));
        let by_policy =
            self.spec.pod_failure_policy.as_ref().and_then(|_| {
                failed_pods.clone().find_map(|p| policy::judge(self.job, p).fails_job)
            });
        if let Some(message) = by_policy {
            return Some(self.condition("FailureTarget", "PodFailurePolicy", &message));
        }
        let limit = usize::try_from(self.spec.backoff_limit.unwrap_or(6)).unwrap_or(0);
        if counts.failed > limit || self.restarted_too_often(limit) {
            let message = "Job has reached the specified backoff limit";
            return Some(self.condition("FailureTarget", "BackoffLimitExceeded", message));
        }
        if let (Some(seconds), Some(start)) =
            (self.spec.active_deadline_seconds, self.status.start_time.as_ref())
            && !self.suspended()
        {
            let deadline = start.0.checked_add(SignedDuration::from_secs(seconds)).ok()?;
            if deadline <= self.now {
                let message = "Job was active longer than specified deadline";
                return Some(self.condition("FailureTarget", "DeadlineExceeded", message));
            }
            self.look_again(deadline);
        }
        None
    }

    /// The same for indexes.
    fn index_verdict(&self) -> Option<JobCondition> {
        let indexes = self.indexes.as_ref()?;
        if let Some(failed) = indexes.failed.as_ref().map(std::collections::BTreeSet::len) {
            let most = self.spec.max_failed_indexes.and_then(|most| usize::try_from(most).ok());
            if most.is_some_and(|most| failed > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                let reason = "MaxFailedIndexesExceeded";
                return Some(self.condition("FailureTarget", reason, message));
            }
            let all = usize::try_from(indexes.completions).unwrap_or(0);
            if failed > 0 && failed + indexes.succeeded.len() >= all {
                let message = "Job has failed indexes";
                return Some(self.condition("FailureTarget", "FailedIndexes", message));
            }
        }
        let message = policy::succeeds(self.job, indexes.completions, &indexes.succeeded)?;
        Some(self.condition("SuccessCriteriaMet", "SuccessPolicy", &message))
    }

    /// With `restartPolicy: OnFailure` it is restarts that are limited.
    fn restarted_too_often(&self, limit: usize) -> bool {
        let template = self.spec.template.spec.as_ref();
        let policy = template.and_then(|spec| spec.restart_policy.as_deref());
        if policy != Some("OnFailure") {
            return false;
        }
        let restarts: i32 = self
            .pods
            .iter()
            .filter(|pod| matches!(phase(pod), "Running" | "Pending"))
            .filter_map(|pod| pod.status.as_ref())
            .flat_map(|status| {
                let init = status.init_container_statuses.iter().flatten();
                init.chain(status.container_statuses.iter().flatten())
            })
            .map(|container| container.restart_count)
            .sum();
        usize::try_from(restarts).unwrap_or(0) >= limit.max(1)
    }

    /// Enough pods have succeeded, and none is left running. Without `completions` one is enough.
    fn is_complete(&self, counts: &Counts) -> bool {
        let needed = self.spec.completions.map_or(1, |n| usize::try_from(n).unwrap_or(0));
        counts.succeeded >= needed && self.active_count == 0
    }

    fn note_suspension(&mut self, suspended: bool) {
        let (truth, reason, message) = if suspended {
            ("True", "JobSuspended", "Job suspended")
        } else {
            ("False", "JobResumed", "Job resumed")
        };
        let before = self.status.conditions.iter().flatten().find(|c| c.type_ == "Suspended");
        let changed = before.map_or(suspended, |condition| condition.status != truth);
        if !changed {
            return;
        }
        let mut condition = self.condition("Suspended", reason, message);
        condition.status = truth.into();
        self.set(condition);
        self.status.start_time = (!suspended).then_some(Time(self.now));
        let event = if suspended { "Suspended" } else { "Resumed" };
        self.control.tell(EventType::Normal, event, message);
    }

    fn set(&mut self, condition: JobCondition) {
        let conditions = self.status.conditions.get_or_insert_default();
        match conditions.iter_mut().find(|other| other.type_ == condition.type_) {
            Some(other) => *other = condition,
            None => conditions.push(condition),
        }
    }

    fn deleted(&mut self, pod: &Pod) {
        self.active_count -= 1;
        self.ready_count -= usize::from(is_ready(pod));
        self.terminating_count += 1;
    }

    fn delete_active(&mut self) -> Result<(), Status> {
        for pod in self.active.clone() {
            self.control.delete(&pod)?;
            self.deleted(&pod);
        }
        Ok(())
    }

    /// Deletes what is too much, creates what is missing.
    fn manage(&mut self, counts: &Counts, backoff: Backoff) -> Result<(), Status> {
        let active = self.active.len();
        let parallelism = self.spec.parallelism.map_or(1, |n| usize::try_from(n).unwrap_or(0));
        let wanted = if self.suspended() {
            0
        } else {
            match self.spec.completions {
                None if counts.succeeded > 0 => active,
                None => parallelism,
                Some(all) => {
                    let all = usize::try_from(all).unwrap_or(0);
                    all.saturating_sub(counts.succeeded).min(parallelism)
                }
            }
        };
        let excess = self.excess(active.saturating_sub(wanted));
        if !excess.is_empty() {
            for pod in excess.into_iter().take(BURST) {
                // Not counted as failed: nothing was wrong with it.
                track::remove_finalizer(self.cluster, &pod)?;
                self.control.delete(&pod)?;
                self.deleted(&pod);
            }
            return Ok(());
        }
        let waiting = if only_replaces_failed(self.job) { self.terminating_count } else { 0 };
        let missing = wanted.saturating_sub(active + waiting);
        if missing == 0 {
            return Ok(());
        }
        if indexes::limit(self.job).is_none()
            && let Some(until) = backoff.until().filter(|until| *until > self.now)
        {
            self.look_again(until);
            return Ok(());
        }
        self.create(missing)
    }

    /// The `count` pods that are the cheapest to lose, and every second pod of an index.
    fn excess(&self, count: usize) -> Vec<Arc<Pod>> {
        let none = BTreeMap::new();
        let mut excess = Vec::new();
        let mut left = self.active.clone();
        if let Some(indexes) = &self.indexes {
            let mut by_index: BTreeMap<Option<i32>, Vec<Arc<Pod>>> = BTreeMap::new();
            for pod in left.drain(..) {
                by_index.entry(indexes::index(&pod, indexes.completions)).or_default().push(pod);
            }
            excess.extend(by_index.remove(&None).into_iter().flatten());
            for pods in by_index.into_values() {
                let doubled = victims::choose(pods.clone(), &none, pods.len() - 1, self.now);
                let doubles = |pod: &Arc<Pod>| doubled.iter().any(|other| Arc::ptr_eq(other, pod));
                left.extend(pods.iter().filter(|pod| !doubles(pod)).cloned());
                excess.extend(doubled);
            }
        }
        let more = count.saturating_sub(excess.len());
        if more > 0 {
            excess.extend(victims::choose(left, &none, more, self.now));
        }
        excess
    }

    fn create(&mut self, missing: usize) -> Result<(), Status> {
        let mut template = self.spec.template.clone();
        let finalizers =
            template.metadata.get_or_insert_default().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        let Some(indexes) = self.indexes.take() else {
            let pod = to_value(&from_template(&template, self.job))?;
            if missing > BURST {
                self.look_again(self.now);
            }
            for _ in 0..missing.min(BURST) {
                self.create_one(&pod)?;
            }
            return Ok(());
        };
        indexes::add_variables(&mut template);
        let terminating = only_replaces_failed(self.job);
        let busy: Vec<_> = self
            .pods
            .iter()
            .filter(|pod| is_active(pod) || terminating && is_terminating(pod))
            .cloned()
            .collect();
        let mut result = Ok(());
        let (mut created, mut next) = (0, None);
        for index in indexes.pending(&busy, missing) {
            if let Some(until) = indexes.until(index).filter(|until| *until > self.now) {
                next = Some(next.map_or(until, |next: Timestamp| next.min(until)));
                continue;
            }
            if created == BURST {
                next = Some(self.now);
                break;
            }
            let mut pod = from_template(&template, self.job);
            indexes.mark(self.job, &mut pod, index);
            result = to_value(&pod).and_then(|pod| self.create_one(&pod));
            if result.is_err() {
                break;
            }
            created += 1;
        }
        self.indexes = Some(indexes);
        if let Some(next) = next {
            self.look_again(next);
        }
        result
    }

    fn create_one(&mut self, pod: &serde_json::Value) -> Result<(), Status> {
        match self.control.create(pod) {
            Ok(_) => self.active_count += 1,
            // All further creates fail as well, and soon the Job is gone.
            Err(status) if is_namespace_terminating(&status) => {}
            Err(status) => return Err(status),
        }
        Ok(())
    }

    /// Counts the pods that have ended and writes the status; ends the Job if `verdict` says so
    /// and nothing is left to wait for.
    fn finish(&mut self, verdict: Option<JobCondition>) -> Result<(), Status> {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        self.status.active = Some(number(self.active_count)).filter(|n| *n > 0);
        self.status.ready = Some(number(self.ready_count));
        self.status.terminating = Some(number(self.terminating_count));
        let mut held = track::held(self.pods.iter().map(Arc::as_ref));
        track::count(&mut self.status, &held);
        let (released, more) = self.count_ended(verdict.as_ref());
        let mut verdict = verdict;
        if let Some(condition) = &mut verdict {
            let after = match condition.type_.as_str() {
                "FailureTarget" => "Failed",
                "SuccessCriteriaMet" => "Complete",
                _ => "",
            };
            if !after.is_empty() {
                if self.find(&condition.type_.clone()).is_none() {
                    self.set(condition.clone());
                }
                condition.type_ = after.into();
                condition.last_transition_time = Some(Time(self.now));
                condition.last_probe_time = Some(Time(self.now));
            }
        }
        self.write()?;
        for pod in &released {
            track::remove_finalizer(self.cluster, pod)?;
            held.remove(uid(&pod.metadata));
        }
        track::count(&mut self.status, &held);
        let (succeeded, failed) = track::uncounted(&self.status);
        let finished = verdict.filter(|_| {
            !more && succeeded.is_empty() && failed.is_empty() && self.terminating_count == 0
        });
        if let Some(condition) = &finished {
            if condition.type_ == "Complete" {
                self.status.completion_time.clone_from(&condition.last_transition_time);
            }
            self.set(condition.clone());
        }
        self.write()?;
        if let Some(condition) = finished {
            self.tell_finished(&condition);
        }
        if more {
            self.look_again(self.now);
        }
        Ok(())
    }

    /// Puts ended pods into the status as uncounted (or as completed indexes); returns those whose
    /// finalizer may go then, and whether there are more.
    fn count_ended(&mut self, verdict: Option<&JobCondition>) -> (Vec<Arc<Pod>>, bool) {
        let (mut succeeded, mut failed) = track::uncounted(&self.status);
        let fails = verdict.is_some_and(|condition| condition.type_ != "SuccessCriteriaMet");
        let deleting = self.job.metadata.deletion_timestamp.is_some();
        let mut released = Vec::new();
        let mut more = false;
        let mut completed = self.indexes.as_ref().map(|indexes| indexes.counted.clone());
        for pod in self.pods.iter().filter(|pod| track::has_finalizer(pod)) {
            let pod_failed = is_failed(pod, self.job);
            let ended = phase(pod) == "Succeeded" || pod_failed;
            let index = self.indexes.as_ref().map(|all| indexes::index(pod, all.completions));
            let awaited = self.indexes.as_ref().is_some_and(|all| {
                all.waiting.values().any(|waiting| waiting.metadata.uid == pod.metadata.uid)
            });
            if !(deleting || verdict.is_some() || ended && !(pod_failed && awaited)) {
                continue;
            }
            if released.len() == BURST {
                more = true;
                break;
            }
            released.push(pod.clone());
            let id = uid(&pod.metadata).to_owned();
            if phase(pod) == "Succeeded" && !failed.contains(&id) {
                match (&mut completed, index) {
                    (Some(completed), Some(Some(index))) => {
                        completed.insert(index);
                    }
                    (None, _) => {
                        succeeded.insert(id);
                    }
                    _ => {}
                }
            } else if (pod_failed || fails)
                && index.is_none_or(|index| index.is_some())
                && policy::judge(self.job, pod).counts
            {
                failed.insert(id);
            }
        }
        if let Some(completed) = completed {
            let count = i32::try_from(completed.len()).unwrap_or(i32::MAX);
            self.status.succeeded = Some(count).filter(|n| *n > 0);
            self.status.completed_indexes =
                Some(indexes::format(&completed)).filter(|text| !text.is_empty());
            let failed = self.indexes.as_ref().and_then(|indexes| indexes.failed.as_ref());
            self.status.failed_indexes = failed.map(indexes::format);
        }
        let uncounted = self.status.uncounted_terminated_pods.get_or_insert_default();
        let list = |uids: std::collections::BTreeSet<String>| {
            Some(uids.into_iter().collect::<Vec<_>>()).filter(|uids| !uids.is_empty())
        };
        uncounted.succeeded = list(succeeded);
        uncounted.failed = list(failed);
        (released, more)
    }

    fn tell_finished(&self, condition: &JobCondition) {
        let reason = condition.reason.as_deref().unwrap_or_default();
        let message = condition.message.as_deref().unwrap_or_default();
        if condition.type_ != "Complete" {
            self.control.tell(EventType::Warning, reason, message);
            return;
        }
        if self.spec.completions.is_some_and(|all| self.status.succeeded.unwrap_or(0) > all) {
            let message = "Too many succeeded pods running after completion count reached";
            self.control.tell(EventType::Warning, "TooManySucceededPods", message);
        }
        self.control.tell(EventType::Normal, "Completed", "Job completed");
    }

    /// Writes the status if it differs from what is stored.
    fn write(&self) -> Result<(), Status> {
        let (namespace, name) = key(&self.job.metadata);
        let stored = self.cluster.get::<Job>(&namespace, &name);
        let same = stored.is_none_or(|stored| {
            stored.metadata.uid != self.job.metadata.uid
                || stored.status.as_ref() == Some(&self.status)
        });
        if same {
            return Ok(());
        }
        let write = self.cluster.modify_status::<Job>(&namespace, &name, |job| {
            if job.metadata.uid == self.job.metadata.uid {
                job.status = Some(self.status.clone());
            }
        });
        write.map(drop)
    }
}

fn to_value(pod: &Pod) -> Result<serde_json::Value, Status> {
    serde_json::to_value(pod).map_err(|error| Status::new(500, "InternalError", error.to_string()))
}
