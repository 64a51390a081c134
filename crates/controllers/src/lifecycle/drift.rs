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
        let kind = context.provider.class_kind();
        let class = index.class_of(kind, &work.claim.spec.node_class_ref);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2025-01-06T10:00:00Z";

    fn claim(created: &str, capacity_type: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": "one", "creationTimestamp": created,
                "labels": {
                    labels::INSTANCE_TYPE: "m.large", labels::ZONE: "a",
                    labels::CAPACITY_TYPE: capacity_type, "team": "red",
                },
                "annotations": {labels::NODEPOOL_HASH: "1", labels::NODEPOOL_HASH_VERSION: "v3"},
            },
            "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": []},
        }))
        .unwrap()
    }

    fn pool(hash: &str, version: &str, requirements: serde_json::Value) -> NodePool {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "p", "annotations": {
                labels::NODEPOOL_HASH: hash, labels::NODEPOOL_HASH_VERSION: version,
            }},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
                "requirements": requirements,
            }}},
        }))
        .unwrap()
    }

    fn types(offerings: &[(&str, &str)]) -> Vec<InstanceType> {
        let offering = |(zone, capacity_type): &(&str, &str)| Offering {
            zone: (*zone).to_owned(),
            capacity_type: (*capacity_type).to_owned(),
            price: 1.0,
            available: false,
            reservation: None,
        };
        vec![InstanceType {
            name: "m.large".to_owned(),
            labels: Default::default(),
            offerings: offerings.iter().map(offering).collect(),
            capacity: Default::default(),
            allocatable: Default::default(),
        }]
    }

    fn reason(claim: &NodeClaim, pool: &NodePool, types: &[InstanceType]) -> Option<&'static str> {
        drifted(claim, pool, Some(types), NOW.parse().unwrap())
    }

    #[test]
    fn hashes_of_different_versions_are_not_compared() {
        let claim = claim(NOW, "spot");
        let sold = types(&[("a", "spot")]);
        let reason = |hash, version| reason(&claim, &pool(hash, version, json!([])), &sold);
        assert_eq!(reason("1", "v3"), None);
        assert_eq!(reason("2", "v3"), Some("NodePoolDrifted"));
        assert_eq!(reason("2", "v4"), None);
    }

    #[test]
    fn requirements_are_strict_about_labels_that_are_missing() {
        let claim = claim(NOW, "spot");
        let sold = types(&[("a", "spot")]);
        let reason = |key, operator, values: serde_json::Value| {
            let list = json!([{"key": key, "operator": operator, "values": values}]);
            reason(&claim, &pool("1", "v3", list), &sold)
        };
        let drifted = Some("RequirementsDrifted");
        assert_eq!(reason("team", "In", json!(["red", "blue"])), None);
        assert_eq!(reason("team", "In", json!(["blue"])), drifted);
        assert_eq!(reason("team", "DoesNotExist", json!([])), drifted);
        assert_eq!(reason("kubernetes.io/arch", "In", json!(["amd64"])), drifted);
        assert_eq!(reason("kubernetes.io/arch", "NotIn", json!(["amd64"])), None);
    }

    #[test]
    fn a_type_is_missed_after_an_hour_wherever_it_is_still_sold() {
        let pool = pool("1", "v3", json!([]));
        let missed = Some("InstanceTypeNotFound");
        let old = "2025-01-06T09:00:00Z";
        let spot = claim(old, "spot");
        assert_eq!(
            reason(&spot, &pool, &types(&[("a", "spot")])),
            None,
            "out of stock is no drift"
        );
        assert_eq!(reason(&spot, &pool, &types(&[("b", "spot"), ("a", "on-demand")])), missed);
        assert_eq!(reason(&spot, &pool, &[]), missed);
        assert_eq!(reason(&claim("2025-01-06T09:00:01Z", "spot"), &pool, &[]), None, "too young");
        let reserved = claim(old, "reserved");
        assert_eq!(reason(&reserved, &pool, &types(&[("a", "on-demand")])), None);
        assert_eq!(reason(&reserved, &pool, &types(&[("a", "spot")])), missed);
    }
}
