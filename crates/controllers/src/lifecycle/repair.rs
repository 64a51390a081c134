//! Nodes that are ill for too long, or of which somebody says that they are ill, are replaced.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/node/health/`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{NodeClaim, labels};
use aerostat_provider::RepairPolicy;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::{Cause, Work};
use crate::context::{Context, Error};
use crate::metrics::{self, Counter};
use crate::recorder::Note;

/// How soon a repair that was held back is looked at again.
const RETRY: Duration = Duration::from_secs(5 * 60);
/// How long a node is not told again that its repair is held back.
const QUIET: Duration = Duration::from_secs(15 * 60);

/// What a node's health asks for.
pub(super) enum Health {
    /// Nothing.
    Good,
    /// To look again after a while.
    Wait(Duration),
    /// To replace it now.
    Replace,
}

/// Looks at the conditions of the claim's registered Node. When more than a fifth of the pool's
/// nodes are ill, something else is wrong, and none is replaced.
pub(super) async fn examine(context: &Context, work: &Work) -> Health {
    let Some(name) = &work.status.node_name else { return Health::Good };
    let Some(node) = context.index().nodes.get(name) else { return Health::Good };
    // Somebody knows better.
    let asked = |of: Option<&String>| of.is_some_and(|value| value == "true");
    if asked(work.claim.annotations().get(labels::REPAIR))
        || asked(node.annotations().get(labels::REPAIR))
    {
        return Health::Replace;
    }
    let policies = context.provider.repair_policies();
    let Some(due) = due(&node, policies) else { return Health::Good };
    match Duration::try_from(due.duration_since(context.clock.now())) {
        Ok(left) if !left.is_zero() => return Health::Wait(left),
        _ => {}
    }
    let pool = work.claim.labels().get(labels::NODEPOOL).cloned();
    let (ill, all) = {
        let index = context.index();
        // Labels of nodes are anybody's; claims say where they belong.
        let mine = |claim: &&Arc<NodeClaim>| {
            pool.as_ref().is_none_or(|pool| claim.labels().get(labels::NODEPOOL) == Some(pool))
        };
        let name = |claim: &Arc<NodeClaim>| claim.status.as_ref()?.node_name.clone();
        let claims = index.claims.values().filter(mine);
        let nodes = claims.filter_map(|claim| index.nodes.get(&name(claim)?));
        nodes.fold((0, 0_usize), |(ill, all), node| {
            (ill + usize::from(self::due(&node, policies).is_some()), all + 1)
        })
    };
    if ill > all.div_ceil(5) {
        let message = match pool {
            Some(_) => "more than 20% nodes are unhealthy in the nodepool",
            None => "more than 20% nodes are unhealthy in the cluster",
        };
        let note = Note::warning("NodeRepairBlocked", message).quiet_for(QUIET);
        context.recorder.publish(node.object_ref(&()), note).await;
        return Health::Wait(RETRY);
    }
    Health::Replace
}

/// When the first of a node's bad conditions will have been put up with for long enough.
fn due(node: &Node, policies: &[RepairPolicy]) -> Option<Timestamp> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    let due = conditions.unwrap_or_default().iter().filter_map(|condition| {
        let policy = policies.iter().find(|policy| {
            policy.condition == condition.type_ && policy.status == condition.status
        })?;
        let since = condition.last_transition_time.as_ref()?.0;
        let toleration = SignedDuration::try_from(policy.toleration).ok()?;
        since.checked_add(toleration).ok()
    });
    due.min()
}

/// Deletes the claim; what runs on its node gets no grace.
pub(super) async fn replace(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    let now = context.clock.now();
    let known = claim.annotations().get(labels::TERMINATION_TIMESTAMP);
    let is_over = known.and_then(|text| text.parse().ok()).is_some_and(|at: Timestamp| at <= now);
    if !is_over {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let annotations = BTreeMap::from([(labels::TERMINATION_TIMESTAMP, now)]);
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let api = Api::<NodeClaim>::all(context.client.clone());
        let name = claim.name_any();
        let claim = api.patch(&name, &PatchParams::default(), &patch).await?;
        context.index().claims.learn(claim);
    }
    super::delete(context, claim, Cause::Unhealthy).await?;
    context.metrics().count(Counter::ClaimsUnhealthy, metrics::of_claim(claim));
    Ok(())
}
