//! The pods of a draining node.
//!
//! They leave in tiers, each after the one before is gone: ordinary pods, daemons, critical pods,
//! critical daemons. PodDisruptionBudgets and `do-not-disrupt` hold them until the claim's
//! termination grace period runs out; then each is deleted early enough to have its own grace.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/node/termination/terminator/`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aerostat_api::labels;
use aerostat_engine::pod::Pod;
use aerostat_engine::predicates;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use kube::{Api, Resource, ResourceExt};

use super::progress::Progress;
use super::{disrupted, surge, until};
use crate::context::{Context, Error, gone_is_fine};
use crate::index::Index;
use crate::metrics::Counter;
use crate::recorder::Note;

/// First and longest wait before an eviction that was refused is tried again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Pods whose deletion is overdue by this much no longer hold the node.
const STUCK: SignedDuration = SignedDuration::from_secs(60);
/// How soon to look again at a pod whose Deployment brings another one.
const SURGE: SignedDuration = SignedDuration::from_secs(10);
/// How long to wait for a change that the watches tell of.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Evictions that were refused, by node and the pod's UID.
#[derive(Debug, Default)]
pub(super) struct Retries(Mutex<BTreeMap<String, BTreeMap<String, Retry>>>);

#[derive(Clone, Copy, Debug)]
struct Retry {
    refusals: u32,
    next: Timestamp,
}

impl Retries {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, Retry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self, node: &str) {
        self.lock().remove(node);
    }

    /// When a pod may be tried again.
    fn next(&self, node: &str, pod: &Pod) -> Option<Timestamp> {
        Some(self.lock().get(node)?.get(&pod.uid)?.next)
    }

    fn refused(&self, node: &str, pod: &Pod, now: Timestamp) {
        let mut all = self.lock();
        let retries = all.entry(node.to_owned()).or_default();
        let retry = retries.entry(pod.uid.clone()).or_insert(Retry { refusals: 0, next: now });
        let wait = BACKOFF.0.saturating_mul(1 << retry.refusals.min(10)).min(BACKOFF.1);
        retry.refusals += 1;
        retry.next = now.checked_add(wait).unwrap_or(Timestamp::MAX);
    }
}

/// Takes the drain one step further; when to come back, or `None` once nothing is left.
pub(super) async fn drain(
    context: &Context,
    retries: &Retries,
    node: &core::Node,
    progress: &Progress,
) -> Result<Option<Duration>, Error> {
    let now = context.clock.now();
    let name = node.name_any();
    let pods: Vec<Arc<Pod>> = {
        let index = context.index();
        of_node(&index, &name).filter(|pod| leaves(pod) && !is_stuck(pod, now)).cloned().collect()
    };
    let Some(first) = pods.iter().map(|pod| tier(pod)).min() else { return Ok(None) };
    let mut refused = Vec::new();
    let mut wakes = Vec::new();
    for pod in &pods {
        // Since when the pod has to be on its way to end in time.
        let forced = progress.deadline().map(|deadline| {
            let grace = SignedDuration::from_secs(pod.grace_seconds.max(0));
            (deadline, deadline.checked_sub(grace).unwrap_or(Timestamp::MIN))
        });
        wakes.extend(pod.ends.and_then(|ends| ends.checked_add(STUCK).ok()));
        if let Some((deadline, since)) = forced {
            if now >= since {
                let soon = now.checked_add(SignedDuration::from_secs(1)).unwrap_or(now);
                if pod.ends.is_none_or(|ends| ends > deadline.max(soon)) {
                    force(context, pod, deadline).await?;
                }
                continue;
            }
            wakes.push(since);
        }
        if pod.deleting || tier(pod) != first {
            continue;
        }
        let next = retries.next(&name, pod);
        if let Some(next) = next.filter(|next| *next > now) {
            wakes.push(next);
            continue;
        }
        if protected(pod, now) != Ok(true) && surge::leave(context, pod, node).await? {
            wakes.extend(now.checked_add(SURGE).ok());
            continue;
        }
        if let Err(why) = evict(context, pod, progress, now).await? {
            retries.refused(&name, pod, now);
            wakes.extend(retries.next(&name, pod));
            refused.push(why);
        }
    }
    if let Some(why) = refused.first() {
        let note = Note::warning("FailedDraining", format!("Failed to drain node, {why}"));
        context.recorder.publish(node.object_ref(&()), note).await;
    }
    // The index wakes us when a pod has gone.
    let waits = wakes.into_iter().filter_map(|at| until(at, now));
    Ok(Some(waits.min().unwrap_or(LOOK_AGAIN)))
}

/// All pods that are bound to a node and have not ended.
pub(super) fn of_node<'a>(index: &'a Index, node: &str) -> impl Iterator<Item = &'a Arc<Pod>> {
    let keys = index.pods_by_node.get(node).into_iter().flatten();
    keys.filter_map(|key| index.pods.get(key))
}

