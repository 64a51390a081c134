//! NodePools: hash annotation, validation, readiness, counters.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodepool/`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{Class, NodeClaim, NodePool, Quantity, hash, labels};
use aerostat_engine::budgets::{self, Closed};
use aerostat_engine::cost;
use aerostat_engine::resources::Resources;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::conditions::{ConditionSet, is_true};
use crate::context::{Context, Error, gone_is_fine};
use crate::registration_health::Verdict;
use crate::worklist::{self, Outcome};

/// What `Ready` depends on.
const DEPENDENTS: &[&str] = &["ValidationSucceeded", "NodeClassReady"];
/// Resources that a pool's counter always shows.
const COUNTED: &[&str] = &["cpu", "ephemeral-storage", "memory", "nodes", "pods"];

/// Reconciles pools until dropped.
pub async fn run(context: &Context, triggers: UnboundedReceiver<String>) {
    worklist::run("nodepool", context.clock, triggers, |name| reconcile(context, name)).await;
}

async fn reconcile(context: &Context, name: String) -> Outcome {
    if !context.index().is_synced() {
        // Counters and readiness need everything; the last list to end does not name pools.
        return Ok(Some(Duration::from_millis(10)));
    }
    let Some(pool) = context.index().pools.get(&name) else { return Ok(None) };
    let pool = stamp_hash(context, pool).await?;
    let created = pool.creation_timestamp().map_or_else(|| context.clock.now(), |time| time.0);
    let mut status = pool.status.clone().unwrap_or_default();
    let mut conditions = ConditionSet::new(
        &status.conditions,
        DEPENDENTS,
        pool.metadata.generation,
        created,
        context.clock.now(),
    );
    match validate(&pool) {
        Ok(()) => conditions.set_true("ValidationSucceeded"),
        Err(why) => {
            conditions.set("ValidationSucceeded", "False", "NodePoolValidationFailed", &why);
        }
    }
    let class = &pool.spec.template.spec.node_class_ref;
    let class = context.index().class_of(context.provider.class_kind(), class);
    class_readiness(&pool, class.as_deref(), &mut conditions);
    let changes = disruption_allowed(&pool, &mut conditions, context.clock.now());
    let class_generation = class.and_then(|class| class.metadata.generation);
    let same_class = status.node_class_observed_generation == class_generation;
    registration_health(context, &pool, same_class, &mut conditions);
    status.node_class_observed_generation = class_generation;
    let (nodes, resources) = count(context, &name);
    status.nodes = Some(nodes);
    status.resources = Some(resources);
    status.conditions = conditions.finish();
    if pool.status.as_ref() != Some(&status) {
        let api = Api::<NodePool>::all(context.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        let written = api.patch_status(&name, &PatchParams::default(), &patch).await?;
        context.index().pools.learn(written);
        // Plans count by themselves.
        let known = pool.status.as_ref().map(|status| &status.conditions);
        if known != Some(&status.conditions) {
            context.changed();
        }
    }
    let left = changes.map(|at| at.duration_since(context.clock.now()).unsigned_abs());
    Ok(left)
}

/// Writes the hash of the template onto the pool; claims carry it on, and drift is told by it.
async fn stamp_hash(context: &Context, pool: Arc<NodePool>) -> Result<Arc<NodePool>, Error> {
    let known = pool.annotations().get(labels::NODEPOOL_HASH_VERSION);
    if known.is_some_and(|version| version != hash::VERSION) {
        restamp_claims(context, &pool).await?;
    }
    let wanted = [
        (labels::NODEPOOL_HASH, hash::nodepool_hash(&pool.spec.template)),
        (labels::NODEPOOL_HASH_VERSION, hash::VERSION.to_owned()),
    ];
    if wanted.iter().all(|(key, value)| pool.annotations().get(*key) == Some(value)) {
        return Ok(pool);
    }
    let annotations: BTreeMap<_, _> = wanted.into_iter().collect();
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let api = Api::<NodePool>::all(context.client.clone());
    let pool = api.patch(&pool.name_any(), &PatchParams::default(), &patch).await?;
    context.index().pools.learn(pool.clone());
    Ok(Arc::new(pool))
}

/// Hashes of another version cannot be compared: the pool's claims get those of this one, as if their
/// templates had not changed meanwhile, but what has drifted stays so.
async fn restamp_claims(context: &Context, pool: &NodePool) -> Result<(), Error> {
    let name = pool.name_any();
    let hash = hash::nodepool_hash(&pool.spec.template);
    let stale = |claim: &&Arc<NodeClaim>| {
        claim.labels().get(labels::NODEPOOL) == Some(&name)
            && claim.annotations().get(labels::NODEPOOL_HASH_VERSION).map(String::as_str)
                != Some(hash::VERSION)
    };
    let claims: Vec<_> = context.index().claims.values().filter(stale).cloned().collect();
    let api = Api::<NodeClaim>::all(context.client.clone());
    for claim in claims {
        let mut stamps = BTreeMap::from([(labels::NODEPOOL_HASH_VERSION, hash::VERSION)]);
        let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice());
        if !is_true(conditions.unwrap_or_default(), "Drifted") {
            stamps.insert(labels::NODEPOOL_HASH, &hash);
        }
        let patch = Patch::Merge(json!({"metadata": {"annotations": stamps}}));
        gone_is_fine(api.patch(&claim.name_any(), &PatchParams::default(), &patch).await)?;
    }
    Ok(())
}

