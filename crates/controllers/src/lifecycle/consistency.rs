//! Whether the machine is what was ordered: the condition `ConsistentStateFound`.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeclaim/consistency/`.

use aerostat_api::{NodeClaim, Quantity};
use k8s_openapi::api::core::v1::Node;
use kube::Resource;

use super::Work;
use crate::context::Context;
use crate::recorder::Note;

const CONDITION: &str = "ConsistentStateFound";
/// A machine that has less than this part of what was promised is not what was ordered.
const TOLERANCE: f64 = 0.9;

/// Compares an initialized Node with what the provider promised.
pub(super) async fn check(context: &Context, work: &mut Work) {
    if !work.conditions.is_true("Initialized") {
        return;
    }
    let Some(name) = &work.status.node_name else { return };
    let Some(node) = context.index().nodes.get(name) else { return };
    let missing = missing(&work.claim, &work.status, &node);
    if missing.is_empty() {
        work.conditions.set_true(CONDITION);
        return;
    }
    for message in &missing {
        let note = Note::warning("FailedConsistencyCheck", message.clone());
        context.recorder.publish(work.claim.object_ref(&()), note).await;
    }
    let message = missing.join(", ");
    work.conditions.set(CONDITION, "False", "ConsistencyCheckFailed", &message);
}

/// What the machine lacks of what its claim asked for.
fn missing(claim: &NodeClaim, status: &aerostat_api::NodeClaimStatus, node: &Node) -> Vec<String> {
    let promised = status.capacity.as_ref();
    let there = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let requests = claim.spec.resources.iter().flat_map(|resources| resources.requests.keys());
    let lack = |name: &String| {
        let expected = promised?.get(name).filter(|quantity| !quantity.is_zero())?;
        let found =
            there.and_then(|list| list.get(name)).map_or(Ok(Quantity::ZERO), |q| q.0.parse());
        let found = found.unwrap_or(Quantity::ZERO);
        #[expect(clippy::cast_precision_loss, reason = "a part of ten needs no precision")]
        let part = found.milli() as f64 / expected.milli() as f64;
        (part < TOLERANCE).then(|| {
            let percent = part * 100.0;
            format!(
                "expected {expected} of resource {name}, but found {found} ({percent:.1}% of expected)"
            )
        })
    };
    requests.filter_map(lack).collect()
}
