//! Plans when the cluster has changed, and carries the plan out.
//!
//! One plan at a time. What a plan creates is known to the next one at once, not only when the
//! watch tells of it.

use std::time::Duration;

use aerostat_api::{NodeClaim, NodeClaimSpec, labels};
use aerostat_engine::plan::{Launch, Nomination, Plan, Termination};
use aerostat_engine::pod::PodKey;
use aerostat_engine::report::{LeftOut, Misread, PoolProblem, Report, Unplaced};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};

use crate::context::{Context, Decision, Error, gone_is_fine};
use crate::marking;
use crate::recorder::Note;
use crate::refusals::{Refusals, Subject};
use crate::snapshot::{self, Memory, Nominations, Target};

/// How many writes are under way at a time.
const CONCURRENCY: usize = 32;
/// Pods that keep coming are planned after this time, and this much more for each that came: many
/// are dear to plan, and one plan for all of them is the better one.
const BURST: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(1));
/// But after this time at the latest.
const LONGEST_BURST: Duration = Duration::from_secs(5);

/// First and longest wait after a plan of which nobody knows whether it was carried out.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How soon to look again for an owner that is not known yet.
const OWNER_RETRY: Duration = Duration::from_millis(20);

/// Plans after every change, until dropped.
pub async fn run(context: &Context) {
    let mut changes = context.changes();
    let mut next = None;
    let mut published = Report::default();
    let mut memory = Memory::default();
    let mut failures = 0;
    loop {
        tokio::select! {
            biased;
            changed = changes.changed() => if changed.is_err() { return },
            () = sleep_until(context, next) => {}
        }
        gather(context).await;
        changes.mark_unchanged();
        let (known, owners) = {
            let index = context.index();
            let owners = snapshot::owners_are_known(&index, context.clock.now());
            (index.is_synced() && index.pools_are_known(), owners)
        };
        if !known {
            continue;
        }
        if !owners {
            next = context.clock.now().checked_add(OWNER_RETRY).ok();
            continue;
        }
        let snapshot = snapshot::take(context, &mut memory);
        let (plan, report) = aerostat_engine::plan(&snapshot, context.clock.now());
        // What has run out is tried again when somebody waits for it.
        let restock = context.provider.next_change().filter(|_| !report.unplaced.is_empty());
        next = plan.next.into_iter().chain(restock).min();
        publish(context, &plan, &report, &published).await;
        let (claims, setback) = execute(context, &plan, &mut memory.refusals).await;
        memory.nominations = remember(&plan, &claims);
        recover(context, setback, &mut failures).await;
        let now = context.clock.now();
        next = next.into_iter().chain(memory.refusals.next(now)).min();
        memory.spared.note(&plan, now);
        for (launch, claim) in plan.launches.iter().zip(&claims) {
            let Some(claim) = claim else { continue };
            let index = context.index();
            launch.pods.iter().for_each(|pod| memory.orders.note(&index, pod, claim, now));
        }
        context.journal().note(now, &plan, &report, &claims, &context.index().pods);
        let idle = plan.launches.is_empty() && plan.terminations.is_empty();
        if let Some(decisions) = &context.decisions
            && !(idle && report == published)
        {
            let at = context.clock.now();
            // Nobody may be listening any more.
            let _ = decisions.send(Decision { at, plan, report: report.clone(), claims });
        }
        published = report;
    }
}

/// Lets a burst come in: waits a while, and on for as long as pods keep coming.
async fn gather(context: &Context) {
    let begun = context.clock.now();
    let waits = context.settings.waits;
    if let Some((idle, most)) = waits.batch {
        return batch(context, idle, most).await;
    }
    if let Some(scan) = waits.scan {
        let step = i128::try_from(scan.as_nanos()).unwrap_or(i128::MAX).max(1);
        let next = (begun.as_nanosecond() / step + 1).saturating_mul(step);
        let next = Timestamp::from_nanosecond(next).unwrap_or(Timestamp::MAX);
        return context.clock.sleep_until(next).await;
    }
    let before = context.index().arrivals;
    loop {
        let window = snapshot::gathering_time(&context.index());
        context.clock.sleep(window).await;
        let now = context.clock.now();
        let (last, came) = {
            let index = context.index();
            (index.last_arrival.unwrap_or(begun), index.arrivals - before)
        };
        let quiet = now.duration_since(last).unsigned_abs() >= window / 2;
        let most = BURST.0 + BURST.1.saturating_mul(u32::try_from(came).unwrap_or(u32::MAX));
        if quiet || now.duration_since(begun).unsigned_abs() >= most.min(LONGEST_BURST) {
            return;
        }
    }
}

/// As Karpenter's batcher: until no pod has come for a while, `most` at the longest.
async fn batch(context: &Context, idle: Duration, most: Duration) {
    let begun = context.clock.now();
    loop {
        context.clock.sleep(idle.min(most)).await;
        let now = context.clock.now();
        let last = context.index().last_arrival.unwrap_or(begun);
        let is_quiet = now.duration_since(last).unsigned_abs() >= idle;
        if is_quiet || now.duration_since(begun).unsigned_abs() >= most {
            return;
        }
    }
}

