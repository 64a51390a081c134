//! NodeClasses: readiness.
//!
//! The simulated provider has no subnets, security groups or instance profiles to look up: a class
//! that the API server has taken is ready. Where the classes' own definition says so already, nothing
//! is written.

use std::time::Duration;

use aerostat_api::Class;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::conditions::ConditionSet;
use crate::context::{Context, gone_is_fine};
use crate::worklist::{self, Outcome};

/// How soon a deleted class that is in use is looked at again.
const POLL: Duration = Duration::from_secs(5);

/// Reconciles classes until dropped.
pub async fn run(context: &Context, triggers: UnboundedReceiver<String>) {
    worklist::run("nodeclass", context.clock, triggers, |name| reconcile(context, name)).await;
}

async fn reconcile(context: &Context, name: String) -> Outcome {
    let Some(class) = context.index().classes.get(&name) else { return Ok(None) };
    if class.metadata.deletion_timestamp.is_some() {
        return end(context, &class).await;
    }
    let Some(dependents) = context.provider.class_conditions() else { return Ok(None) };
    let created = class.creation_timestamp().map_or_else(|| context.clock.now(), |time| time.0);
    let mut status = class.status.clone().unwrap_or_default();
    let generation = class.metadata.generation;
    let now = context.clock.now();
    let mut conditions =
        ConditionSet::new(&status.conditions, dependents, generation, created, now);
    for dependent in dependents {
        conditions.set_true(dependent);
    }
    status.conditions = conditions.finish();
    if class.status.as_ref() != Some(&status) {
        let api = Api::<Class>::all_with(context.client.clone(), context.provider.class_kind());
        let patch = Patch::Merge(json!({ "status": status }));
        let class = api.patch_status(&name, &PatchParams::default(), &patch).await?;
        context.index().classes.learn(class);
    }
    Ok(None)
}

/// Lets a deleted class go once no claim uses it.
async fn end(context: &Context, class: &Class) -> Outcome {
    let name = class.name_any();
    let kind = context.provider.class_kind();
    // What keeps a class while claims use it.
    let finalizer = format!("{}/termination", kind.group);
    let used = context.index().claims.values().any(|claim| {
        let reference = &claim.spec.node_class_ref;
        kind.is_meant_by(reference) && reference.name == name
    });
    if used {
        return Ok(Some(POLL));
    }
    let rest: Vec<_> = class.finalizers().iter().filter(|f| **f != finalizer).collect();
    if rest.len() < class.finalizers().len() {
        let patch = json!({"metadata": {
            "finalizers": rest,
            "resourceVersion": class.metadata.resource_version,
        }});
        let api = Api::<Class>::all_with(context.client.clone(), kind);
        let patch = Patch::Merge(patch);
        gone_is_fine(api.patch(&name, &PatchParams::default(), &patch).await)?;
    }
    Ok(None)
}
