//! Machines as Karpenter's KWOK provider makes them.
//!
//! Source: kubernetes-sigs/karpenter `kwok/cloudprovider/cloudprovider.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use aerostat_api::{Class, NodeClaim, labels};
use kube::ResourceExt;

use super::faults::policy;
use super::{Machine, node};
use crate::RepairPolicy;

/// The provider's own.
pub(super) const REPAIR_POLICIES: &[RepairPolicy] =
    &[policy("Ready", "False", 10), policy("Ready", "Unknown", 10)];

/// Where eks-node-viewer looks for a node's price.
const PRICE: &str = "eks-node-viewer/instance-price";

/// The ID of a claim's machine; its Node has the part behind the slashes as its name.
pub(super) fn provider_id(claim: &NodeClaim, draw: u64) -> String {
    format!("kwok://kwok-{}-{:08x}", claim.name_any(), draw >> 32)
}

/// How long a machine of `class` takes until its Node is there.
///
/// # Errors
///
/// If the class says it in no way that can be read.
pub(super) fn delay(class: Option<&Class>) -> Result<Duration, String> {
    let delay = class.and_then(|class| class.spec["nodeRegistrationDelay"].as_str());
    let Some(text) = delay else { return Ok(Duration::ZERO) };
    let delay = aerostat_api::Duration::parse(text);
    delay
        .map(|delay| delay.0)
        .map_err(|why| format!("spec.nodeRegistrationDelay of the class: {why}"))
}

/// The labels of a machine's Node: what its claim is and asks for, what was bought, what it costs,
/// and that KWOK plays it.
pub(super) fn node_labels(name: &str, machine: &Machine) -> BTreeMap<String, String> {
    let claim = &machine.claim;
    let mut all = claim.labels().clone();
    for requirement in &claim.spec.requirements {
        if let ("In", [value]) = (requirement.operator.as_str(), requirement.values.as_slice()) {
            all.insert(requirement.key.clone(), value.clone());
        }
    }
    all.extend(machine.instance.labels.clone());
    for (key, value) in [
        (PRICE, format!("{:.6}", machine.price)),
        (labels::HOSTNAME, name.to_owned()),
        (labels::KWOK_NODE, "fake".to_owned()),
    ] {
        all.insert(key.to_owned(), value);
    }
    all
}

/// The annotations of a machine's Node: its claim's, and what says that KWOK plays it.
pub(super) fn node_annotations(machine: &Machine) -> BTreeMap<String, String> {
    let mut all = machine.claim.annotations().clone();
    all.insert(node::PLAYED.to_owned(), "true".to_owned());
    all.insert(labels::KWOK_NODE.to_owned(), "fake".to_owned());
    all
}
