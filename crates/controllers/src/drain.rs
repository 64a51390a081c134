//! A Node from deletion to end: taint, pods, volumes, machine, finalizer.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/node/termination/`.

mod pods;
mod progress;
mod surge;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use aerostat_api::labels;
use aerostat_provider::ProviderError;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::{Context, Error, gone_is_fine};
use crate::lifecycle;
use crate::metrics::{self, Counter};
use crate::recorder::Note;
use crate::worklist::{self, Outcome};

use pods::Retries;
use progress::Progress;

/// How long a drain takes at least: what sends requests to the node's pods has to hear of it.
const SHORTEST: SignedDuration = SignedDuration::from_secs(5);

/// Drains deleted nodes until dropped.
pub async fn run(context: &Context, triggers: UnboundedReceiver<String>) {
    let retries = Retries::default();
    let reconcile = |name| reconcile(context, &retries, name);
    worklist::run("node.termination", context.clock, triggers, reconcile).await;
}

async fn reconcile(context: &Context, retries: &Retries, name: String) -> Outcome {
    let Some(node) = context.index().nodes.get(&name) else {
        retries.forget(&name);
        return Ok(None);
    };
    let ours = node.finalizers().iter().any(|f| f == labels::TERMINATION_FINALIZER);
    if node.metadata.deletion_timestamp.is_none() || !ours {
        return Ok(None);
    }
    let claim = context.index().claim_of(&node);
    if let Some(claim) = &claim
        && claim.metadata.deletion_timestamp.is_none()
    {
        let api = Api::<aerostat_api::NodeClaim>::all(context.client.clone());
        let preconditions = Preconditions { uid: claim.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        gone_is_fine(api.delete(&claim.name_any(), &params).await)?;
    }
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    if !is_ready(&node)
        && let Some(id) = &id
        && let Err(ProviderError::NotFound(_)) = context.provider.get(id).await
    {
        // Nothing is left to drain.
        remove_finalizer(context, &name).await?;
        return Ok(None);
    }
    let node = taint(context, &node).await?;
    let mut progress = Progress::of(claim.as_deref(), context.clock.now());
    let wait = empty(context, retries, &node, &mut progress).await?;
    progress.save(context).await?;
    if wait.is_some() {
        return Ok(wait);
    }
    if let Some(id) = id
        && !lifecycle::machine_is_gone(context, &id).await?
    {
        return Ok(Some(lifecycle::POLL));
    }
    remove_finalizer(context, &name).await?;
    context.metrics().count(Counter::NodesTerminated, metrics::of_node(&node));
    retries.forget(&name);
    Ok(None)
}

/// Takes pods and volumes off the node; when to come back, or `None` once nothing is left.
async fn empty(
    context: &Context,
    retries: &Retries,
    node: &core::Node,
    progress: &mut Progress,
) -> Result<Option<Duration>, Error> {
    let deadline = progress.deadline();
    if let Some(deadline) = deadline {
        let message = format!("All pods will be deleted by {deadline}");
        let note = Note::warning("TerminationGracePeriodExpiring", message);
        let note = note.quiet_for(Duration::from_secs(3600));
        context.recorder.publish(node.object_ref(&()), note).await;
    }
    if let Some(wait) = pods::drain(context, retries, node, progress).await? {
        progress.wait_for("Drained", "Draining");
        return Ok(Some(wait));
    }
    let now = context.clock.now();
    let begun = node.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    let shortest = begun.checked_add(SHORTEST).unwrap_or(now);
    if let Some(left) = until(shortest, now) {
        progress.wait_for("Drained", "Draining");
        return Ok(Some(left));
    }
    if progress.done("Drained") {
        context.metrics().count(Counter::NodesDrained, metrics::of_node(node));
    }
    let is_over = deadline.is_some_and(|deadline| deadline <= now);
    let attached = volumes::attached(context, &node.name_any());
    if attached.is_empty() {
        progress.done("VolumesDetached");
    } else if is_over {
        progress.given_up("VolumesDetached", "TerminationGracePeriodElapsed");
    } else {
        let list = attached.join(", ");
        let message = format!("Awaiting deletion of bound volumeattachments ({list})");
        let note = Note::normal("AwaitingVolumeDetachment", message);
        context.recorder.publish(node.object_ref(&()), note).await;
        progress.wait_for("VolumesDetached", "AwaitingVolumeDetachment");
        // The index wakes us when one has gone.
        let left = deadline.and_then(|deadline| until(deadline, now));
        return Ok(Some(left.unwrap_or(pods::LOOK_AGAIN)));
    }
    progress.done("InstanceTerminating");
    Ok(None)
}

/// The time from `now` to `at`, if there is any.
fn until(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|left| !left.is_zero())
}

/// Whether a node's kubelet says that it is ready.
pub(crate) fn is_ready(node: &core::Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Keeps new pods and load balancers off.
async fn taint(context: &Context, node: &Arc<core::Node>) -> Result<Arc<core::Node>, Error> {
    let mut tainted = core::Node::clone(node);
    tainted.labels_mut().insert(labels::EXCLUDE_BALANCERS.to_owned(), "karpenter".to_owned());
    let taints = tainted.spec.get_or_insert_default().taints.get_or_insert_default();
    if !taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT) {
        taints.push(disrupted());
    }
    if tainted == **node {
        return Ok(node.clone());
    }
    let api = Api::<core::Node>::all(context.client.clone());
    let node = api.replace(&node.name_any(), &PostParams::default(), &tainted).await?;
    context.index().nodes.learn(node.clone());
    Ok(Arc::new(node))
}

/// The taint of machines that are about to go.
pub(crate) fn disrupted() -> core::Taint {
    core::Taint {
        key: labels::DISRUPTED_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..core::Taint::default()
    }
}

async fn remove_finalizer(context: &Context, name: &str) -> Result<(), Error> {
    let api = Api::<core::Node>::all(context.client.clone());
    let Some(node) = api.get_opt(name).await? else { return Ok(()) };
    let rest: Vec<_> =
        node.finalizers().iter().filter(|f| *f != labels::TERMINATION_FINALIZER).collect();
    let patch = json!({"metadata": {
        "finalizers": rest,
        "resourceVersion": node.metadata.resource_version,
    }});
    gone_is_fine(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
}
