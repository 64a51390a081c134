//! The provider launches the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{NodeClaim, NodeClass, hash, labels};
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
        (types, index.class_of(&claim.spec.node_class_ref))
    };
    let launched = match &types {
        Ok(types) => context.provider.create(&claim, types).await,
        Err(error) => Err(error.clone()),
    };
    match launched {
        Ok(instance) => {
            work.claim = hydrate(context, &claim, &instance, class.as_deref()).await?;
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

/// Labels of the machine go onto the claim; the claim's own win. So does the hash of the class that
/// it was launched with.
async fn hydrate(
    context: &Context,
    claim: &NodeClaim,
    instance: &Instance,
    class: Option<&NodeClass>,
) -> Result<Arc<NodeClaim>, Error> {
    let mut labels = instance.labels.clone();
    labels.extend(claim.labels().clone());
    let stamps = class.map(|class| {
        BTreeMap::from([
            (labels::NODECLASS_HASH, hash::nodeclass_hash(&class.spec)),
            (labels::NODECLASS_HASH_VERSION, hash::NODECLASS_VERSION.to_owned()),
        ])
    });
    let metadata = json!({"labels": labels, "annotations": stamps.unwrap_or_default()});
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let api = Api::<NodeClaim>::all(context.client.clone());
    let claim = api.patch(&claim.name_any(), &PatchParams::default(), &patch).await?;
    context.index().claims.learn(claim.clone());
    Ok(Arc::new(claim))
}

/// How long a launch may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5 * 60);
