//! Damage: what no well-behaved cluster holds.

use std::sync::Arc;

use aerostat_api::Quantity;
use aerostat_api::nodepool::NodeSelectorRequirement;
use aerostat_engine::instance::InstanceType;
use aerostat_engine::pod::Pod;
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Pool, Snapshot};

use super::Bytes;

const AMOUNTS: [i64; 8] = [0, 1 << 62, i64::MAX, -1, i64::MIN, 1, 1 << 40, -(1 << 50)];
const PRICES: [f64; 7] = [0.0, f64::NAN, -1.0, f64::INFINITY, 1e300, 1e-12, 999_999_999.0];

/// Does a few bad things to a cluster.
pub fn spoil(snapshot: &mut Snapshot, bytes: &mut Bytes<'_>) {
    for _ in 0..1 + bytes.below(4) {
        match bytes.below(12) {
            0 => pod(snapshot, bytes, |pod, bytes| {
                pod.requests = amounts(bytes);
                at_least_nothing(&mut pod.requests);
                pod.scored = pod.requests.clone();
            }),
            1 => pod(snapshot, bytes, |pod, bytes| {
                pod.priority = *bytes.one(&[i32::MIN, i32::MAX, -1]);
                pod.preempts = bytes.rarely(2);
                pod.unschedulable_since = Some(super::NOW);
            }),
            2 => pod(snapshot, bytes, |pod, bytes| {
                for spread in &mut pod.constraints.spread {
                    spread.max_skew = *bytes.one(&[0, u32::MAX, 1]);
                    spread.min_domains = *bytes.one(&[u32::MAX, 0, 5]);
                    spread.topology_key = (*bytes.one(&["", "nowhere", "team"])).to_owned();
                    spread.selector = None;
                }
                for term in pod
                    .constraints
                    .pod_affinity
                    .iter_mut()
                    .chain(&mut pod.constraints.pod_anti_affinity)
                {
                    term.topology_key = (*bytes.one(&["", "nowhere", "team"])).to_owned();
                }
            }),
            // Two of one name.
            3 => match bytes.below(4) {
                0 => snapshot.pods.extend(snapshot.pods.first().cloned()),
                1 => snapshot.pools.extend(snapshot.pools.first().cloned()),
                2 => snapshot.nodes.extend(snapshot.nodes.first().cloned()),
                _ => pool(snapshot, bytes, |pool, _| {
                    let types = Arc::make_mut(&mut pool.types);
                    types.extend(types.first().cloned());
                }),
            },
            4 => kind(snapshot, bytes, |kind, bytes| {
                for offering in &mut kind.offerings {
                    offering.price = *bytes.one(&PRICES);
                }
            }),
            5 => kind(snapshot, bytes, |kind, bytes| {
                kind.allocatable = amounts(bytes);
                kind.capacity = amounts(bytes);
            }),
            6 => kind(snapshot, bytes, |kind, _| kind.labels.clear()),
            7 => pool(snapshot, bytes, |pool, bytes| {
                let operator = *bytes.one(&["Like", "Gt", "In", "Exists", "Lt", ""]);
                let lists: [&[&str]; 4] = [&["x"], &[], &["9223372036854775807"], &["1", "2"]];
                let values = bytes.one(&lists);
                pool.requirements.push(NodeSelectorRequirement {
                    key: (*bytes.one(&["", "kubernetes.io/arch", "team"])).to_owned(),
                    operator: operator.to_owned(),
                    values: values.iter().map(|value| (*value).to_owned()).collect(),
                    min_values: *bytes.one(&[None, Some(99), Some(-1), Some(i64::MAX)]),
                });
            }),
            8 => pool(snapshot, bytes, |pool, bytes| {
                let amount = *bytes.one(&AMOUNTS);
                let name = *bytes.one(&["cpu", "nodes", "memory", "pods", "unknown.io/thing"]);
                pool.limits.insert(name.to_owned(), Quantity::from_units(amount));
                pool.budgets.iter_mut().for_each(|budget| budget.nodes = "x%".to_owned());
            }),
            9 => pool(snapshot, bytes, |pool, bytes| match bytes.below(4) {
                0 => pool.class = None,
                1 => pool.types = Arc::new(Vec::new()),
                2 => pool.weight = i32::MIN,
                _ => pool.replicas = Some(u32::MAX),
            }),
            10 => {
                snapshot.settings.max_instance_types = *bytes.one(&[0, 1, usize::MAX]);
                snapshot.settings.fee = *bytes.one(&[f64::NAN, -1.0, 1e300]);
                snapshot.settings.preemption_grace = std::time::Duration::MAX;
            }
            _ => node(snapshot, bytes),
        }
    }
    snapshot.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
}

fn amounts(bytes: &mut Bytes<'_>) -> Resources {
    Resources {
        cpu: *bytes.one(&AMOUNTS),
        memory: *bytes.one(&AMOUNTS),
        storage: *bytes.one(&AMOUNTS),
        pods: *bytes.one(&[1, 0, 110, i64::MAX]),
        other: [("unknown.io/thing".to_owned(), *bytes.one(&AMOUNTS))]
            .into_iter()
            .filter(|(_, amount)| *amount != 0)
            .collect(),
    }
}

/// The API server refuses negative requests.
fn at_least_nothing(requests: &mut Resources) {
    for amount in [&mut requests.cpu, &mut requests.memory, &mut requests.storage] {
        *amount = (*amount).max(0);
    }
    requests.other.retain(|_, amount| *amount > 0);
}

fn pod(snapshot: &mut Snapshot, bytes: &mut Bytes<'_>, change: fn(&mut Pod, &mut Bytes<'_>)) {
    let at = bytes.below(snapshot.pods.len());
    if let Some(pod) = snapshot.pods.get_mut(at) {
        change(Arc::make_mut(pod), bytes);
    }
}

fn pool(snapshot: &mut Snapshot, bytes: &mut Bytes<'_>, change: fn(&mut Pool, &mut Bytes<'_>)) {
    let at = bytes.below(snapshot.pools.len());
    if let Some(pool) = snapshot.pools.get_mut(at) {
        change(pool, bytes);
    }
}

fn kind(
    snapshot: &mut Snapshot,
    bytes: &mut Bytes<'_>,
    change: fn(&mut InstanceType, &mut Bytes<'_>),
) {
    let at = bytes.below(8);
    for pool in &mut snapshot.pools {
        if let Some(kind) = Arc::make_mut(&mut pool.types).get_mut(at) {
            change(kind, bytes);
        }
    }
}

fn node(snapshot: &mut Snapshot, bytes: &mut Bytes<'_>) {
    let Some(state) = snapshot.nodes.first_mut() else { return };
    match bytes.below(5) {
        0 => state.node.allocatable = amounts(bytes),
        1 => state.node.labels.clear(),
        2 => state.pool = Some("gone".to_owned()),
        3 => state.claim = None,
        _ => {
            state.capacity = amounts(bytes);
            state.price = Some(*bytes.one(&PRICES));
        }
    }
}
