//! The index as the engine wants to see it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{Condition, NodeClaim, NodePool, labels};
use aerostat_engine::node::Node;
use aerostat_engine::pod::{Pod, PodKey, Selector};
use aerostat_engine::provisioning::{self, Promised};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Obsolete, Pdb, Pool, Promise, Snapshot, Stage, StateNode};
use aerostat_engine::storage::attach_limits;
use aerostat_engine::{cost, plan};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use crate::conditions::{is_true, true_since};
use crate::context::Context;
use crate::daemons;
use crate::index::Index;
use crate::market::Market;
use crate::orders::Orders;
use crate::refusals::{Refusals, Subject};
use crate::spared::Spared;

/// How long a pod waits for its owner to be known. Creation times have whole seconds.
const OWNER_PATIENCE: SignedDuration = SignedDuration::from_secs(2);

/// Taints that go by themselves while a node starts.
/// Source: kubernetes-sigs/karpenter `pkg/scheduling/taints.go`.
const EPHEMERAL: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    (labels::UNREGISTERED_TAINT, "NoExecute"),
];

/// Whether a taint goes by itself while a node starts.
#[must_use]
pub fn is_ephemeral(taint: &core::Taint) -> bool {
    EPHEMERAL.contains(&(taint.key.as_str(), taint.effect.as_str()))
        || taint.key.starts_with("readiness.k8s.io/")
}

/// Where earlier plans put pods that still wait: on a claim, or on a node that has none.
pub type Nominations = BTreeMap<PodKey, Target>;

/// A claim or a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The name of a claim.
    Claim(String),
    /// The name of a node without a claim.
    Node(String),
}

/// What is carried from one snapshot to the next.
#[derive(Debug, Default)]
pub struct Memory {
    /// Where the last plan put pods that still wait.
    pub nominations: Nominations,
    /// What was ordered for pods that still wait.
    pub(crate) orders: Orders,
    /// What the API server has refused.
    pub(crate) refusals: Refusals,
    /// Machines whose replacement came to nothing.
    pub(crate) spared: Spared,
    /// What claims without a machine promise: to find out takes a look at every type.
    promised: BTreeMap<String, Option<Promised>>,
}

/// What the engine decides on.
#[must_use]
pub fn take(context: &Context, memory: &mut Memory) -> Snapshot {
    let index = context.index();
    let market = context.market(&index);
    let now = context.clock.now();
    memory.refusals.fade(now);
    let mut pools: Vec<Pool> = index.pools.values().map(|pool| pool_of(&market, pool)).collect();
    for pool in pools.iter_mut().filter(|pool| pool.usable.is_ok()) {
        // Its pods may have another one meanwhile.
        let why = memory.refusals.why(&Subject::Pool(pool.name.clone()), now);
        pool.usable = why.map_or(Ok(()), |why| Err(format!("its NodeClaims are refused: {why}")));
    }
    let nodes = state_nodes(&index, &pools, &mut memory.promised);
    // A claim goes by its node's name once it has one.
    let names: BTreeMap<&str, &str> = nodes
        .iter()
        .filter_map(|state| Some((state.claim.as_deref()?, state.node.name.as_str())))
        .collect();
    let nominations = memory.nominations.iter().filter_map(|(pod, target)| {
        let name = match target {
            Target::Claim(claim) => names.get(claim.as_str())?,
            Target::Node(node) => node.as_str(),
        };
        Some((pod.clone(), name.to_owned()))
    });
    Snapshot {
        nominations: nominations.collect(),
        holds: memory.orders.holds(&index, now),
        spared: memory.spared.until(&index, now),
        pods: index.pods.values().cloned().collect(),
        promised: promises(&index),
        nodes,
        namespaces: namespaces(&index),
        pools,
        daemons: daemons::of(&index),
        storage: index.volumes.storage(),
        pdbs: pdbs(&index),
        settings: context.settings.clone(),
    }
}

fn pdbs(index: &Index) -> Vec<Pdb> {
    let pdb = |pdb: Arc<PodDisruptionBudget>| {
        let selector = pdb.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        Pdb {
            namespace: pdb.namespace().unwrap_or_default(),
            name: pdb.name_any(),
            selector: selector.map(Selector::from_k8s),
            // One that its controller has not looked at yet allows nothing.
            allowed: pdb.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0),
        }
    };
    index.pdbs.values().map(|one| pdb(one.clone())).collect()
}

