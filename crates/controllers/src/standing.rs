//! How a machine stands: why it stays, or why it goes.

use aerostat_engine::disruption::HORIZON_HOURS;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::context::Context;

/// What is known of a node, as JSON: `outcome` is `unmanaged`, `leaving`, `kept` (then `reason`
/// says why, `blocker` the same for programs) or `unweighed`. `None` if there is no such node.
#[must_use]
pub fn document(context: &Context, name: &str) -> Option<Value> {
    let (node, claim) = {
        let index = context.index();
        let node = index.nodes.get(name)?;
        let claim = index.claim_of(&node);
        (node, claim)
    };
    let Some(claim) = claim else { return Some(json!({"node": name, "outcome": "unmanaged"})) };
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice());
    let reason = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == "DisruptionReason" && condition.status == "True")
        .map(|condition| condition.reason.clone());
    let is_deleted =
        claim.metadata.deletion_timestamp.is_some() || node.metadata.deletion_timestamp.is_some();
    let mut document = if is_deleted || reason.is_some() {
        json!({"outcome": "leaving", "reason": reason, "isDraining": is_deleted})
    } else {
        let journal = context.journal();
        match journal.why_kept(&claim.name_any()) {
            (Some(kept), at) => json!({
                "outcome": "kept",
                "reason": kept.blocker.to_string(),
                "blocker": kept.blocker,
                "pricePerHour": kept.price,
                "horizonHours": HORIZON_HOURS,
                "at": at.to_string(),
            }),
            (None, at) => json!({"outcome": "unweighed", "at": at.to_string()}),
        }
    };
    document["node"] = name.into();
    document["nodeClaim"] = claim.name_any().into();
    Some(document)
}