/// Where the plan puts each pod, for the next plan to keep to.
fn remember(plan: &Plan, claims: &[Option<String>]) -> Nominations {
    let mut nominations = Nominations::new();
    for (launch, claim) in plan.launches.iter().zip(claims) {
        let Some(claim) = claim else { continue };
        let target = Target::Claim(claim.clone());
        nominations.extend(launch.pods.iter().map(|pod| (pod.clone(), target.clone())));
    }
    for Nomination { pod, claim, node } in plan.nominations.iter().chain(&plan.moves) {
        let target = match (claim, node) {
            (Some(claim), _) => Target::Claim(claim.clone()),
            (None, Some(node)) => Target::Node(node.clone()),
            (None, None) => continue,
        };
        nominations.insert(pod.clone(), target);
    }
    nominations
}

async fn sleep_until(context: &Context, when: Option<Timestamp>) {
    match when {
        Some(when) => context.clock.sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// What kept a plan from being carried out as a whole, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Setback {
    /// Nothing, or what was refused for good: that is tried again later, everything else goes on.
    None,
    /// The server has no time.
    Busy,
    /// A claim may have been created, and nobody knows of it.
    InDoubt,
}

/// Creates and deletes claims; returns the names of those created, in the plan's order, and what
/// went wrong.
async fn execute(
    context: &Context,
    plan: &Plan,
    refusals: &mut Refusals,
) -> (Vec<Option<String>>, Setback) {
    // Boxed, so that the compiler sees one lifetime for all.
    let launches: Vec<BoxFuture<'_, kube::Result<String>>> =
        plan.launches.iter().map(|launch| create(context, launch).boxed()).collect();
    let created: Vec<_> = stream::iter(launches).buffered(CONCURRENCY).collect().await;
    let mut setback = Setback::None;
    for (launch, created) in plan.launches.iter().zip(&created) {
        let subject = Subject::Pool(launch.pool.clone());
        match created {
            Ok(_) => refusals.forget(&subject),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                // Whoever says no has done nothing.
                if matches!(status.code, 409 | 429) {
                    setback = setback.max(Setback::Busy);
                } else {
                    refusals.note(subject, status.message.clone(), context.clock.now());
                }
            }
            // A server that failed may have.
            Err(_) => setback = Setback::InDoubt,
        }
    }
    marking::carry_out(context, plan, refusals).await;
    for termination in &plan.terminations {
        let subject = Subject::Claim(termination.claim.clone());
        if refusals.why(&subject, context.clock.now()).is_some() {
            continue;
        }
        match delete(context, termination).await {
            Ok(()) => refusals.forget(&subject),
            Err(error) => {
                tracing::warn!(claim = %termination.claim, %error, "claim could not be deleted");
                refusals.note(subject, error.to_string(), context.clock.now());
            }
        }
    }
    for nomination in &plan.nominations {
        nominate(context, nomination).await;
    }
    (created.into_iter().map(Result::ok).collect(), setback)
}

/// After a plan of which nobody knows whether it was carried out, or that the server had no time for,
/// waits a while, longer each time, and wakes the next one. If a claim may have been created, it first asks which there are: what is not known
/// would be ordered again.
async fn recover(context: &Context, setback: Setback, failures: &mut u32) {
    if setback == Setback::None {
        *failures = 0;
        return;
    }
    loop {
        let wait = BACKOFF.0.saturating_mul(1 << (*failures).min(10)).min(BACKOFF.1);
        *failures += 1;
        context.clock.sleep(wait).await;
        if setback == Setback::Busy {
            break;
        }
        match Api::<NodeClaim>::all(context.client.clone()).list(&ListParams::default()).await {
            Ok(claims) => {
                let mut index = context.index();
                claims.items.into_iter().for_each(|claim| index.claims.learn(claim));
                break;
            }
            Err(error) => tracing::warn!(%error, "claims could not be listed; will try again"),
        }
    }
    context.changed();
}

/// Creates a claim; returns its name.
async fn create(context: &Context, launch: &Launch) -> kube::Result<String> {
    let api = Api::<NodeClaim>::all(context.client.clone());
    match api.create(&PostParams::default(), &claim_for(launch)).await {
        Ok(claim) => {
            let name = claim.name_any();
            tracing::info!(%name, pool = %launch.pool, pods = launch.pods.len(), "created nodeclaim");
            context.index().claims.learn(claim);
            for pod in &launch.pods {
                let message = format!("Pod should schedule on: nodeclaim/{name}");
                note_pod(context, pod, Note::normal("Nominated", message)).await;
            }
            Ok(name)
        }
        Err(error) => {
            tracing::warn!(pool = %launch.pool, %error, "claim could not be created");
            Err(error)
        }
    }
}

