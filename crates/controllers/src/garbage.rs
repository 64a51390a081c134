//! What lost its counterpart: claims and nodes without a machine, machines without a claim.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeclaim/garbagecollection/`,
//! aws/karpenter-provider-aws `pkg/controllers/nodeclaim/garbagecollection/`. Unlike there, a
//! machine without a claim that is a node drains first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{NodeClaim, labels};
use aerostat_provider::{Instance, ProviderError};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};

use crate::context::{Context, Error, gone_is_fine};
use crate::drain;
use crate::lifecycle::{self, Cause};

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(120);
/// How old a machine without a claim must be.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// Looks again and again, until dropped.
pub async fn run(context: &Context) {
    loop {
        context.clock.sleep(INTERVAL).await;
        if let Err(error) = collect(context).await {
            tracing::warn!(%error, "garbage was not collected; will try again");
        }
    }
}

async fn collect(context: &Context) -> Result<(), Error> {
    if !context.index().is_synced() {
        return Ok(());
    }
    // Claims first, so that the machine of each of them can be in the list; then claims again, so
    // that the claim of each machine can be.
    let claims: Vec<Arc<NodeClaim>> = context.index().claims.values().cloned().collect();
    let machines = context.provider.list().await?;
    let running: BTreeSet<&str> = machines.iter().map(|m| m.provider_id.as_str()).collect();
    for claim in &claims {
        if is_lost(context, claim, &running) {
            lifecycle::delete(context, claim, Cause::GarbageCollected).await?;
        }
    }
    for machine in &machines {
        collect_machine(context, machine).await?;
    }
    collect_nodes(context, &running).await
}

/// Whether a registered claim has lost its machine.
fn is_lost(context: &Context, claim: &NodeClaim, running: &BTreeSet<&str>) -> bool {
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    claim.metadata.deletion_timestamp.is_none()
        && id.is_some_and(|id| !running.contains(id))
        && lifecycle::is_silent(&context.index(), claim)
}

/// Ends a machine that no claim has ordered, or whose claim is no more.
async fn collect_machine(context: &Context, machine: &Instance) -> Result<(), Error> {
    let (claimed, nodes) = {
        let index = context.index();
        let mut claims = index.claims.values();
        let claimed = claims.any(|claim| claim.uid().as_ref() == Some(&machine.claim))
            || index.claim_of_machine(&machine.provider_id).is_some();
        (claimed, index.nodes_of(&machine.provider_id))
    };
    let age = context.clock.now().duration_since(machine.launched);
    if claimed || age < GRACE {
        return Ok(());
    }
    let id = &machine.provider_id;
    tracing::warn!(%id, "a machine has no claim; it is ended");
    if nodes.iter().any(|node| is_ours(node)) {
        // Its pods leave first, then it ends.
        return delete_nodes(context, &nodes).await;
    }
    match context.provider.delete(id).await {
        Ok(()) | Err(ProviderError::NotFound(_)) => delete_nodes(context, &nodes).await,
        Err(error) => Err(error.into()),
    }
}

/// Deletes nodes of ours that have neither claim nor machine.
async fn collect_nodes(context: &Context, running: &BTreeSet<&str>) -> Result<(), Error> {
    let lost: Vec<Arc<Node>> = {
        let index = context.index();
        let is_lost = |node: &&Arc<Node>| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            is_ours(node)
                && !drain::is_ready(node)
                && index.claim_of(node).is_none()
                && id.is_some_and(|id| !running.contains(id))
        };
        index.nodes.values().filter(is_lost).cloned().collect()
    };
    delete_nodes(context, &lost).await
}

fn is_ours(node: &Node) -> bool {
    node.finalizers().iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER)
}

async fn delete_nodes(context: &Context, nodes: &[Arc<Node>]) -> Result<(), Error> {
    let api = Api::<Node>::all(context.client.clone());
    for node in nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none()) {
        gone_is_fine(api.delete(&node.name_any(), &DeleteParams::default()).await)?;
    }
    Ok(())
}
