//! A NodeClaim from order to end.
//!
//! `launch` → `registration` → `initialization`, each a step that either is done or says what it
//! waits for; `liveness` gives up on claims that never get there. Then `drift`, `quiet` and
//! `consistency` tell by conditions what others decide by. `deletion` names what claims are deleted
//! for, `end` takes a deleted claim and its machine away. Every step may be interrupted and
//! repeated.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeclaim/lifecycle/`.

mod consistency;
mod deletion;
mod drift;
mod end;
mod hydration;
mod initialization;
mod launch;
mod liveness;
mod quiet;
mod registration;
mod repair;
mod silence;

pub(crate) use deletion::{Cause, delete};
pub(crate) use end::{POLL, machine_is_gone};
pub(crate) use silence::is_silent;

use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{NodeClaim, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::conditions::ConditionSet;
use crate::context::{Context, Error};
use crate::metrics::{self, Counter};
use crate::worklist::{self, Outcome};

/// What `Ready` depends on.
pub(crate) const DEPENDENTS: &[&str] = &["Launched", "Registered", "Initialized"];
/// How long pod events on a node are summed up before they are written again.
const POD_EVENTS: Duration = Duration::from_secs(10);

/// Reconciles claims until dropped.
pub async fn run(context: &Context, triggers: UnboundedReceiver<String>) {
    worklist::run("nodeclaim.lifecycle", context.clock, triggers, |name| reconcile(context, name))
        .await;
}

/// A claim while its steps work on it.
struct Work {
    claim: Arc<NodeClaim>,
    conditions: ConditionSet,
    status: aerostat_api::NodeClaimStatus,
}

async fn reconcile(context: &Context, name: String) -> Outcome {
    let Some(claim) = context.index().claims.get(&name) else { return Ok(None) };
    if claim.metadata.deletion_timestamp.is_some() {
        return end::reconcile(context, &claim).await;
    }
    let claim = if claim.finalizers().iter().any(|f| f == labels::TERMINATION_FINALIZER) {
        claim
    } else {
        add_finalizer(context, &claim).await?
    };
    let created = claim.creation_timestamp().map_or_else(|| context.clock.now(), |time| time.0);
    let status = claim.status.clone().unwrap_or_default();
    let conditions = ConditionSet::new(
        &status.conditions,
        DEPENDENTS,
        claim.metadata.generation,
        created,
        context.clock.now(),
    );
    let claim = hydration::claim(context, claim).await?;
    let mut work = Work { claim, conditions, status };
    if !work.conditions.is_true("Launched") {
        match launch::launch(context, &mut work).await? {
            launch::Launched::Yes => {}
            launch::Launched::GivenUp => return Ok(None),
        }
    }
    if !work.conditions.is_true("Registered") {
        registration::register(context, &mut work).await?;
        if work.conditions.is_true("Registered") {
            context.registration_health().registered(&work.claim);
            context.metrics().count(Counter::NodesCreated, metrics::of_claim(&work.claim));
        }
    }
    if !work.conditions.is_true("Initialized") {
        initialization::initialize(context, &mut work).await?;
    }
    hydration::node(context, &work).await?;
    consistency::check(context, &mut work).await;
    note_pod_events(context, &mut work);
    let mut waits = vec![drift::detect(context, &mut work).await?];
    waits.extend(quiet::mark(context, &mut work));
    let now = context.clock.now();
    let over = match liveness::time_left(&work, now) {
        liveness::Left::GiveUp(cause) => Some(cause),
        liveness::Left::Time(left) => {
            waits.push(left);
            None
        }
        liveness::Left::Done => None,
    };
    let life = deletion::life_left(&work, now);
    let over = over.or_else(|| life.filter(Duration::is_zero).map(|_| Cause::Expired));
    waits.extend(life);
    let is_ill = match repair::examine(context, &work).await {
        repair::Health::Good => false,
        repair::Health::Wait(left) => {
            waits.push(left);
            false
        }
        repair::Health::Replace => true,
    };
    let claim = save(context, work).await?;
    match over {
        Some(cause) => {
            note_failure(context, &claim, cause);
            delete(context, &claim, cause).await?;
            Ok(None)
        }
        None if is_ill => {
            repair::replace(context, &claim).await?;
            Ok(None)
        }
        None if silence::has_lost_its_machine(context, &claim).await? => {
            silence::end_what_was_launched(context, &claim).await?;
            delete(context, &claim, Cause::GarbageCollected).await?;
            Ok(None)
        }
        None => Ok(waits.into_iter().min()),
    }
}

/// A launch that came to nothing speaks against its pool.
fn note_failure(context: &Context, claim: &NodeClaim, cause: Cause) {
    let status = claim.status.clone().unwrap_or_default();
    let launched = status.conditions.iter().find(|condition| condition.type_ == "Launched");
    let (reason, message) = match (cause, launched) {
        (Cause::LaunchTimeout, Some(launched)) => {
            (launched.reason.as_str(), launched.message.as_str())
        }
        (Cause::LaunchTimeout | Cause::RegistrationTimeout, _) => {
            ("RegistrationFailed", "Failed to register node")
        }
        _ => return,
    };
    context.registration_health().failed(claim, reason, message);
}

/// Puts the time of the last pod event into the status, not more often than every ten seconds.
fn note_pod_events(context: &Context, work: &mut Work) {
    let Some(node) = &work.status.node_name else { return };
    let Some(last) = context.index().last_pod_event.get(node).copied() else { return };
    let known = work.status.last_pod_event_time.as_ref().map(|time| time.0);
    if known.is_none_or(|known| last.duration_since(known).unsigned_abs() >= POD_EVENTS) {
        // Kubernetes keeps whole seconds.
        let second = jiff::Timestamp::from_second(last.as_second()).unwrap_or(last);
        work.status.last_pod_event_time = Some(Time(second));
    }
}

/// Writes the status if it changed; returns the claim as it is then.
async fn save(context: &Context, work: Work) -> Result<Arc<NodeClaim>, Error> {
    let mut status = work.status;
    status.conditions = work.conditions.finish();
    let old = work.claim.status.clone().unwrap_or_default();
    if status == old {
        return Ok(work.claim);
    }
    let api = Api::<NodeClaim>::all(context.client.clone());
    let patch = Patch::Merge(json!({ "status": status }));
    let claim = api.patch_status(&work.claim.name_any(), &PatchParams::default(), &patch).await?;
    context.index().claims.learn(claim.clone());
    context.changed();
    Ok(Arc::new(claim))
}

async fn add_finalizer(context: &Context, claim: &NodeClaim) -> Result<Arc<NodeClaim>, Error> {
    let mut finalizers = claim.finalizers().to_vec();
    finalizers.push(labels::TERMINATION_FINALIZER.to_owned());
    let patch = json!({"metadata": {
        "finalizers": finalizers,
        "resourceVersion": claim.metadata.resource_version,
    }});
    let api = Api::<NodeClaim>::all(context.client.clone());
    let claim = api.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    context.index().claims.learn(claim.clone());
    Ok(Arc::new(claim))
}
