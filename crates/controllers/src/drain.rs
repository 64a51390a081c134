//! A Node from deletion to end: taint, drain, machine, finalizer.
//!
//! Pods leave in tiers, each after the one before is gone: ordinary pods, daemons, critical pods,
//! critical daemons. PodDisruptionBudgets and `do-not-disrupt` hold them until the claim's
//! termination grace period is over.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/node/termination/`.

use std::sync::Arc;
use std::time::Duration;

use aerostat_api::labels;
use aerostat_engine::pod::Pod;
use aerostat_engine::predicates;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::{Context, Error, gone_is_fine};
use crate::lifecycle;
use crate::recorder::Note;
use crate::worklist::{self, Outcome};

/// How soon an eviction that a budget refused is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Pods whose deletion is overdue by this much no longer hold the node.
const STUCK: SignedDuration = SignedDuration::from_secs(60);

/// Drains deleted nodes until dropped.
pub async fn run(context: &Context, triggers: UnboundedReceiver<String>) {
    worklist::run("node.termination", context.clock, triggers, |name| reconcile(context, name))
        .await;
}

async fn reconcile(context: &Context, name: String) -> Outcome {
    let Some(node) = context.index().nodes.get(&name) else { return Ok(None) };
    let ours = node.finalizers().iter().any(|f| f == labels::TERMINATION_FINALIZER);
    if node.metadata.deletion_timestamp.is_none() || !ours {
        return Ok(None);
    }
    let claim = context.index().claim_of(&node);
    if let Some(claim) = &claim
        && claim.metadata.deletion_timestamp.is_none()
    {
        let api = Api::<aerostat_api::NodeClaim>::all(context.client.clone());
        gone_is_fine(api.delete(&claim.name_any(), &DeleteParams::default()).await)?;
    }
    let node = taint(context, &node).await?;
    let deadline = claim
        .as_ref()
        .and_then(|claim| claim.annotations().get(labels::TERMINATION_TIMESTAMP))
        .and_then(|text| text.parse().ok());
    if let Some(wait) = drain(context, &node, deadline).await? {
        return Ok(Some(wait));
    }
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    if let Some(id) = id
        && !lifecycle::machine_is_gone(context, &id).await?
    {
        return Ok(Some(lifecycle::POLL));
    }
    remove_finalizer(context, &name).await?;
    Ok(None)
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

fn disrupted() -> core::Taint {
    core::Taint {
        key: labels::DISRUPTED_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..core::Taint::default()
    }
}

/// Which pods leave before which.
fn tier(pod: &Pod) -> u8 {
    // The two system classes start at two billion.
    let critical = pod.priority >= 2_000_000_000;
    let daemon = pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet");
    u8::from(critical) * 2 + u8::from(daemon)
}

/// Takes the drain one step further; when to come back, or `None` once nothing is left.
async fn drain(
    context: &Context,
    node: &core::Node,
    deadline: Option<Timestamp>,
) -> Result<Option<Duration>, Error> {
    let now = context.clock.now();
    let pods = pods_to_drain(context, &node.name_any());
    let Some(first) = pods.iter().map(|pod| tier(pod)).min() else { return Ok(None) };
    let mut refused = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.deleting) {
        if deadline.is_some_and(|deadline| now >= deadline) {
            force(context, pod, deadline.unwrap_or(now)).await?;
        } else if tier(pod) == first {
            let key = format!("{}/{}", pod.namespace, pod.name);
            if protected(pod, now) {
                refused.push(format!("pod {key} has \"karpenter.sh/do-not-disrupt\" annotation"));
            } else if let Err(why) = evict(context, pod).await? {
                refused.push(why);
            }
        }
    }
    let mut wait = if refused.is_empty() { STUCK.unsigned_abs() } else { RETRY };
    if let Some(why) = refused.first() {
        let note = Note::warning("FailedDraining", format!("Failed to drain node, {why}"));
        context.recorder.publish(node.object_ref(&()), note).await;
    }
    if let Some(deadline) = deadline
        && let Ok(left) = Duration::try_from(deadline.duration_since(now))
        && !left.is_zero()
    {
        wait = wait.min(left);
    }
    // The index wakes us when a pod has gone.
    Ok(Some(wait))
}

/// Pods that the node waits for.
fn pods_to_drain(context: &Context, node: &str) -> Vec<Arc<Pod>> {
    let index = context.index();
    let keys = index.pods_by_node.get(node).into_iter().flatten();
    let pods = keys.filter_map(|key| index.pods.get(key).cloned());
    pods.filter(|pod| {
        let stays = predicates::tolerates(&pod.constraints.tolerations, &disrupted());
        let mirror = pod.owner.as_ref().is_some_and(|owner| owner.kind == "Node");
        !stays && !mirror
    })
    .collect()
}

/// Whether `karpenter.sh/do-not-disrupt` still protects a pod: `true` for ever, a duration from
/// its start.
fn protected(pod: &Pod, now: Timestamp) -> bool {
    let Some(text) = pod.annotations.get(labels::DO_NOT_DISRUPT) else { return false };
    if text == "true" {
        return true;
    }
    let Ok(duration) = aerostat_api::Duration::parse(text) else { return false };
    let Ok(duration) = SignedDuration::try_from(duration.0) else { return true };
    if duration.is_zero() {
        return false;
    }
    pod.started.is_none_or(|started| now < started.saturating_add(duration).unwrap_or(now))
}

/// Evicts a pod; the inner error says why a budget refused.
async fn evict(context: &Context, pod: &Pod) -> Result<Result<(), String>, Error> {
    let api = Api::<core::Pod>::namespaced(context.client.clone(), &pod.namespace);
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
    match api.evict(&pod.name, &params).await {
        Ok(_) => {
            let note = Note::normal("Evicted", "Evicted pod: Disrupted");
            context.recorder.publish(reference(pod), note).await;
            Ok(Ok(()))
        }
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 429 || status.code == 500 => {
            let key = format!("{}/{}", pod.namespace, pod.name);
            Ok(Err(format!("evicting pod violates a PDB (Pod={key})")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Deletes a pod past the deadline, whatever protects it.
async fn force(context: &Context, pod: &Pod, deadline: Timestamp) -> Result<(), Error> {
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {deadline} of the node. The pod was \
         granted 1 seconds of grace-period. This bypasses the PDB of the pod and the \
         do-not-disrupt annotation."
    );
    context.recorder.publish(reference(pod), Note::normal("Disrupted", message)).await;
    let api = Api::<core::Pod>::namespaced(context.client.clone(), &pod.namespace);
    let params = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
    gone_is_fine(api.delete(&pod.name, &params).await)
}

fn reference(pod: &Pod) -> core::ObjectReference {
    core::ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..core::ObjectReference::default()
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
