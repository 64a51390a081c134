//! Why claims are deleted that nobody has asked to delete.

use std::time::Duration;

use aerostat_api::NodeClaim;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Resource, ResourceExt};

use super::Work;
use crate::context::{Context, Error, gone_is_fine};
use crate::metrics::{self, Counter};
use crate::recorder::Note;

/// Why a claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The cloud has not answered in time.
    LaunchTimeout,
    /// The machine has not joined in time.
    RegistrationTimeout,
    /// None of what it allows is to be had.
    InsufficientCapacity,
    /// Its class is not ready.
    ClassNotReady,
    /// It is as old as it may grow.
    Expired,
    /// Its machine is gone.
    GarbageCollected,
    /// Its node is ill.
    Unhealthy,
    /// The cloud takes its machine back.
    Interrupted,
}

impl Cause {
    /// One word, for people.
    fn word(self) -> &'static str {
        match self {
            Self::LaunchTimeout => "LaunchTimeout",
            Self::RegistrationTimeout => "RegistrationTimeout",
            Self::InsufficientCapacity => "InsufficientCapacity",
            Self::ClassNotReady => "NodeClassNotReady",
            Self::Expired => "Expired",
            Self::GarbageCollected => "GarbageCollected",
            Self::Unhealthy => "Unhealthy",
            Self::Interrupted => "Interrupted",
        }
    }

    /// What metrics call it.
    fn metric(self) -> &'static str {
        match self {
            Self::LaunchTimeout => "launch_timeout",
            Self::RegistrationTimeout => "registration_timeout",
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::ClassNotReady => "nodeclass_not_ready",
            Self::Expired => "expired",
            Self::GarbageCollected => "garbage_collected",
            Self::Unhealthy => "unhealthy",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Deletes a claim; its pods are planned for anew.
pub(crate) async fn delete(
    context: &Context,
    claim: &NodeClaim,
    cause: Cause,
) -> Result<(), Error> {
    let name = claim.name_any();
    let reason = cause.word();
    tracing::warn!(%name, reason, "nodeclaim is deleted");
    // A launch that failed has said why.
    if !matches!(cause, Cause::InsufficientCapacity | Cause::ClassNotReady) {
        publish(context, claim, reason).await;
    }
    let api = Api::<NodeClaim>::all(context.client.clone());
    let preconditions = Preconditions { uid: claim.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    gone_is_fine(api.delete(&name, &params).await)?;
    let mut labels = metrics::of_claim(claim);
    labels.push(("reason", cause.metric().to_owned()));
    context.metrics().count(Counter::ClaimsDisrupted, labels);
    Ok(())
}

async fn publish(context: &Context, claim: &NodeClaim, reason: &str) {
    let about = |message: String| Note::normal("DisruptionTerminating", message);
    let message = format!("Disrupting NodeClaim: {reason}");
    context.recorder.publish(claim.object_ref(&()), about(message)).await;
    let node = claim.status.as_ref().and_then(|status| status.node_name.as_ref());
    let node = node.and_then(|node| context.index().nodes.get(node));
    if let Some(node) = node {
        let message = format!("Disrupting Node: {reason}");
        context.recorder.publish(node.object_ref(&()), about(message)).await;
    }
}

/// How long the claim may still live, by its own `expireAfter`; `None` for ever.
pub(super) fn life_left(work: &Work, now: Timestamp) -> Option<Duration> {
    let after = work.claim.spec.expire_after.as_ref()?.duration?.0;
    let born = work.claim.metadata.creation_timestamp.as_ref()?.0;
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    let end = born.checked_add(after).unwrap_or(Timestamp::MAX);
    Some(Duration::try_from(end.duration_since(now)).unwrap_or_default())
}