/// What the schema cannot say: duplicate taints, and annotations of our own.
fn validate(pool: &NodePool) -> Result<(), String> {
    cost::spending_limit(pool.annotations())?;
    let spec = &pool.spec.template.spec;
    let mut seen = std::collections::BTreeSet::new();
    for taint in spec.taints.iter().chain(&spec.startup_taints).flatten() {
        if !seen.insert((&taint.key, &taint.effect)) {
            let (key, effect) = (&taint.key, &taint.effect);
            return Err(format!("duplicate taint Key/Effect pair {key}={effect}"));
        }
    }
    Ok(())
}

fn class_readiness(pool: &NodePool, class: Option<&Class>, conditions: &mut ConditionSet) {
    let name = "NodeClassReady";
    let reference = &pool.spec.template.spec.node_class_ref;
    let Some(class) = class else {
        let message = format!(
            "NodeClass not found on cluster: {}.{} {:?}",
            reference.kind, reference.group, reference.name
        );
        conditions.set(name, "False", "NodeClassNotFound", &message);
        return;
    };
    if class.metadata.deletion_timestamp.is_some() {
        conditions.set(name, "False", "NodeClassTerminating", "NodeClass is Terminating");
        return;
    }
    let known = class.status.as_ref().map(|status| status.conditions.as_slice());
    match known.unwrap_or_default().iter().find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => conditions.set_true(name),
        Some(ready) => conditions.set(name, &ready.status, &ready.reason, &ready.message),
        None => {
            let message = "Node Class Readiness Unknown";
            conditions.set(name, "Unknown", "NodeClassReadinessUnknown", message);
        }
    }
}

/// Says whether the pool's machines become nodes, as far as is known since pool or class changed.
fn registration_health(
    context: &Context,
    pool: &NodePool,
    same_class: bool,
    conditions: &mut ConditionSet,
) {
    let name = "NodeRegistrationHealthy";
    let uid = pool.uid().unwrap_or_default();
    let known = pool.status.iter().flat_map(|status| &status.conditions);
    let known = known.into_iter().find(|condition| condition.type_ == name);
    let same_pool =
        known.is_some_and(|known| known.observed_generation == pool.metadata.generation);
    let mut health = context.registration_health();
    if !same_pool || !same_class {
        health.reset(&uid);
        let message = "object is awaiting reconciliation";
        conditions.set(name, "Unknown", "AwaitingReconciliation", message);
        return;
    }
    match health.verdict(&uid, known) {
        Some(Verdict::Healthy) => conditions.set_true(name),
        Some(Verdict::Unhealthy(reason, message)) => {
            conditions.set(name, "False", &reason, &message);
        }
        None => {}
    }
}

/// Says whether the pool's budgets allow disruptions, and until when; returns when that changes.
/// The condition is ours (Karpenter does not tell), so it stands only where budgets forbid something
/// or are about to.
fn disruption_allowed(
    pool: &NodePool,
    conditions: &mut ConditionSet,
    now: Timestamp,
) -> Option<Timestamp> {
    let name = "DisruptionAllowed";
    let zone = pool.annotations().get(labels::BUDGET_TIME_ZONE);
    let budgets = &pool.spec.disruption.budgets;
    let outlook = budgets::outlook(budgets, zone.map(String::as_str), now);
    if !outlook.problems.is_empty() {
        conditions.set(name, "False", "InvalidBudget", &outlook.problems.join("; "));
        return None;
    }
    let mut by_end: BTreeMap<Option<Timestamp>, Vec<&str>> = BTreeMap::new();
    for Closed { reason, until } in &outlook.closed {
        by_end.entry(*until).or_default().push(reason);
    }
    let tell = |(until, reasons): (&Option<Timestamp>, &Vec<&str>)| {
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        format!("{}{until}", reasons.join(", "))
    };
    let closed = by_end.iter().map(tell).collect::<Vec<_>>().join("; ");
    let next = outlook.changes.map(|at| format!("budgets change at {at}")).unwrap_or_default();
    let (status, reason, message) = match outlook.closed.len() {
        0 if next.is_empty() => {
            conditions.clear(name);
            return None;
        }
        0 => ("True", name, next),
        all if all == budgets::REASONS.len() => ("False", "BudgetClosed", closed),
        _ => ("True", "BudgetPartlyClosed", format!("not for {closed}")),
    };
    conditions.set(name, status, reason, &message);
    outlook.changes
}

/// Nodes of a pool that are not on their way out, and what they have.
fn count(context: &Context, pool: &str) -> (i64, BTreeMap<String, Quantity>) {
    let index = context.index();
    let mut sum = Resources::default();
    let mut nodes = 0;
    for claim in index.claims.values() {
        let Some(status) = &claim.status else { continue };
        let mine = claim.labels().get(labels::NODEPOOL).is_some_and(|name| name == pool);
        let counts = is_true(&status.conditions, "Registered");
        if mine && counts && claim.metadata.deletion_timestamp.is_none() {
            nodes += 1;
            sum.add(&Resources::from_quantities(
                status.capacity.as_ref().unwrap_or(&BTreeMap::new()),
            ));
        }
    }
    let mut resources: BTreeMap<String, Quantity> =
        COUNTED.iter().map(|name| ((*name).to_owned(), Quantity::ZERO)).collect();
    resources.extend(sum.quantities());
    resources.insert("nodes".to_owned(), Quantity::from_units(nodes));
    (nodes, resources)
}
