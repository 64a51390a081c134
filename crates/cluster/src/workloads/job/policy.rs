//! What a failed pod means for its Job, and when the succeeded indexes are enough.
//!
//! Source: Kubernetes `pkg/controller/job/{pod_failure_policy,success_policy}.go`.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::indexes;
use crate::workloads::owner::key;

/// What the failure policy says of a failed pod.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// It counts towards the back-off limit.
    pub(super) counts: bool,
    /// It fails the Job, and why.
    pub(super) fails_job: Option<String>,
    /// It fails its index.
    pub(super) fails_index: bool,
}

/// The first rule that matches decides; without one the failure counts.
pub(super) fn judge(job: &Job, pod: &Pod) -> Verdict {
    let counts = Verdict { counts: true, fails_job: None, fails_index: false };
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    let (namespace, name) = key(&pod.metadata);
    for (index, rule) in policy.iter().flat_map(|policy| &policy.rules).enumerate() {
        let action = rule.action.as_str();
        let message = if let Some(codes) = &rule.on_exit_codes {
            exit_code(pod, codes).map(|(container, code)| {
                format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code \
                     {code} matching {action} rule at index {index}"
                )
            })
        } else {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let matched = conditions.into_iter().flatten().find(|condition| {
                rule.on_pod_conditions.iter().flatten().any(|pattern| {
                    pattern.type_ == condition.type_
                        && pattern.status.as_deref().unwrap_or("True") == condition.status
                })
            });
            matched.map(|condition| {
                format!(
                    "Pod {namespace}/{name} has condition {} matching {action} rule at index \
                     {index}",
                    condition.type_
                )
            })
        };
        let Some(message) = message else { continue };
        return match action {
            "Ignore" => Verdict { counts: false, ..counts },
            "FailJob" => Verdict { fails_job: Some(message), ..counts },
            "FailIndex" => Verdict { fails_index: true, ..counts },
            _ => counts,
        };
    }
    counts
}

fn exit_code(pod: &Pod, wanted: &PodFailurePolicyOnExitCodesRequirement) -> Option<(String, i32)> {
    let status = pod.status.as_ref()?;
    let matches = |container: &ContainerStatus| {
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        let named = wanted.container_name.as_ref().is_none_or(|name| *name == container.name);
        let listed = wanted.values.contains(&code);
        let fits = match wanted.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        (named && code != 0 && fits).then(|| (container.name.clone(), code))
    };
    let all = status.container_statuses.iter().flatten();
    all.chain(status.init_container_statuses.iter().flatten()).find_map(matches)
}

/// Whether the success policy holds, and by which rule.
pub(super) fn succeeds(job: &Job, completions: i32, succeeded: &BTreeSet<i32>) -> Option<String> {
    let policy = job.spec.as_ref()?.success_policy.as_ref()?;
    let holds = |rule: &k8s_openapi::api::batch::v1::SuccessPolicyRule| {
        let count = rule.succeeded_count.and_then(|count| usize::try_from(count).ok());
        match &rule.succeeded_indexes {
            Some(text) => {
                let wanted = indexes::parse(text, completions);
                let have = wanted.intersection(succeeded).count();
                !wanted.is_empty()
                    && (have == wanted.len() || count.is_some_and(|count| have >= count))
            }
            None => count.is_some_and(|count| succeeded.len() >= count),
        }
    };
    if succeeded.is_empty() {
        return None;
    }
    let index = policy.rules.iter().position(holds)?;
    Some(format!("Matched rules at index {index}"))
}
