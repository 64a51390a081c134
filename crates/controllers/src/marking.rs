//! Marks machines as disrupted, takes the mark away, rolls commands back, and says why others stay.
//!
//! The mark is the taint `karpenter.sh/disrupted` on the Node and the condition `DisruptionReason`
//! on the claim. It is only a mark: what becomes of a machine is decided anew by every plan.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/disruption/queue.go`,
//! `pkg/controllers/state/statenode.go`.

use std::collections::BTreeSet;
use std::time::Duration;

use aerostat_api::{Condition, NodeClaim, labels};
use aerostat_engine::plan::{Marking, Plan, Rollback};
use aerostat_engine::report::{Blocker, Kept, Report};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::context::{Context, Error, gone_is_fine};
use crate::drain::disrupted;
use crate::recorder::Note;
use crate::refusals::{Refusals, Subject};

/// The condition of a claim that is about to go.
const CONDITION: &str = "DisruptionReason";
/// How long it is not said again why a machine stays.
const QUIET: Duration = Duration::from_secs(900);

/// Sets and takes away marks. What fails is tried again later.
pub(crate) async fn carry_out(context: &Context, plan: &Plan, refusals: &mut Refusals) {
    let marks = plan.marks.iter().map(|marking| Write::Mark(marking, true));
    let releases = plan.releases.iter().map(|marking| Write::Mark(marking, false));
    let rollbacks = plan.rollbacks.iter().map(Write::RollBack);
    for write in marks.chain(releases).chain(rollbacks) {
        let (Write::Mark(Marking { claim, .. }, _) | Write::RollBack(Rollback { claim, .. })) =
            write;
        let subject = Subject::Claim(claim.clone());
        if refusals.why(&subject, context.clock.now()).is_some() {
            continue;
        }
        let done = match write {
            Write::Mark(marking, is_set) => mark(context, marking, is_set).await,
            Write::RollBack(_) => roll_back(context, claim).await,
        };
        match done {
            Ok(()) => refusals.forget(&subject),
            Err(error) => {
                tracing::warn!(%claim, %error, "claim could not be marked");
                refusals.note(subject, error.to_string(), context.clock.now());
            }
        }
    }
}

/// What is written on a claim and its node.
enum Write<'a> {
    Mark(&'a Marking, bool),
    RollBack(&'a Rollback),
}

/// The claim takes nobody's place any more.
async fn roll_back(context: &Context, claim: &str) -> Result<(), Error> {
    let api = Api::<NodeClaim>::all(context.client.clone());
    let none = json!({labels::REPLACES: null, labels::REPLACES_BECAUSE: null});
    let patch = Patch::Merge(json!({"metadata": {"annotations": none}}));
    let patched = api.patch(claim, &PatchParams::default(), &patch).await;
    if let Ok(claim) = &patched {
        context.index().claims.learn(claim.clone());
    }
    gone_is_fine(patched)
}

async fn mark(context: &Context, marking: &Marking, is_set: bool) -> Result<(), Error> {
    let node = marking.node.as_ref().and_then(|name| context.index().nodes.get(name));
    let claim = context.index().claims.get(&marking.claim);
    let (Some(node), Some(claim)) = (node, claim) else { return Ok(()) };
    // The taint comes last: with it, nothing is left to be done.
    note_reason(context, &claim, marking, is_set).await?;
    let mut marked = Node::clone(&node);
    let taints = marked.spec.get_or_insert_default().taints.get_or_insert_default();
    let is_mark = |taint: &Taint| taint.key == labels::DISRUPTED_TAINT;
    match (is_set, taints.iter().any(is_mark)) {
        (true, false) => taints.push(disrupted()),
        (false, true) => taints.retain(|taint| !is_mark(taint)),
        _ => {}
    }
    if marked.spec != node.spec {
        let api = Api::<Node>::all(context.client.clone());
        // By the version that was seen: somebody else's taints are not lost.
        let node = api.replace(&node.name_any(), &PostParams::default(), &marked).await?;
        context.index().nodes.learn(node);
    }
    if is_set {
        let text = "Waiting on readiness to continue disruption".to_owned();
        let note = Note::normal("DisruptionWaitingReadiness", text);
        context.recorder.publish(claim.object_ref(&()), note).await;
    }
    Ok(())
}

/// Sets the claim's condition, or takes it away.
async fn note_reason(
    context: &Context,
    claim: &NodeClaim,
    marking: &Marking,
    is_set: bool,
) -> Result<(), Error> {
    let mut conditions = claim.status.clone().unwrap_or_default().conditions;
    let known = conditions.iter().position(|condition| condition.type_ == CONDITION);
    let known = known.map(|at| conditions.remove(at));
    if is_set {
        let (status, reason) = ("True".to_owned(), marking.reason.clone());
        if known.as_ref().is_some_and(|old| old.status == status && old.reason == reason) {
            return Ok(());
        }
        let condition = Condition {
            type_: CONDITION.to_owned(),
            status,
            message: reason.clone(),
            reason,
            last_transition_time: Time(context.clock.now()),
            observed_generation: claim.metadata.generation,
        };
        // The root condition stays the last.
        conditions.insert(conditions.len().saturating_sub(1), condition);
    } else if known.is_none() {
        return Ok(());
    }
    let api = Api::<NodeClaim>::all(context.client.clone());
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": {"conditions": conditions},
    }));
    let claim = api.patch_status(&claim.name_any(), &PatchParams::default(), &patch).await?;
    context.index().claims.learn(claim);
    Ok(())
}

/// Says why machines stay, where that is news.
pub(crate) async fn tell(context: &Context, report: &Report, published: &Report) {
    let known: BTreeSet<(&str, String)> =
        published.kept.iter().map(|kept| (kept.claim.as_str(), kept.blocker.to_string())).collect();
    for Kept { claim, blocker, .. } in &report.kept {
        let text = blocker.to_string();
        // A machine that pods are on their way to is in use; that passes by itself.
        if *blocker == Blocker::Nominated || known.contains(&(claim.as_str(), text.clone())) {
            continue;
        }
        let Some(claim) = context.index().claims.get(claim) else { continue };
        let reason =
            if blocker.is_about_price() { "Unconsolidatable" } else { "DisruptionBlocked" };
        let node = claim.status.as_ref().and_then(|status| status.node_name.clone());
        let note = || Note::normal(reason, capitalized(&text)).quiet_for(QUIET);
        context.recorder.publish(claim.object_ref(&()), note()).await;
        if let Some(node) = node.and_then(|node| context.index().nodes.get(&node)) {
            context.recorder.publish(node.object_ref(&()), note()).await;
        }
    }
}

/// The first letter upper case, as Karpenter publishes it.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}
