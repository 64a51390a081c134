//! The provider launches the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{Class, NodeClaim};
use aerostat_provider::{Instance, ProviderError};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::Work;
use super::deletion::Cause;
use crate::context::{Context, Error};
use crate::market;
use crate::recorder::Note;

/// Longest text of a provider's error that is shown to users, in characters.
const MAX_MESSAGE: usize = 300;

pub(super) enum Launched {
    Yes,
    /// The claim cannot be served and was deleted; its pods are planned for anew.
    GivenUp,
}

/// Launches the machine. The provider makes this idempotent by the claim's UID: after a crash
/// between launch and status it hands out the same machine again.
pub(super) async fn launch(context: &Context, work: &mut Work) -> Result<Launched, Error> {
    let claim = work.claim.clone();
    let (types, class) = {
        let index = context.index();
        let market = context.market(&index);
        let types = market::of_claim(&market, &*context.provider, &index, &claim);
        let kind = context.provider.class_kind();
        (types, index.class_of(kind, &claim.spec.node_class_ref))
    };
    let class = match class {
        Some(class) => Some(class),
        // The watch of classes may be behind that of claims.
        None => look_up(context, &claim).await?,
    };
    let launched = match (usable(context, &claim, class.as_deref()), &types) {
        (Err(error), _) => Err(error),
        (Ok(()), Err(error)) => Err(error.clone()),
        (Ok(()), Ok(types)) => context.provider.create(&claim, class.as_deref(), types).await,
    };
    match launched {
        Ok(instance) => {
            work.claim = hydrate(context, &claim, &instance).await?;
            work.status.provider_id = Some(instance.provider_id);
            work.status.image_id = instance.image_id;
            work.status.capacity = Some(instance.capacity);
            work.status.allocatable = Some(instance.allocatable);
            work.conditions.set_true("Launched");
            Ok(Launched::Yes)
        }
        Err(error @ (ProviderError::InsufficientCapacity(_) | ProviderError::ClassNotReady(_))) => {
            let (reason, cause) = match error {
                ProviderError::InsufficientCapacity(_) => {
                    ("InsufficientCapacityError", Cause::InsufficientCapacity)
                }
                _ => ("NodeClassNotReady", Cause::ClassNotReady),
            };
            let message = format!("NodeClaim {} event: {}", claim.name_any(), shorten(&error));
            context.recorder.publish(claim.object_ref(&()), Note::warning(reason, message)).await;
            super::delete(context, &claim, cause).await?;
            Ok(Launched::GivenUp)
        }
        Err(error) => {
            work.conditions.set("Launched", "Unknown", "LaunchFailed", &shorten(&error));
            let unsaved = Work {
                claim: work.claim.clone(),
                conditions: work.conditions.clone(),
                status: work.status.clone(),
            };
            super::save(context, unsaved).await?;
            Err(error.into())
        }
    }
}

fn shorten(error: &ProviderError) -> String {
    let text = error.to_string();
    if text.chars().count() <= MAX_MESSAGE {
        return text;
    }
    text.chars().take(MAX_MESSAGE).chain("...".chars()).collect()
}

/// The claim's class, if it is of the provider's kind and there.
async fn look_up(context: &Context, claim: &NodeClaim) -> Result<Option<Arc<Class>>, Error> {
    let kind = context.provider.class_kind();
    let reference = &claim.spec.node_class_ref;
    if !kind.is_meant_by(reference) {
        return Ok(None);
    }
    let api = Api::<Class>::all_with(context.client.clone(), kind);
    Ok(api.get_opt(&reference.name).await?.map(Arc::new))
}

/// Whether the claim's class is there and has nothing against a launch. One whose provider has not
/// looked at it yet is taken as it is: the provider knows better.
///
/// Source: kubernetes-sigs/karpenter `kwok/cloudprovider/cloudprovider.go`.
fn usable(
    context: &Context,
    claim: &NodeClaim,
    class: Option<&Class>,
) -> Result<(), ProviderError> {
    let kind = context.provider.class_kind();
    let reference = &claim.spec.node_class_ref;
    if !kind.is_meant_by(reference) {
        // The provider says what it knows.
        return Ok(());
    }
    let Some(class) = class else {
        let why = format!("{} {:?} is not there", kind.kind, reference.name);
        return Err(ProviderError::ClassNotReady(why));
    };
    let conditions = class.status.iter().flat_map(|status| &status.conditions);
    match conditions.into_iter().find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "False" => {
            let why = format!("{} {:?} is not ready: {}", kind.kind, reference.name, ready.message);
            Err(ProviderError::ClassNotReady(why))
        }
        _ => Ok(()),
    }
}

/// What is known of the machine goes onto the claim: its labels, single values that the claim asks
/// for, and what the provider wants to be remembered. The claim's own labels win.
async fn hydrate(
    context: &Context,
    claim: &NodeClaim,
    instance: &Instance,
) -> Result<Arc<NodeClaim>, Error> {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for requirement in &claim.spec.requirements {
        if let ("In", [value]) = (requirement.operator.as_str(), requirement.values.as_slice()) {
            labels.insert(requirement.key.clone(), value.clone());
        }
    }
    labels.extend(instance.labels.clone());
    labels.extend(claim.labels().clone());
    let metadata = json!({"labels": labels, "annotations": instance.annotations});
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let api = Api::<NodeClaim>::all(context.client.clone());
    let claim = api.patch(&claim.name_any(), &PatchParams::default(), &patch).await?;
    context.index().claims.learn(claim.clone());
    Ok(Arc::new(claim))
}

/// How long a launch may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5 * 60);
