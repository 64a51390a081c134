//! What other pods allow: inter-pod affinity and topology spread, as filters and as scores.
//!
//! ```text
//! nodes, pods, namespaces ──> Index ──filters(pod)──> Filters ──check(node)──> Reason
//!  (each change once)           └─affinity_scores, spread_scores──> 0 to 100 per node
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `domains` | topology keys and values as numbers |
//! | `sets` | how many pods of which selection are on which node |
//! | `index` | both, and what the pods on the nodes say of others |
//! | `filters` | one pod's constraints, counted out: which nodes they leave |
//! | `scores` | one pod's wishes |
//!
//! A pod without such constraints, that nobody else's concern, costs a look at an empty map. Others
//! cost a step per node and constraint, and nothing per pod: pods are counted when they come and
//! go. Source: kubernetes `pkg/scheduler/framework/plugins/interpodaffinity` and
//! `podtopologyspread` (v1.36).

mod domains;
mod filters;
mod index;
mod scores;
mod sets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{matches_affinity, untolerated};
use crate::node::Node;
use crate::pod::{Constraints, PodSet, PodTerm, Selector, Spread};

pub use filters::Filters;
pub use index::Index;

/// The label whose value is a node's own.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label with a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A node, as the caller numbers its nodes; numbers of nodes that went are used again.
pub type Place = usize;

type Labels = BTreeMap<String, String>;

/// Which of a pod's demands a node meets, for spread constraints that look only at such nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eligible {
    /// Whether node selector and required node affinity allow it.
    pub affinity: bool,
    /// Whether all taints that keep pods off are tolerated.
    pub taints: bool,
}

impl Eligible {
    /// Looks at a node.
    #[must_use]
    pub fn of(constraints: &Constraints, node: &Node) -> Self {
        Self {
            affinity: matches_affinity(constraints, Some(&node.name), &node.labels),
            taints: untolerated(&constraints.tolerations, &node.taints).is_none(),
        }
    }

    /// Whether pods on the node count for a constraint.
    fn counts_for(self, spread: &Spread) -> bool {
        (self.affinity || !spread.honors_affinity) && (self.taints || !spread.honors_taints)
    }
}

/// The pods in `namespace` that a spread constraint counts: none if it selects nothing or, as
/// upstream, everything.
fn counted(selector: Option<&Selector>, namespace: &str) -> Option<PodSet> {
    let selector = selector.filter(|selector| !selector.0.is_empty())?;
    Some(in_namespace(selector.clone(), namespace))
}

fn in_namespace(selector: Selector, namespace: &str) -> PodSet {
    PodSet {
        selector: Some(selector),
        namespaces: [namespace.to_owned()].into(),
        namespace_selector: None,
    }
}

/// What a pod must match to be company for all of `terms`.
fn company(terms: &[PodTerm]) -> Vec<PodSet> {
    let mut all_of: Vec<PodSet> = terms.iter().map(|term| term.pods.clone()).collect();
    all_of.sort();
    all_of.dedup();
    all_of
}