/// Whether a pod leaves a node that drains: not if it tolerates that, or belongs to the node.
pub(super) fn leaves(pod: &Pod) -> bool {
    let stays = predicates::tolerates(&pod.constraints.tolerations, &disrupted());
    let mirror = pod.owner.as_ref().is_some_and(|owner| owner.kind == "Node");
    !stays && !mirror
}

/// Whether a pod should have been gone for a while; its kubelet may be dead.
fn is_stuck(pod: &Pod, now: Timestamp) -> bool {
    pod.ends.is_some_and(|ends| now.duration_since(ends) >= STUCK)
}

/// Which pods leave before which.
fn tier(pod: &Pod) -> u8 {
    // The two system classes start at two billion.
    let critical = pod.priority >= 2_000_000_000;
    let daemon = pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet");
    u8::from(critical) * 2 + u8::from(daemon)
}

/// Whether `karpenter.sh/do-not-disrupt` still protects a pod: `true` for ever, a duration from
/// its start. The error says why it cannot be read; then it protects nothing.
fn protected(pod: &Pod, now: Timestamp) -> Result<bool, String> {
    let Some(text) = pod.annotations.get(labels::DO_NOT_DISRUPT) else { return Ok(false) };
    if text == "true" {
        return Ok(true);
    }
    let duration = aerostat_api::Duration::parse(text)?.0;
    if duration.is_zero() {
        return Err("the duration must be longer than 0s".to_owned());
    }
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    let ends = |started: Timestamp| started.checked_add(duration).unwrap_or(Timestamp::MAX);
    Ok(pod.started.is_none_or(|started| now < ends(started)))
}

/// Evicts a pod; the inner error says what it is refused for.
async fn evict(
    context: &Context,
    pod: &Pod,
    progress: &Progress,
    now: Timestamp,
) -> Result<Result<(), String>, Error> {
    let key = format!("{}/{}", pod.namespace, pod.name);
    match protected(pod, now) {
        Ok(false) => {}
        Ok(true) => {
            return Ok(Err(format!("pod {key} has \"{}\" annotation", labels::DO_NOT_DISRUPT)));
        }
        Err(why) => {
            let name = labels::DO_NOT_DISRUPT;
            let message = format!("Invalid {name} annotation: {why}, ignoring annotation");
            let note = Note::warning("InvalidDoNotDisruptAnnotation", message);
            context.recorder.publish(reference(pod), note).await;
        }
    }
    let api = Api::<core::Pod>::namespaced(context.client.clone(), &pod.namespace);
    let delete = DeleteParams { preconditions: Some(this(pod)), ..DeleteParams::default() };
    let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
    let answer = api.evict(&pod.name, &params).await;
    let code = match &answer {
        Ok(_) => 201,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    };
    let labels = vec![("code", code.to_string())];
    context.metrics().count(Counter::EvictionRequests, labels);
    match answer {
        Ok(_) => {
            let labels = vec![("reason", progress.cause().to_owned())];
            context.metrics().count(Counter::PodsDrained, labels);
            let message = format!("Evicted pod: {}", progress.cause());
            context.recorder.publish(reference(pod), Note::normal("Evicted", message)).await;
            Ok(Ok(()))
        }
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 429 => {
            Ok(Err(format!("evicting pod violates a PDB (Pod={key})")))
        }
        Err(kube::Error::Api(status)) if status.code == 500 => {
            Ok(Err(format!("eviction does not support multiple PDBs (Pod={key})")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Deletes a pod so that it has ended by the deadline, whatever protects it.
async fn force(context: &Context, pod: &Pod, deadline: Timestamp) -> Result<(), Error> {
    let left = deadline.duration_since(context.clock.now()).as_secs();
    let grace = left.clamp(1, pod.grace_seconds.max(1));
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {deadline} of the node. The pod was \
         granted {grace} seconds of grace-period of its {} terminationGracePeriodSeconds. This \
         bypasses the PDB of the pod and the do-not-disrupt annotation.",
        pod.grace_seconds
    );
    context.recorder.publish(reference(pod), Note::normal("Disrupted", message)).await;
    let api = Api::<core::Pod>::namespaced(context.client.clone(), &pod.namespace);
    let grace = u32::try_from(grace).unwrap_or(u32::MAX);
    let params = DeleteParams {
        grace_period_seconds: Some(grace),
        preconditions: Some(this(pod)),
        ..DeleteParams::default()
    };
    match api.delete(&pod.name, &params).await {
        // A namesake is another pod.
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
        result => {
            gone_is_fine(result)?;
            let labels = vec![("reason", "Forceful Termination".to_owned())];
            context.metrics().count(Counter::PodsDrained, labels);
            Ok(())
        }
    }
}

/// This very pod, not one of the same name that came after it.
fn this(pod: &Pod) -> Preconditions {
    Preconditions { uid: Some(pod.uid.clone()), resource_version: None }
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
