//! NodeOverlays: whether they can be read, and whether they go together.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeoverlay/`.

use aerostat_api::NodeOverlay;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::conditions::ConditionSet;
use crate::context::Context;
use crate::worklist::{self, Outcome};

/// What `Ready` depends on.
const DEPENDENTS: &[&str] = &["ValidationSucceeded"];

/// Reconciles overlays until dropped.
pub async fn run(context: &Context, triggers: UnboundedReceiver<String>) {
    worklist::run("nodeoverlay", context.clock, triggers, |name| reconcile(context, name)).await;
}

async fn reconcile(context: &Context, name: String) -> Outcome {
    let (overlay, verdict) = {
        let index = context.index();
        let Some(overlay) = index.overlays.get(&name) else { return Ok(None) };
        (overlay, context.market(&index).verdict(&name))
    };
    let created = overlay.creation_timestamp().map_or_else(|| context.clock.now(), |time| time.0);
    let mut status = overlay.status.clone().unwrap_or_default();
    let generation = overlay.metadata.generation;
    let now = context.clock.now();
    let mut conditions =
        ConditionSet::new(&status.conditions, DEPENDENTS, generation, created, now);
    match verdict {
        Ok(()) => conditions.set_true("ValidationSucceeded"),
        Err((reason, message)) => {
            conditions.set("ValidationSucceeded", "False", reason, &message);
        }
    }
    status.conditions = conditions.finish();
    if overlay.status.as_ref() != Some(&status) {
        let api = Api::<NodeOverlay>::all(context.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        let overlay = api.patch_status(&name, &PatchParams::default(), &patch).await?;
        context.index().overlays.learn(overlay);
    }
    Ok(None)
}
