//! What `kubectl get nodes,pods,deployments,… -A -o yaml` prints: a cluster to start from.
//!
//! Machines are bought anew, by the NodePools of the scenario. Pods come from what made them, if
//! that is in the dump too; a pod whose maker is not comes by itself. Daemons and static pods without
//! their maker, and pods that have ended, are left out.

use std::collections::BTreeSet;
use std::path::Path;

use aerostat_cluster::Cluster;
use serde_json::Value;

use super::{Omissions, plant};
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
        let known: BTreeSet<String> = self.0.iter().filter_map(|m| uid(&m.value)).collect();
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
            let owners = value["metadata"]["ownerReferences"].as_array();
            let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
            if let Some(owner) = owner {
                if owner["uid"].as_str().is_some_and(|uid| known.contains(uid)) {
                    continue;
                }
                let maker = owner["kind"].as_str().unwrap_or_default();
                if kind == "Pod" && matches!(maker, "DaemonSet" | "Node") {
                    left.add(kind, format!("its {maker} is not in the dump"), 1);
                    continue;
                }
            }
            let phase = value["status"]["phase"].as_str().unwrap_or_default();
            if kind == "Pod" && matches!(phase, "Succeeded" | "Failed") {
                left.add(kind, "it has ended".to_owned(), 1);
                continue;
            }
            plant(cluster, &manifest.source, value, left);
        }
    }
}
