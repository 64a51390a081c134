//! The CustomResourceDefinitions of the types of this crate: what the API server enforces.

use serde_json::Value;

const FILES: [&str; 4] = [
    include_str!("../crds/karpenter.sh_nodepools.yaml"),
    include_str!("../crds/karpenter.sh_nodeclaims.yaml"),
    include_str!("../crds/eks.amazonaws.com_nodeclasses.yaml"),
    include_str!("../crds/karpenter.sh_nodeoverlays.yaml"),
];

/// All definitions (`apiextensions.k8s.io/v1`): NodePool, NodeClaim, NodeClass,
/// NodeOverlay.
///
/// # Panics
///
/// Never: the embedded files are read by a test.
#[must_use]
pub fn all() -> Vec<Value> {
    let read = |text: &&str| serde_saphyr::from_str(text).expect("embedded definitions are YAML");
    FILES.iter().map(read).collect()
}

#[cfg(test)]
mod tests;