fn namespaces(index: &Index) -> BTreeMap<String, BTreeMap<String, String>> {
    let labels = |namespace: &Arc<core::Namespace>| {
        (namespace.name_any(), namespace.metadata.labels.clone().unwrap_or_default())
    };
    index.namespaces.values().map(labels).collect()
}

fn pool_of(market: &Market, pool: &NodePool) -> Pool {
    let spec = &pool.spec;
    let template = &spec.template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let types = market.of_pool(&pool.name_any()).cloned().unwrap_or_else(|| Ok(Arc::default()));
    let max_price = cost::spending_limit(pool.annotations());
    let move_price = cost::move_price(pool.annotations());
    let usable = if pool.metadata.deletion_timestamp.is_some() {
        Err("it is being deleted".to_owned())
    } else if let Err(error) = &types {
        Err(error.to_string())
    } else if let Err(error) = max_price.as_ref().and(move_price.as_ref()) {
        Err(error.clone())
    } else if pool.status.as_ref().is_some_and(|status| is_true(&status.conditions, "Ready")) {
        Ok(())
    } else {
        Err("it is not ready".to_owned())
    };
    Pool {
        name: pool.name_any(),
        uid: pool.uid().unwrap_or_default(),
        weight: spec.weight.unwrap_or(0),
        usable,
        requirements: template.spec.requirements.clone(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        taints: template.spec.taints.clone().unwrap_or_default(),
        startup_taints: template.spec.startup_taints.clone().unwrap_or_default(),
        class: Some(template.spec.node_class_ref.clone()),
        hash: aerostat_api::hash::nodepool_hash(template),
        limits: spec.limits.clone().unwrap_or_default(),
        max_price: max_price.unwrap_or_default(),
        move_price: move_price.unwrap_or_default(),
        replicas: spec.replicas.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        budgets: spec.disruption.budgets.clone(),
        budget_time_zone: pool.annotations().get(labels::BUDGET_TIME_ZONE).cloned(),
        consolidate_after: spec.disruption.consolidate_after.duration.map(|d| d.0),
        policy: spec.disruption.consolidation_policy.clone(),
        termination_grace: template.spec.termination_grace_period,
        expire_after: template.spec.expire_after.clone(),
        types: types.unwrap_or_default(),
    }
}

/// Pods that ReplicaSets and Jobs still have to create. A sibling that is there shows how they
/// look: without one, nothing is known of what admission makes of them.
fn promises(index: &Index) -> Vec<Promise> {
    let mut promises = Vec::new();
    let mut promise = |uid: Option<&String>, wanted: i32| {
        let Some(keys) = uid.and_then(|uid| index.pods_by_owner.get(uid)) else { return };
        let pods = || keys.iter().filter_map(|key| index.pods.get(key));
        let live = pods().filter(|pod| !pod.deleting).count();
        let missing = usize::try_from(wanted).unwrap_or(0).saturating_sub(live);
        let sibling = pods().find(|pod| pod.node.is_none() && !pod.deleting);
        if let (Ok(count @ 1..), Some(sibling)) = (u32::try_from(missing), sibling) {
            let pod = Pod { uid: String::new(), name: String::new(), ..Pod::clone(sibling) };
            promises.push(Promise { pod: Arc::new(pod), count });
        }
    };
    for set in index.replica_sets.values() {
        if set.metadata.deletion_timestamp.is_none() {
            let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            promise(set.metadata.uid.as_ref(), wanted);
        }
    }
    for job in index.jobs.values() {
        let Some(spec) = &job.spec else { continue };
        let ended = job.status.as_ref().is_some_and(|s| s.completion_time.is_some());
        if job.metadata.deletion_timestamp.is_some() || ended || spec.suspend == Some(true) {
            continue;
        }
        let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
        let left = spec.completions.map_or(i32::MAX, |n| n.saturating_sub(succeeded));
        promise(job.metadata.uid.as_ref(), spec.parallelism.unwrap_or(1).min(left));
    }
    promises
}

fn state_nodes(
    index: &Index,
    pools: &[Pool],
    promised: &mut BTreeMap<String, Option<Promised>>,
) -> Vec<StateNode> {
    let mut nodes = Vec::new();
    let mut known = std::mem::take(promised);
    let mut claimed = std::collections::BTreeSet::new();
    for claim in index.claims.values() {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let node = id.and_then(|id| index.nodes_of(id).into_iter().next());
        if let Some(node) = &node {
            claimed.insert(node.name_any());
        }
        let pool = pool_of_claim(pools, claim);
        let promise = (stage_of(claim) == Stage::Ordered).then(|| {
            let name = claim.name_any();
            let promise = known.remove(&name).unwrap_or_else(|| {
                let types = &pool?.types;
                provisioning::promised(&claim.spec.requirements, claim.labels(), types)
            });
            promised.insert(name, promise.clone());
            promise
        });
        nodes.push(managed(index, pool, claim, node.as_deref(), promise.flatten()));
    }
    for node in index.nodes.values().filter(|node| !claimed.contains(&node.name_any())) {
        nodes.push(unmanaged(node));
    }
    for state in nodes.iter_mut().filter(|state| state.has_node) {
        let limits = index.csi_nodes.get(&state.node.name);
        state.node.attach_limits = limits.map(|node| attach_limits(&node)).unwrap_or_default();
    }
    nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    nodes
}

fn stage_of(claim: &NodeClaim) -> Stage {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    [
        ("Initialized", Stage::Initialized),
        ("Registered", Stage::Registered),
        ("Launched", Stage::Launched),
    ]
    .into_iter()
    .find(|(name, _)| is_true(conditions, name))
    .map_or(Stage::Ordered, |(_, stage)| stage)
}

fn pool_of_claim<'a>(pools: &'a [Pool], claim: &NodeClaim) -> Option<&'a Pool> {
    let name = claim.labels().get(labels::NODEPOOL)?;
    pools.iter().find(|pool| pool.name == *name)
}

