//! Evicting a pod, as its disruption budget allows.
//!
//! Source: kubernetes `pkg/registry/core/pod/storage/eviction.go`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::bind::set_pod_condition;
use super::write::timestamp;
use super::{Cluster, DeleteOptions, Part, WriteOptions};
use crate::selectors::Labels;
use crate::status::Status;
use crate::store::Object;

/// How many evictions a budget's status may have waiting for its controller.
const MOST_DISRUPTED: usize = 2000;

impl Cluster {
    /// Evicts a pod: takes one disruption from its budget, marks it and deletes it.
    ///
    /// # Errors
    ///
    /// 404 without the pod, 429 if its budget does not allow it (now), 409 if a precondition does
    /// not hold, 500 if it has more than one budget.
    pub fn evict(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let pods = self.kind("", "pods").expect("pods are built in");
        let pod = self.get_object(&pods, namespace, name)?;
        if !is_outside_budgets(&pod.value) {
            let budgets = self.budgets_of(&pod);
            match budgets.as_slice() {
                [] => {}
                [budget] => self.take_disruption(budget, &pod, options)?,
                _ => {
                    let message = "This pod has more than one PodDisruptionBudget, \
                                   which the eviction subresource does not support.";
                    return Err(Status::new(500, "InternalError", message));
                }
            }
        }
        if options.dry_run {
            return self.delete_object(&pods, namespace, name, options).map(|_| ());
        }
        let now = self.clock().now();
        let write = WriteOptions::default();
        let marked = self.update_object(&pods, namespace, name, Part::Whole, write, |old| {
            super::delete::check_preconditions(&pods, old, options)?;
            let mut new = old.value.clone();
            let condition = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_pod_condition(&mut new, condition, now);
            Ok(new)
        })?;
        let mut options = options.clone();
        if options.resource_version.is_some() {
            options.resource_version = Some(marked.revision.to_string());
        }
        self.delete_object(&pods, namespace, name, &options).map(|_| ())
    }

    fn budgets_of(&self, pod: &Object) -> Vec<Arc<Object>> {
        let kind = self.kind("policy", "poddisruptionbudgets").expect("budgets are built in");
        let (mut budgets, _) = self.store().list(&kind.resource(), pod.namespace());
        budgets.retain(|budget| {
            // A selector that cannot be read selects nothing.
            let selector = Labels::from_object(&budget.value["spec"]["selector"]).ok().flatten();
            selector.is_some_and(|s| s.matches(&pod.value["metadata"]["labels"]))
        });
        budgets
    }

    fn take_disruption(
        &self,
        budget: &Object,
        pod: &Object,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let count = |budget: &Value, field: &str| budget["status"][field].as_i64().unwrap_or(0);
        if !is_ready(&pod.value) {
            // An unready pod is no loss if enough others are healthy.
            let policy = budget.value["spec"]["unhealthyPodEvictionPolicy"].as_str();
            let desired = count(&budget.value, "desiredHealthy");
            let enough = desired > 0 && count(&budget.value, "currentHealthy") >= desired;
            if policy == Some("AlwaysAllow") || enough {
                return Ok(());
            }
        }
        let kind = self.kind("policy", "poddisruptionbudgets").expect("budgets are built in");
        let now = timestamp(self.clock().now());
        let write = WriteOptions { dry_run: options.dry_run };
        let (namespace, name) = (budget.namespace(), budget.name());
        self.update_object(&kind, namespace, name, Part::Status, write, |old| {
            let budget = &old.value;
            let allowed = count(budget, "disruptionsAllowed");
            if count(budget, "observedGeneration")
                < budget["metadata"]["generation"].as_i64().unwrap_or(0)
            {
                let text = format!("The disruption budget {name} is still being processed by the server.");
                return Err(too_many(&text, 10));
            }
            let forbidden = |why: &str| Status::forbidden("policy", "poddisruptionbudget", name, why);
            if allowed < 0 {
                return Err(forbidden("pdb disruptions allowed is negative"));
            }
            let disrupted = budget["status"]["disruptedPods"].as_object();
            if disrupted.is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
                return Err(forbidden(
                    "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
                ));
            }
            if allowed == 0 {
                return Err(too_many(&why_not(name, budget), 0));
            }
            let mut new = budget.clone();
            new["status"]["disruptionsAllowed"] = (allowed - 1).into();
            new["status"]["disruptedPods"][pod.name()] = now.as_str().into();
            if allowed == 1 {
                let condition = json!({
                    "type": "DisruptionAllowed",
                    "status": "False",
                    "reason": "InsufficientPods",
                    "message": "",
                    "observedGeneration": budget["status"]["observedGeneration"],
                });
                set_condition(&mut new, condition, &now);
            }
            Ok(new)
        })?;
        Ok(())
    }
}

/// Sets one of a budget's conditions.
fn set_condition(budget: &mut Value, mut condition: Value, now: &str) {
    let conditions = &mut budget["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let list = conditions.as_array_mut().expect("conditions are a list now");
    condition["lastTransitionTime"] = now.into();
    let old = list.iter().position(|old| old["type"] == condition["type"]);
    if let Some(old) = old.map(|at| list.remove(at))
        && old["status"] == condition["status"]
    {
        condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
    }
    list.push(condition);
}

/// Whether no budget guards a pod: it has ended, has not begun, or is going anyway.
fn is_outside_budgets(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending") | None)
        || !pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn why_not(name: &str, budget: &Value) -> String {
    let status = &budget["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let condition = status["conditions"].as_array().into_iter().flatten().find(|condition| {
        condition["type"] == "DisruptionAllowed"
            && condition["status"] == "False"
            && condition["message"] != ""
    });
    let text = |field: &str| condition.and_then(|c| c[field].as_str()).unwrap_or_default();
    let (desired, current) = (count("desiredHealthy"), count("currentHealthy"));
    if text("reason") == "SyncFailed" {
        let why = text("message");
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        )
    } else if current <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    } else if condition.is_some() {
        let (reason, why) = (text("reason"), text("message"));
        format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {why}"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

fn too_many(cause: &str, retry_after: u64) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::new(429, "TooManyRequests", message);
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    if retry_after > 0 {
        details["retryAfterSeconds"] = retry_after.into();
    }
    status.details = Some(details);
    status
}
