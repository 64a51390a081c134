//! What the cloud tells of its machines: their claims are deleted, and what ran there finds another
//! place while there is time.
//!
//! Source: aws/karpenter-provider-aws `pkg/controllers/interruption/`.

use std::time::Duration;

use aerostat_provider::{Event, Notice};
use kube::Resource;

use crate::context::{Context, Error};
use crate::lifecycle::{self, Cause};
use crate::recorder::Note;

/// How soon a notice is tried again that could not be acted on.
const RETRY: Duration = Duration::from_secs(1);

/// Acts on notices until dropped. One that was acted on twice, after a crash, does no harm: the
/// claim is deleted already.
pub async fn run(context: &Context) {
    loop {
        let notice = context.provider.next_notice().await;
        if !context.index().is_synced() {
            context.clock.sleep(RETRY).await;
            continue;
        }
        match act(context, &notice).await {
            Ok(()) => context.provider.acknowledge(&notice),
            Err(error) => {
                let machine = &notice.provider_id;
                tracing::warn!(%machine, %error, "a notice was not acted on; will try again");
                context.clock.sleep(RETRY).await;
            }
        }
    }
}

async fn act(context: &Context, notice: &Notice) -> Result<(), Error> {
    let Some(claim) = context.index().claim_of_machine(&notice.provider_id) else { return Ok(()) };
    let (reason, message) = match notice.event {
        Event::SpotInterruption => ("SpotInterrupted", "Spot interruption warning was received"),
        Event::Terminated => ("InstanceTerminating", "Instance is terminating"),
    };
    let note = || Note::warning(reason, message);
    context.recorder.publish(claim.object_ref(&()), note()).await;
    let nodes = context.index().nodes_of(&notice.provider_id);
    for node in nodes {
        context.recorder.publish(node.object_ref(&()), note()).await;
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    lifecycle::delete(context, &claim, Cause::Interrupted).await
}