fn managed(
    index: &Index,
    pool: Option<&Pool>,
    claim: &NodeClaim,
    node: Option<&core::Node>,
    promise: Option<Promised>,
) -> StateNode {
    let status = claim.status.clone().unwrap_or_default();
    let stage = stage_of(claim);
    let of_status = |list: &Option<BTreeMap<String, _>>| {
        list.as_ref().map(Resources::from_quantities).unwrap_or_default()
    };
    let mut allocatable = of_status(&status.allocatable);
    let mut capacity = of_status(&status.capacity);
    let mut labels = claim.labels().clone();
    let expected = promise.as_ref().map(|promise| promise.price);
    if let Some(promise) = promise {
        allocatable = promise.allocatable;
        capacity = promise.capacity;
        for (key, value) in promise.labels {
            labels.entry(key).or_insert(value);
        }
    }
    for requirement in &claim.spec.requirements {
        if let ("In", [value]) = (requirement.operator.as_str(), requirement.values.as_slice()) {
            labels.entry(requirement.key.clone()).or_insert_with(|| value.clone());
        }
    }
    let name = node.map_or_else(|| claim.name_any(), |node| node.name_any());
    let mut state = Node {
        name,
        labels,
        taints: claim.spec.taints.clone().unwrap_or_default(),
        allocatable,
        ..Node::default()
    };
    let registered = stage >= Stage::Registered;
    if let Some(seen) = node.filter(|_| registered).and_then(|node| Node::from_k8s(node).ok()) {
        // What the kubelet has not reported yet is taken from the claim.
        let promised = std::mem::take(&mut state.allocatable);
        state = seen;
        if stage < Stage::Initialized {
            let startup = claim.spec.startup_taints.as_deref().unwrap_or_default();
            let goes = |taint: &core::Taint| {
                is_ephemeral(taint)
                    || startup.iter().any(|s| s.key == taint.key && s.effect == taint.effect)
            };
            state.taints.retain(|taint| !goes(taint));
            for (name, quantity) in promised.quantities() {
                if state.allocatable.get(&name) == 0 {
                    let one = BTreeMap::from([(name, quantity)]);
                    state.allocatable.add(&Resources::from_quantities(&one));
                }
            }
        }
    }
    let annotated = |annotations: &BTreeMap<String, String>| {
        annotations.get(labels::DO_NOT_DISRUPT).is_some_and(|value| value == "true")
    };
    let node_deleting = node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
    let last_pod_event = index.last_pod_event.get(&state.name).copied();
    let price = expected.or_else(|| price_of(pool, &state.labels));
    StateNode {
        has_node: node.is_some(),
        claim: Some(claim.name_any()),
        pool: claim.labels().get(labels::NODEPOOL).cloned(),
        stage,
        deleting: claim.metadata.deletion_timestamp.is_some() || node_deleting,
        do_not_disrupt: annotated(claim.annotations())
            || node.is_some_and(|node| annotated(node.annotations())),
        capacity,
        created: claim.creation_timestamp().map_or_else(Default::default, |time| time.0),
        initialized: true_since(&status.conditions, "Initialized"),
        last_pod_event: last_pod_event.max(status.last_pod_event_time.map(|time| time.0)),
        nominated_until: None,
        price,
        planned: plan::planned(claim.annotations()),
        replaces: plan::replaces(claim.annotations()),
        obsolete: obsolete(claim, node, &status.conditions),
        expires: expires(claim),
        node: state,
    }
}

