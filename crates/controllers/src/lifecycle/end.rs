//! A deleted claim: its Nodes drain and go, then its machine, then the claim itself.

use std::time::Duration;

use aerostat_api::{NodeClaim, labels};
use aerostat_provider::ProviderError;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::conditions::{ConditionSet, is_true};
use crate::context::{Context, Error, gone_is_fine};
use crate::metrics::{self, Counter};
use crate::recorder::Note;
use crate::worklist::Outcome;

/// How often the provider is asked whether a machine is gone.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// Takes a deleted claim one step further.
pub(super) async fn reconcile(context: &Context, claim: &NodeClaim) -> Outcome {
    if !claim.finalizers().iter().any(|f| f == labels::TERMINATION_FINALIZER) {
        return Ok(None);
    }
    stamp_deadline(context, claim).await?;
    let status = claim.status.clone().unwrap_or_default();
    if let Some(id) = &status.provider_id {
        let nodes = context.index().nodes_of(id);
        if !nodes.is_empty() {
            let api = Api::<Node>::all(context.client.clone());
            for node in nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none()) {
                gone_is_fine(api.delete(&node.name_any(), &DeleteParams::default()).await)?;
            }
            // The index tells when the last of them is gone.
            return Ok(None);
        }
        if !machine_is_gone(context, id).await? {
            mark_terminating(context, claim).await?;
            return Ok(Some(POLL));
        }
    }
    remove_finalizer(context, claim).await?;
    Ok(None)
}

/// Ends the machine; tells whether it is gone.
pub(crate) async fn machine_is_gone(context: &Context, id: &str) -> Result<bool, Error> {
    match context.provider.delete(id).await {
        Ok(()) => Ok(false),
        Err(ProviderError::NotFound(_)) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Writes down when the node goes whatever its pods say, if the claim limits its draining.
async fn stamp_deadline(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    let (Some(grace), Some(deleted)) =
        (claim.spec.termination_grace_period, claim.metadata.deletion_timestamp.as_ref())
    else {
        return Ok(());
    };
    // One that cannot be read would let the node drain for ever.
    let known = claim.annotations().get(labels::TERMINATION_TIMESTAMP);
    if known.is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()) {
        return Ok(());
    }
    let grace = SignedDuration::try_from(grace.0).unwrap_or(SignedDuration::MAX);
    let deadline = deleted.0.checked_add(grace).unwrap_or(jiff::Timestamp::MAX).to_string();
    let patch = json!({"metadata": {"annotations": {labels::TERMINATION_TIMESTAMP: deadline}}});
    let api = Api::<NodeClaim>::all(context.client.clone());
    let claim = api.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    let message = format!("All pods will be deleted by {deadline}");
    let note = Note::warning("TerminationGracePeriodExpiring", message);
    context.recorder.publish(claim.object_ref(&()), note).await;
    context.index().claims.learn(claim);
    Ok(())
}

async fn mark_terminating(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    let status = claim.status.clone().unwrap_or_default();
    if is_true(&status.conditions, "InstanceTerminating") {
        return Ok(());
    }
    let now = context.clock.now();
    let generation = claim.metadata.generation;
    let mut conditions =
        ConditionSet::new(&status.conditions, super::DEPENDENTS, generation, now, now);
    conditions.set_true("InstanceTerminating");
    // Others write conditions too: the list is replaced as a whole, and only if it is known.
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": {"conditions": conditions.finish()},
    }));
    let api = Api::<NodeClaim>::all(context.client.clone());
    gone_is_fine(api.patch_status(&claim.name_any(), &PatchParams::default(), &patch).await)
}

async fn remove_finalizer(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    let api = Api::<NodeClaim>::all(context.client.clone());
    let Some(current) = api.get_opt(&claim.name_any()).await? else { return Ok(()) };
    let rest: Vec<_> =
        current.finalizers().iter().filter(|f| *f != labels::TERMINATION_FINALIZER).collect();
    let patch = json!({"metadata": {
        "finalizers": rest,
        "resourceVersion": current.metadata.resource_version,
    }});
    let name = claim.name_any();
    gone_is_fine(api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await)?;
    context.metrics().count(Counter::ClaimsTerminated, metrics::of_claim(claim));
    Ok(())
}
