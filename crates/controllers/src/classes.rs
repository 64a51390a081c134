//! NodeClasses: readiness.
//!
//! The simulated provider has no subnets, security groups or instance profiles to look up: a class
//! that the API server has taken is ready.

use aerostat_api::NodeClass;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::conditions::ConditionSet;
use crate::context::Context;
use crate::worklist::{self, Outcome};

/// What `Ready` depends on.
const DEPENDENTS: &[&str] = &["SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady"];

/// Reconciles classes until dropped.
pub async fn run(context: &Context, triggers: UnboundedReceiver<String>) {
    worklist::run("nodeclass", context.clock, triggers, |name| reconcile(context, name)).await;
}

async fn reconcile(context: &Context, name: String) -> Outcome {
    let Some(class) = context.index().classes.get(&name) else { return Ok(None) };
    let created = class.creation_timestamp().map_or_else(|| context.clock.now(), |time| time.0);
    let mut status = class.status.clone().unwrap_or_default();
    let generation = class.metadata.generation;
    let now = context.clock.now();
    let mut conditions =
        ConditionSet::new(&status.conditions, DEPENDENTS, generation, created, now);
    for dependent in DEPENDENTS {
        conditions.set_true(dependent);
    }
    status.conditions = conditions.finish();
    if class.status.as_ref() != Some(&status) {
        let api = Api::<NodeClass>::all(context.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        let class = api.patch_status(&name, &PatchParams::default(), &patch).await?;
        context.index().classes.learn(class);
    }
    Ok(None)
}