/// Whether somebody asks for another machine in its place, or it is not as its pool wants it.
fn obsolete(
    claim: &NodeClaim,
    node: Option<&core::Node>,
    conditions: &[Condition],
) -> Option<Obsolete> {
    let asked = |annotations: &BTreeMap<String, String>| {
        annotations.get(labels::REPLACE).is_some_and(|value| value == "true")
    };
    if asked(claim.annotations()) || node.is_some_and(|node| asked(node.annotations())) {
        let since = claim.creation_timestamp().map_or_else(Default::default, |time| time.0);
        return Some(Obsolete { reason: "Requested".to_owned(), since });
    }
    let since = true_since(conditions, "Drifted")?;
    Some(Obsolete { reason: "Drifted".to_owned(), since })
}

/// When a claim has grown as old as it may.
fn expires(claim: &NodeClaim) -> Option<Timestamp> {
    let after = claim.spec.expire_after.as_ref()?.duration?;
    let after = SignedDuration::try_from(after.0).ok()?;
    claim.creation_timestamp()?.0.checked_add(after).ok()
}

fn unmanaged(node: &core::Node) -> StateNode {
    let state = Node::from_k8s(node).unwrap_or_default();
    let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    StateNode {
        has_node: true,
        claim: None,
        pool: None,
        stage: Stage::Initialized,
        deleting: node.metadata.deletion_timestamp.is_some(),
        do_not_disrupt: false,
        capacity: capacity.and_then(|list| Resources::from_k8s(list).ok()).unwrap_or_default(),
        created: node.creation_timestamp().map_or_else(Default::default, |time| time.0),
        initialized: None,
        last_pod_event: None,
        nominated_until: None,
        price: None,
        planned: BTreeMap::new(),
        replaces: None,
        obsolete: None,
        expires: None,
        node: state,
    }
}

/// USD per hour of the offering that a node's labels name.
fn price_of(pool: Option<&Pool>, node: &BTreeMap<String, String>) -> Option<f64> {
    let name = node.get(labels::INSTANCE_TYPE)?;
    let types = &pool?.types;
    let kind = &types[types.binary_search_by(|kind| kind.name.cmp(name)).ok()?];
    let offering = kind.offerings.iter().find(|offering| {
        node.get(labels::ZONE) == Some(&offering.zone)
            && node.get(labels::CAPACITY_TYPE) == Some(&offering.capacity_type)
    })?;
    Some(offering.price)
}

/// How long to look for more changes before planning: longer the more a plan costs, so that a
/// burst is planned a few times instead of thousands of times; short enough that nobody waits for
/// it.
#[must_use]
pub fn gathering_time(index: &Index) -> Duration {
    let pending = index.pods.values().filter(|pod| pod.node.is_none()).take(2_000).count();
    Duration::from_millis(5) + Duration::from_micros(30) * u32::try_from(pending).unwrap_or(0)
}

/// Whether every pending pod's ReplicaSet or Job is known: watches of different kinds run side by
/// side, and without the owner nobody knows how many more pods it has promised.
#[must_use]
pub fn owners_are_known(index: &Index, now: jiff::Timestamp) -> bool {
    let known = |pod: &Pod| {
        let Some(owner) = &pod.owner else { return true };
        // An owner that is not there after a while will not come: it was deleted.
        let late = now.duration_since(pod.created) > OWNER_PATIENCE;
        late || match owner.kind.as_str() {
            "ReplicaSet" => {
                index.replica_sets.get(&format!("{}/{}", pod.namespace, owner.name)).is_some()
            }
            "Job" => index.jobs.get(&format!("{}/{}", pod.namespace, owner.name)).is_some(),
            _ => true,
        }
    };
    index.pods.values().filter(|pod| pod.node.is_none()).all(|pod| known(pod))
}
