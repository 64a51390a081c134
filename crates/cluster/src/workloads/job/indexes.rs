//! Completion indexes of Indexed Jobs.
//!
//! Source: Kubernetes `pkg/controller/job/indexed_job_utils.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec, PodTemplateSpec,
};

use super::{backoff, policy, sync, track};
use crate::workloads::pods::phase;

/// Annotation and label of a pod: its index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation of a pod: how often its index has failed before.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The same for failures that the failure policy ignores.
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Environment variable of a container: its index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// `0-4,7,9` and so on, below `completions`; what is none is left out.
pub(super) fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            indexes.extend(first..=last.min(completions - 1));
        }
    }
    indexes
}

/// Consecutive indexes as ranges; two in a row are written out.
pub(super) fn format(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let texts = ranges.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The index of a pod, if it has one below `completions`.
pub(super) fn index(pod: &Pod, completions: i32) -> Option<i32> {
    number(pod, INDEX).filter(|index| *index < completions)
}

fn number(pod: &Pod, annotation: &str) -> Option<i32> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(annotation)?.parse().ok().filter(|number| *number >= 0)
}

/// How often the index of a failed pod had failed before it, ignored failures included.
fn earlier_failures(pod: &Pod) -> i32 {
    number(pod, FAILURES).unwrap_or(0) + number(pod, IGNORED_FAILURES).unwrap_or(0)
}

/// `spec.backoffLimitPerIndex` of an Indexed Job.
pub(super) fn limit(job: &Job) -> Option<i32> {
    job.spec.as_ref()?.backoff_limit_per_index
}

/// What is known about the indexes of a Job.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    /// How many there are.
    pub(super) completions: i32,
    /// Those that the status says have succeeded.
    pub(super) counted: BTreeSet<i32>,
    /// Those and the ones that have succeeded since.
    pub(super) succeeded: BTreeSet<i32>,
    /// Those that will not be tried again; only with a limit for each index.
    pub(super) failed: Option<BTreeSet<i32>>,
    /// The last failed pod of each index that waits for its next pod, which has to know how often
    /// the index has failed; only with a limit for each index.
    pub(super) waiting: BTreeMap<i32, Arc<Pod>>,
}

impl Indexes {
    /// Reads them from the status and the pods that it does not count yet.
    pub(super) fn of(job: &Job, pods: &[Arc<Pod>], active: &[Arc<Pod>]) -> Self {
        let completions = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(0);
        let status = job.status.clone().unwrap_or_default();
        let counted = parse(&status.completed_indexes.unwrap_or_default(), completions);
        let uncounted = || {
            let tracked = pods.iter().filter(|pod| track::has_finalizer(pod));
            tracked.filter_map(|pod| index(pod, completions).map(|index| (index, pod)))
        };
        let mut succeeded = counted.clone();
        succeeded.extend(
            uncounted().filter(|(_, pod)| phase(pod) == "Succeeded").map(|(index, _)| index),
        );
        let mut indexes = Self { completions, counted, succeeded, ..Self::default() };
        let Some(limit) = limit(job) else { return indexes };
        let failed_pods = || uncounted().filter(|(_, pod)| sync::is_failed(pod, job));
        let mut failed = parse(&status.failed_indexes.unwrap_or_default(), completions);
        failed.extend(
            failed_pods()
                .filter(|(_, pod)| {
                    let verdict = policy::judge(job, pod);
                    verdict.fails_index
                        || verdict.counts && number(pod, FAILURES).unwrap_or(0) >= limit
                })
                .map(|(index, _)| index),
        );
        let running: BTreeSet<i32> =
            active.iter().filter_map(|pod| index(pod, completions)).collect();
        for (index, pod) in failed_pods() {
            if indexes.succeeded.contains(&index)
                || failed.contains(&index)
                || running.contains(&index)
            {
                continue;
            }
            let order = |pod: &Pod| (earlier_failures(pod), backoff::finished_at(pod));
            if indexes.waiting.get(&index).is_none_or(|other| order(other) <= order(pod)) {
                indexes.waiting.insert(index, pod.clone());
            }
        }
        indexes.failed = Some(failed);
        indexes
    }

    /// The lowest `count` indexes that none of `busy` works on and that are neither done nor lost.
    pub(super) fn pending(&self, busy: &[Arc<Pod>], count: usize) -> Vec<i32> {
        let busy: BTreeSet<i32> =
            busy.iter().filter_map(|pod| index(pod, self.completions)).collect();
        (0..self.completions)
            .filter(|index| {
                !busy.contains(index)
                    && !self.succeeded.contains(index)
                    && !self.failed.as_ref().is_some_and(|failed| failed.contains(index))
            })
            .take(count)
            .collect()
    }

    /// When the next pod of an index may be made.
    pub(super) fn until(&self, index: i32) -> Option<jiff::Timestamp> {
        let last = self.waiting.get(&index)?;
        let failures = u32::try_from(earlier_failures(last)).unwrap_or(0) + 1;
        backoff::until(failures, backoff::finished_at(last))
    }

    /// Makes `pod`, which is of the Job's template, the pod of an index.
    pub(super) fn mark(&self, job: &Job, pod: &mut Pod, index: i32) {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let suffix = format!("-{index}-");
        let base: String = name.chars().take(58 - suffix.len()).collect();
        pod.metadata.generate_name = Some(format!("{base}{suffix}"));
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(INDEX.into(), index.to_string());
        if limit(job).is_some() {
            let (mut failures, mut ignored) = (0, 0);
            if let Some(last) = self.waiting.get(&index) {
                failures = number(last, FAILURES).unwrap_or(0);
                ignored = number(last, IGNORED_FAILURES).unwrap_or(0);
                let counts = policy::judge(job, last).counts;
                *(if counts { &mut failures } else { &mut ignored }) += 1;
            }
            annotations.insert(FAILURES.into(), failures.to_string());
            if ignored > 0 {
                annotations.insert(IGNORED_FAILURES.into(), ignored.to_string());
            }
        }
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(INDEX.into(), index.to_string());
        if let Some(spec) = &mut pod.spec {
            spec.hostname = Some(format!("{name}-{index}"));
        }
    }
}

/// Tells every container its index.
pub(super) fn add_variables(template: &mut PodTemplateSpec) {
    let Some(PodSpec { containers, init_containers, .. }) = &mut template.spec else { return };
    for container in containers.iter_mut().chain(init_containers.iter_mut().flatten()) {
        let variables = container.env.get_or_insert_default();
        if variables.iter().any(|variable| variable.name == VARIABLE) {
            continue;
        }
        variables.push(EnvVar {
            name: VARIABLE.into(),
            value: None,
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    api_version: Some("v1".into()),
                    field_path: format!("metadata.labels['{INDEX}']"),
                }),
                ..EnvVarSource::default()
            }),
        });
    }
}
