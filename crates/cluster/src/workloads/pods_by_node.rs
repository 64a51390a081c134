//! Which pods are on which node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::owner::key;
use crate::informer::Change;
use crate::store::Key;

/// The node that a pod is bound to.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Bound pods by node.
#[derive(Debug, Default)]
pub(super) struct PodsByNode(BTreeMap<String, BTreeSet<Key>>);

impl PodsByNode {
    /// Takes in a change. A pod never changes its node.
    pub(super) fn apply(&mut self, change: &Change<Pod>) {
        match change {
            Change::Applied { new, .. } => {
                if let Some(node) = node_of(new) {
                    self.0.entry(node.to_owned()).or_default().insert(key(&new.metadata));
                }
            }
            Change::Deleted(pod) => {
                if let Some(node) = node_of(pod)
                    && let Some(pods) = self.0.get_mut(node)
                {
                    pods.remove(&key(&pod.metadata));
                    if pods.is_empty() {
                        self.0.remove(node);
                    }
                }
            }
        }
    }

    /// The pods of a node, by namespace and name.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.0.get(node).into_iter().flatten()
    }
}
