//! A registered claim whose node has stopped reporting, or is gone: perhaps its machine is gone too.
//!
//! Karpenter finds that out when it next compares lists, which it does every two minutes. So does
//! [`crate::garbage`], but the change of the node is reason enough to ask about this one machine.

use aerostat_api::NodeClaim;
use aerostat_provider::ProviderError;
use kube::ResourceExt;

use crate::conditions::is_true;
use crate::context::{Context, Error};
use crate::drain;
use crate::index::Index;

/// Whether the claim's machine is gone for good. The provider is only asked when no node reports:
/// one that does is there, whatever the provider says.
pub(super) async fn has_lost_its_machine(
    context: &Context,
    claim: &NodeClaim,
) -> Result<bool, Error> {
    if !is_silent(&context.index(), claim) {
        return Ok(false);
    }
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    let Some(id) = id else { return Ok(false) };
    match context.provider.get(id).await {
        Ok(_) => Ok(false),
        // It may have joined meanwhile.
        Err(ProviderError::NotFound(_)) => Ok(is_silent(&context.index(), claim)),
        Err(error) => Err(error.into()),
    }
}

/// Ends what was launched for a claim that says it has another machine, unless it has become a node:
/// then its pods leave first, which [`crate::garbage`] sees to.
pub(super) async fn end_what_was_launched(
    context: &Context,
    claim: &NodeClaim,
) -> Result<(), Error> {
    let uid = claim.uid();
    for machine in context.provider.list().await? {
        let id = &machine.provider_id;
        if uid.as_ref() != Some(&machine.claim) || !context.index().nodes_of(id).is_empty() {
            continue;
        }
        match context.provider.delete(id).await {
            Ok(()) | Err(ProviderError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether a claim is registered and no node of its machine reports.
pub(crate) fn is_silent(index: &Index, claim: &NodeClaim) -> bool {
    let Some(status) = &claim.status else { return false };
    let Some(id) = status.provider_id.as_deref() else { return false };
    is_true(&status.conditions, "Registered")
        && !index.nodes_of(id).iter().any(|node| drain::is_ready(node))
}