fn claim_for(launch: &Launch) -> NodeClaim {
    let spec = NodeClaimSpec {
        taints: (!launch.taints.is_empty()).then(|| launch.taints.clone()),
        startup_taints: (!launch.startup_taints.is_empty()).then(|| launch.startup_taints.clone()),
        requirements: launch.requirements.to_vec(),
        resources: Some(aerostat_api::nodeclaim::ClaimResources {
            requests: launch.requests.clone(),
        }),
        node_class_ref: launch.class.clone(),
        termination_grace_period: launch.termination_grace,
        expire_after: launch.expire_after.clone(),
    };
    let owner = OwnerReference {
        api_version: aerostat_api::NodePool::api_version(&()).into_owned(),
        kind: aerostat_api::NodePool::kind(&()).into_owned(),
        name: launch.pool.clone(),
        uid: launch.pool_uid.clone(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", launch.pool)),
            labels: Some(launch.labels.clone()),
            annotations: Some(launch.annotations.clone()),
            finalizers: Some(vec![labels::TERMINATION_FINALIZER.to_owned()]),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

async fn delete(context: &Context, termination: &Termination) -> Result<(), Error> {
    let api = Api::<NodeClaim>::all(context.client.clone());
    let Some(claim) = context.index().claims.get(&termination.claim) else { return Ok(()) };
    let about = |message: String| Note::normal("DisruptionTerminating", message);
    let reason = &termination.reason;
    let message = format!("Disrupting NodeClaim: {reason}");
    context.recorder.publish(claim.object_ref(&()), about(message)).await;
    if let Some(node) = termination.node.as_ref().and_then(|name| context.index().nodes.get(name)) {
        let message = format!("Disrupting Node: {reason}");
        context.recorder.publish(node.object_ref(&()), about(message)).await;
    }
    let preconditions = Preconditions { uid: claim.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    gone_is_fine(api.delete(&termination.claim, &params).await)?;
    // Known at once: the next plan must not count on it.
    if let Ok(claim) = api.get(&termination.claim).await {
        context.index().claims.learn(claim);
    }
    Ok(())
}

async fn nominate(context: &Context, nomination: &Nomination) {
    let claim = nomination.claim.iter().map(|claim| format!("nodeclaim/{claim}"));
    let node = nomination.node.iter().map(|node| format!("node/{node}"));
    let target = claim.chain(node).collect::<Vec<_>>().join(", ");
    let note = Note::normal("Nominated", format!("Pod should schedule on: {target}"));
    note_pod(context, &nomination.pod, note).await;
}

/// Says what the report has to say to the owners of pods and pools.
async fn publish(context: &Context, plan: &Plan, report: &Report, published: &Report) {
    let five_minutes = Duration::from_secs(300);
    for Unplaced { pod, message, .. } in &report.unplaced {
        let message = format!("Failed to schedule pod, {message}");
        let note = Note::warning("FailedScheduling", message).quiet_for(five_minutes);
        note_pod(context, pod, note).await;
    }
    let unreadable: Vec<_> = context.index().unreadable.clone().into_iter().collect();
    for (pod, error) in unreadable {
        let message = format!("Failed to schedule pod, it cannot be read: {error}");
        let note = Note::warning("FailedScheduling", message).quiet_for(five_minutes);
        note_pod(context, &pod, note).await;
    }
    for Misread { pod, message } in report.misread.iter().filter(|m| !published.misread.contains(m))
    {
        let note = Note::warning("InvalidPodMoveAnnotation", message.clone());
        note_pod(context, pod, note.quiet_for(Duration::from_secs(3600))).await;
    }
    // What is as before has been said.
    let news = report.pools.iter().filter(|problem| !published.pools.contains(problem));
    for PoolProblem { pool, reason, message } in news {
        let Some(pool) = context.index().pools.get(pool) else { continue };
        let note = Note::warning(reason_of(reason), message.clone());
        let note = note.quiet_for(Duration::from_secs(60));
        context.recorder.publish(pool.object_ref(&()), note).await;
    }
    let news = report.left_out.iter().filter(|left| !published.left_out.contains(left));
    for LeftOut { what, why } in news {
        tracing::warn!(%what, %why, "left out of the plan");
    }
    marking::tell(context, report, published).await;
    tracing::debug!(launches = plan.launches.len(), unplaced = report.unplaced.len(), "planned");
}

/// Event reasons are fixed words: the report's, as far as they are known.
fn reason_of(reason: &str) -> &'static str {
    match reason {
        "NoCompatibleInstanceTypes" => "NoCompatibleInstanceTypes",
        "DisruptionBlocked" => "DisruptionBlocked",
        _ => "NotSupported",
    }
}

async fn note_pod(context: &Context, key: &PodKey, note: Note) {
    let uid = context.index().pods.get(key).map(|pod| pod.uid.clone());
    let regarding = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(key.0.clone()),
        name: Some(key.1.clone()),
        uid,
        ..ObjectReference::default()
    };
    context.recorder.publish(regarding, note).await;
}
