//! Whether a claim is what its pool would order today: the condition `Drifted`.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/nodeclaim/disruption/drift.go`.

use std::collections::BTreeSet;
use std::time::Duration;

use aerostat_api::requirements::Requirements;
use aerostat_api::{NodeClaim, NodePool, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::Work;
use crate::context::{Context, Error};
use crate::market;

const CONDITION: &str = "Drifted";
/// How old a claim must be before its instance type may be missed: catalogs come and go.
const SETTLED: SignedDuration = SignedDuration::from_hours(1);
/// How often to look whether the instance type is still for sale. Changes of pool and class are
/// heard of at once.
const RECHECK: Duration = Duration::from_secs(30 * 60);

/// Sets or removes the condition; returns when to look again.
pub(super) async fn detect(context: &Context, work: &mut Work) -> Result<Duration, Error> {
    let (pool, class, types) = {
        let index = context.index();
        let pool = work.claim.labels().get(labels::NODEPOOL).and_then(|name| index.pools.get(name));
        let class = index.class_of(&work.claim.spec.node_class_ref);
        let market = context.market(&index);
        let types = market::of_claim(&market, &*context.provider, &index, &work.claim);
        (pool, class, types)
    };
    let now = context.clock.now();
    let mut reason = pool.and_then(|pool| {
        // A catalog that cannot be read says nothing about one type.
        let types = types.as_ref().ok().map(|types| types.as_slice());
        drifted(&work.claim, &pool, types, now)
    });
    if reason.is_none() {
        reason = context.provider.is_drifted(&work.claim, class.as_deref()).await?;
    }
    match reason {
        Some(reason) => work.conditions.set(CONDITION, "True", reason, reason),
        None => work.conditions.clear(CONDITION),
    }
    Ok(RECHECK)
}

/// Why the pool would order something else, in Karpenter's order and words.
fn drifted(
    claim: &NodeClaim,
    pool: &NodePool,
    types: Option<&[InstanceType]>,
    now: Timestamp,
) -> Option<&'static str> {
    if hash_differs(claim, pool) {
        return Some("NodePoolDrifted");
    }
    let is = Requirements::from_labels(claim.labels());
    // Requirements that cannot be read are the pool's problem, not the node's.
    let wanted = Requirements::from_pool(&pool.spec.template.spec.requirements).ok();
    if wanted.is_some_and(|wanted| is.compatible(&wanted, &BTreeSet::new()).is_err()) {
        return Some("RequirementsDrifted");
    }
    let settled = claim.creation_timestamp().is_some_and(|at| now.duration_since(at.0) >= SETTLED);
    if settled && types.is_some_and(|types| !is_sold(claim, types)) {
        return Some("InstanceTypeNotFound");
    }
    None
}

/// Whether the pool's template has changed since the claim was made, as far as the two hashes can
/// be compared.
fn hash_differs(claim: &NodeClaim, pool: &NodePool) -> bool {
    let stamps = |annotations: &std::collections::BTreeMap<String, String>| {
        let hash = annotations.get(labels::NODEPOOL_HASH)?.clone();
        let version = annotations.get(labels::NODEPOOL_HASH_VERSION)?.clone();
        Some((version, hash))
    };
    match (stamps(claim.annotations()), stamps(pool.annotations())) {
        (Some((version, hash)), Some((current, wanted))) => version == current && hash != wanted,
        _ => false,
    }
}

/// Whether machines like this are still for sale, in stock or not. What was reserved may have been
/// given back: then the same on demand will do.
fn is_sold(claim: &NodeClaim, types: &[InstanceType]) -> bool {
    let label = |key: &str| claim.labels().get(key);
    let Some(name) = label(labels::INSTANCE_TYPE) else { return false };
    let found = types.binary_search_by(|kind| kind.name.cmp(name));
    let Ok(kind) = found.map(|at| &types[at]) else { return false };
    kind.offerings.iter().any(|Offering { zone, capacity_type, .. }| {
        let on_demand = capacity_type == "on-demand";
        let capacity = label(labels::CAPACITY_TYPE)
            .is_none_or(|mine| mine == capacity_type || mine == "reserved" && on_demand);
        label(labels::ZONE).is_none_or(|mine| mine == zone) && capacity
    })
}
