//! What `kubectl get nodes,pods,deployments,… -A -o yaml` prints: a cluster to start from.
//!
//! Machines are bought anew, by the NodePools of the scenario. Pods come from what made them, if
//! that is in the dump too and acts here; other pods come by themselves. Daemons and static pods
//! without their maker, and what has ended, are left out. Of a Job that has begun, only what is left
//! of it is done.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use aerostat_cluster::Cluster;
use serde_json::Value;

use super::{Omissions, acts, plant};
use crate::manifest::{self, Manifest};

/// A dump that was read.
#[derive(Clone, Debug)]
pub struct Dump(pub(super) Vec<Manifest>);

impl Dump {
    /// Reads a file, YAML or JSON.
    ///
    /// # Errors
    ///
    /// If it cannot be read; the error names file and line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        manifest::read(path).map(Self)
    }

    /// Creates what can be created.
    pub(crate) fn plant(&self, cluster: &Cluster, left: &mut Omissions) {
        let uid = |value: &Value| value["metadata"]["uid"].as_str().map(str::to_owned);
        // Whose pods come from them. What has ended makes no more.
        let makes = |m: &&Manifest| acts(cluster, m) && !has_ended(&m.value);
        let known: BTreeSet<String> =
            self.0.iter().filter(makes).filter_map(|m| uid(&m.value)).collect();
        let owned: BTreeSet<&str> = self.0.iter().filter_map(|m| owner(&m.value)?.1).collect();
        // What others need comes first.
        let rank = |manifest: &&Manifest| match manifest.value["kind"].as_str() {
            Some("Namespace" | "CustomResourceDefinition") => 0,
            Some("PriorityClass" | "StorageClass" | "NodeClass") => 1,
            Some("NodePool" | "PodDisruptionBudget") => 2,
            _ => 3,
        };
        let mut manifests: Vec<&Manifest> = self.0.iter().collect();
        manifests.sort_by_key(rank);
        for manifest in manifests {
            let value = &manifest.value;
            let kind = value["kind"].as_str().unwrap_or("object");
            if has_ended(value) {
                left.add(kind, "it has ended".to_owned(), u64::from(kind == "Pod"));
                continue;
            }
            if let Some((maker, uid)) = owner(value) {
                if uid.is_some_and(|uid| known.contains(uid)) {
                    continue;
                }
                if kind == "Pod" && matches!(maker, "DaemonSet" | "Node") {
                    left.add(kind, format!("its {maker} is not in the dump"), 1);
                    continue;
                }
            }
            let its_pods_are_here = uid(value).is_some_and(|uid| owned.contains(uid.as_str()));
            if !acts(cluster, manifest) && its_pods_are_here {
                let why = "nothing acts on it here: its pods come by themselves";
                left.add(kind, why.to_owned(), 0);
                continue;
            }
            plant(cluster, &manifest.source, &rest_of(value), left);
        }
    }
}

/// Kind and UID of what made an object.
pub(super) fn owner(value: &Value) -> Option<(&str, Option<&str>)> {
    let owners = value["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((owner["kind"].as_str().unwrap_or_default(), owner["uid"].as_str()))
}

/// Whether it is a pod or a Job that is over.
pub(super) fn has_ended(value: &Value) -> bool {
    let status = &value["status"];
    match value["kind"].as_str() {
        Some("Pod") => matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")),
        Some("Job") => status["conditions"].as_array().into_iter().flatten().any(|condition| {
            let over = matches!(condition["type"].as_str(), Some("Complete" | "Failed"));
            over && condition["status"] == "True"
        }),
        _ => false,
    }
}

/// A Job without the completions that it has already.
fn rest_of(value: &Value) -> Cow<'_, Value> {
    let done = value["status"]["succeeded"].as_i64().unwrap_or(0);
    let wanted = value["spec"]["completions"].as_i64();
    match wanted {
        Some(wanted) if value["kind"] == "Job" && done > 0 && done < wanted => {
            let mut rest = value.clone();
            rest["spec"]["completions"] = (wanted - done).into();
            Cow::Owned(rest)
        }
        _ => Cow::Borrowed(value),
    }
}
