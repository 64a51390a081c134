//! What happened and what is, as numbers, under Karpenter's names and in Prometheus' text format.
//!
//! Source: kubernetes-sigs/karpenter `pkg/metrics`, `pkg/controllers/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aerostat_api::{NodeClaim, NodePool, Quantity, labels};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::index::Index;

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Claims deleted for a cause that nobody asked for.
    ClaimsDisrupted,
    /// Claims that are gone.
    ClaimsTerminated,
    /// Claims deleted because their node was ill.
    ClaimsUnhealthy,
    /// Machines that became nodes.
    NodesCreated,
    /// Nodes whose pods have left.
    NodesDrained,
    /// Nodes that are gone.
    NodesTerminated,
    /// Pods that left a draining node, or were made to.
    PodsDrained,
    /// Evictions, by the answer.
    EvictionRequests,
}

impl Counter {
    /// Name, and what it counts.
    fn about(self) -> (&'static str, &'static str) {
        match self {
            Self::ClaimsDisrupted => (
                "karpenter_nodeclaims_disrupted_total",
                "NodeClaims that were deleted for a reason other than a user's wish.",
            ),
            Self::ClaimsTerminated => {
                ("karpenter_nodeclaims_terminated_total", "NodeClaims that are gone.")
            }
            Self::ClaimsUnhealthy => (
                "karpenter_nodeclaims_unhealthy_disrupted_total",
                "NodeClaims that were deleted because of a condition of their node.",
            ),
            Self::NodesCreated => ("karpenter_nodes_created_total", "Nodes that were registered."),
            Self::NodesDrained => ("karpenter_nodes_drained_total", "Nodes that were drained."),
            Self::NodesTerminated => ("karpenter_nodes_terminated_total", "Nodes that are gone."),
            Self::PodsDrained => {
                ("karpenter_pods_drained_total", "Pods that were evicted or deleted by a drain.")
            }
            Self::EvictionRequests => {
                ("karpenter_pods_eviction_requests_total", "Evictions that were asked for.")
            }
        }
    }
}

/// Names and values of labels.
type Labels = Vec<(&'static str, String)>;

/// Everything that was counted since the start.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<Counter, BTreeMap<Labels, u64>>);

impl Metrics {
    /// Counts one more.
    pub fn count(&mut self, counter: Counter, labels: Labels) {
        *self.0.entry(counter).or_default().entry(labels).or_default() += 1;
    }

    /// All of it, and what `index` holds now, in the text format of Prometheus.
    #[must_use]
    pub fn render(&self, index: &Index) -> String {
        let mut text = String::new();
        for (counter, values) in &self.0 {
            let (name, help) = counter.about();
            head(&mut text, name, "counter", help);
            for (labels, value) in values {
                sample(&mut text, name, labels, &value.to_string());
            }
        }
        let synced = u8::from(index.is_synced()).to_string();
        let name = "karpenter_cluster_state_synced";
        head(&mut text, name, "gauge", "Whether everything in the cluster is known.");
        sample(&mut text, name, &Vec::new(), &synced);
        let name = "karpenter_cluster_state_node_count";
        head(&mut text, name, "gauge", "Nodes in the cluster.");
        sample(&mut text, name, &Vec::new(), &index.nodes.names().count().to_string());
        let used = |pool: &NodePool| pool.status.as_ref()?.resources.clone();
        amounts(&mut text, index, "karpenter_nodepools_usage", "What NodePools hold.", used);
        let limits = |pool: &NodePool| pool.spec.limits.clone();
        amounts(&mut text, index, "karpenter_nodepools_limit", "What NodePools may hold.", limits);
        text
    }
}

/// One gauge for each resource of each pool.
fn amounts(
    text: &mut String,
    index: &Index,
    name: &str,
    help: &str,
    of: impl Fn(&NodePool) -> Option<BTreeMap<String, Quantity>>,
) {
    head(text, name, "gauge", help);
    for pool in index.pools.values() {
        for (resource, amount) in of(pool).unwrap_or_default() {
            let labels = vec![("nodepool", pool.name_any()), ("resource_type", resource)];
            #[expect(clippy::cast_precision_loss, reason = "a gauge needs no precision")]
            let amount = amount.milli() as f64 / 1000.0;
            sample(text, name, &labels, &amount.to_string());
        }
    }
}

/// The labels that say where a claim belongs.
pub(crate) fn of_claim(claim: &NodeClaim) -> Labels {
    let label = |key: &str| claim.labels().get(key).cloned().unwrap_or_default();
    vec![("nodepool", label(labels::NODEPOOL)), ("capacity_type", label(labels::CAPACITY_TYPE))]
}

/// The pool of a node.
pub(crate) fn of_node(node: &Node) -> Labels {
    vec![("nodepool", node.labels().get(labels::NODEPOOL).cloned().unwrap_or_default())]
}

// Writing into a String cannot fail.

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(text: &mut String, name: &str, labels: &Labels, value: &str) {
    let escape =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
    let _ = match labels.as_slice() {
        [] => writeln!(text, "{name} {value}"),
        labels => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_by_name_with_their_labels() {
        let mut metrics = Metrics::default();
        let labels = || vec![("nodepool", "a\"b".to_owned()), ("zone", "z".to_owned())];
        metrics.count(Counter::NodesCreated, labels());
        metrics.count(Counter::NodesCreated, labels());
        let text = metrics.render(&Index::default());
        let sample = "karpenter_nodes_created_total{nodepool=\"a\\\"b\",zone=\"z\"} 2\n";
        assert!(text.contains(sample), "{text}");
        assert!(text.contains("# TYPE karpenter_nodes_created_total counter\n"), "{text}");
        assert!(text.contains("karpenter_cluster_state_synced 0\n"), "{text}");
    }
}
