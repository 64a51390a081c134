//! Small clusters made up out of bytes, for property tests and for the fuzzer.

#![allow(dead_code, reason = "each test uses its part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bytes;
mod pods;
mod spoil;

use std::collections::BTreeSet;
use std::sync::Arc;

use aerostat_api::nodepool::{Budget, NodeClassRef, NodeSelectorRequirement};
use aerostat_api::{Quantity, labels};
use aerostat_engine::check::check;
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::node::Node;
use aerostat_engine::plan::Plan;
use aerostat_engine::pod::{Pod, PodKey};
use aerostat_engine::report::Report;
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{MinValuesPolicy, Pool, Promise, Snapshot, Stage, StateNode};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

pub use bytes::Bytes;
pub use spoil::spoil;

/// When all that is made up is planned for.
pub const NOW: Timestamp = Timestamp::constant(3600, 0);

const ZONES: [&str; 3] = ["a", "b", "c"];
pub const DEDICATED: &str = "dedicated";

/// What may be made up.
#[derive(Clone, Copy)]
pub struct Kinds {
    /// Pods in all.
    pub pods: usize,
    /// Whether there are nodes, with pods on them.
    pub nodes: bool,
    /// Whether pools have limits, weights and minValues.
    pub pool_rules: bool,
    /// Whether pods may have affinity, anti-affinity and spread constraints.
    pub company: bool,
}

/// A cluster with everything that it may hold.
pub const ALL: Kinds = Kinds { pods: 24, nodes: true, pool_rules: true, company: true };

/// Makes up a cluster, spoils every second one, and plans for it: the plan is right and the same
/// every time, and every pod that waits is told of.
pub fn survive(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let is_spoiled = bytes.rarely(2);
    let mut snapshot = snapshot(&mut bytes, ALL);
    if is_spoiled {
        spoil(&mut snapshot, &mut bytes);
    }
    let (plan, report) = aerostat_engine::plan(&snapshot, NOW);
    assert_eq!(check(&snapshot, &plan, NOW), []);
    let (again, _) = aerostat_engine::plan(&snapshot, NOW);
    assert_eq!(plan, again);
    assert_told(&snapshot, &plan, &report);
}

/// Every pod that waits has got a place, or the report says why not.
pub fn assert_told(snapshot: &Snapshot, plan: &Plan, report: &Report) {
    let nominated = plan.nominations.iter().map(|nomination| &nomination.pod);
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let unplaced = report.unplaced.iter().map(|unplaced| &unplaced.pod);
    let told: BTreeSet<&PodKey> =
        nominated.chain(launched).chain(unplaced).chain(&report.waiting).collect();
    for pod in snapshot.pods.iter().filter(|pod| pod.node.is_none()) {
        let key = (pod.namespace.clone(), pod.name.clone());
        assert!(told.contains(&key), "nothing is said of pod {key:?}");
    }
}

/// Makes up a cluster.
pub fn snapshot(bytes: &mut Bytes<'_>, kinds: Kinds) -> Snapshot {
    let types = Arc::new(types(bytes));
    let count = 1 + bytes.below(3);
    let pools = (0..count).map(|n| pool(bytes, n, &types, kinds.pool_rules)).collect();
    let mut snapshot = Snapshot { pools, ..Snapshot::default() };
    if bytes.rarely(4) {
        snapshot.settings.min_values = MinValuesPolicy::BestEffort;
    }
    if bytes.rarely(3) {
        snapshot.daemons.push(Arc::new(pods::daemon(bytes)));
    }
    if kinds.nodes {
        for number in 0..bytes.below(4) {
            let node = node(bytes, number, &types);
            for resident in 0..bytes.below(4) {
                let name = format!("resident-{number}-{resident}");
                let pod = Pod {
                    node: Some(node.node.name.clone()),
                    ..pods::pod(bytes, &name, kinds.company)
                };
                // What runs there has room there.
                let requests =
                    Resources { cpu: 100, memory: 1 << 27, pods: 1, ..Default::default() };
                snapshot.pods.push(Arc::new(Pod { requests, unschedulable_since: None, ..pod }));
            }
            snapshot.nodes.push(node);
        }
    }
    let mut left = kinds.pods;
    for class in 0..1 + bytes.below(5) {
        let sample = pods::pod(bytes, &format!("sample-{class}"), kinds.company);
        let count = (1 + bytes.below(8)).min(left);
        left -= count;
        for number in 0..count {
            let name = format!("pod-{class}-{number}");
            snapshot.pods.push(Arc::new(Pod { name, ..sample.clone() }));
        }
        if kinds.nodes && bytes.rarely(6) {
            let count = u32::try_from(bytes.below(5)).unwrap();
            snapshot.promised.push(Promise { pod: Arc::new(sample), count });
        }
    }
    snapshot.pods.sort_by(|a, b| a.name.cmp(&b.name));
    snapshot
}

fn types(bytes: &mut Bytes<'_>) -> Vec<InstanceType> {
    let count = 1 + bytes.below(6);
    (0..count).map(|number| kind(bytes, number)).collect()
}

fn kind(bytes: &mut Bytes<'_>, number: usize) -> InstanceType {
    let cores = *bytes.one(&[2_i64, 1, 4, 8]);
    let memory = cores * bytes.one(&[4, 2, 8]);
    let arch = if bytes.rarely(3) { "arm64" } else { "amd64" };
    let name = format!("t{number}.{cores}");
    let price =
        (cores as f64 * 0.03 + memory as f64 * 0.004) * (1.0 + bytes.below(16) as f64 / 32.0);
    let capacity = Resources {
        cpu: cores * 1000,
        memory: memory << 30,
        storage: 20 << 30,
        pods: 4 + cores * 4,
        ..Resources::default()
    };
    let mut allocatable = capacity.clone();
    allocatable.cpu -= 80;
    allocatable.memory -= 600 << 20;
    let mut offerings = Vec::new();
    for zone in bytes.some(&ZONES) {
        for (capacity_type, share) in [("on-demand", 1.0), ("spot", 0.4)] {
            if capacity_type == "spot" && bytes.rarely(2) {
                continue;
            }
            let available = !bytes.rarely(12);
            offerings.push(Offering {
                zone: (*zone).to_owned(),
                capacity_type: capacity_type.to_owned(),
                price: (price * share * 1e4).round() / 1e4,
                available,
                reservation: None,
            });
        }
    }
    let kind_labels = [
        (labels::ARCH, arch.to_owned()),
        (labels::OS, "linux".to_owned()),
        (labels::INSTANCE_TYPE, name.clone()),
        ("eks.amazonaws.com/instance-cpu", cores.to_string()),
    ];
    let labels = kind_labels.map(|(key, value)| (key.to_owned(), value)).into();
    InstanceType { name, labels, offerings, capacity, allocatable }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

fn pool(bytes: &mut Bytes<'_>, number: usize, types: &Arc<Vec<InstanceType>>, rules: bool) -> Pool {
    let name = format!("p{number}");
    let mut requirements = Vec::new();
    match bytes.below(8) {
        1 => requirements.push(requirement(labels::ARCH, "In", &["amd64"])),
        2 => requirements.push(requirement(labels::CAPACITY_TYPE, "In", &["on-demand"])),
        3 => requirements.push(requirement(labels::ZONE, "NotIn", &["b"])),
        4 => requirements.push(requirement("eks.amazonaws.com/instance-cpu", "Gt", &["1"])),
        5 => requirements.push(requirement("team", "In", &["red", "blue"])),
        _ => {}
    }
    let mut taints = Vec::new();
    if bytes.rarely(4) {
        let effect = "NoSchedule".to_owned();
        taints.push(Taint { key: DEDICATED.to_owned(), effect, ..Taint::default() });
    }
    let (mut limits, mut weight) = (std::collections::BTreeMap::new(), 0);
    if rules {
        weight = *bytes.one(&[0, 0, 10]);
        if bytes.rarely(4) {
            let cpu = Quantity::from_units(1 + bytes.below(24) as i64);
            limits.insert("cpu".to_owned(), cpu);
        }
        if bytes.rarely(6) {
            limits.insert("nodes".to_owned(), Quantity::from_units(bytes.below(4) as i64));
        }
        if bytes.rarely(6) {
            requirements.push(NodeSelectorRequirement {
                min_values: Some(2),
                ..requirement(labels::INSTANCE_TYPE, "Exists", &[])
            });
        }
    }
    Pool {
        uid: name.clone(),
        name,
        weight,
        usable: Ok(()),
        requirements,
        labels: Default::default(),
        annotations: Default::default(),
        taints,
        startup_taints: Vec::new(),
        class: Some(NodeClassRef {
            group: "eks.amazonaws.com".to_owned(),
            kind: "NodeClass".to_owned(),
            name: "default".to_owned(),
        }),
        hash: String::new(),
        limits,
        max_price: None,
        budget_time_zone: None,
        move_price: None,
        replicas: None,
        budgets: vec![Budget {
            nodes: (*bytes.one(&["100%", "1", "0", "50%"])).to_owned(),
            reasons: None,
            schedule: None,
            duration: None,
        }],
        consolidate_after: Some(std::time::Duration::from_secs(30)),
        policy: "WhenEmpty".to_owned(),
        termination_grace: None,
        expire_after: None,
        types: types.clone(),
    }
}

/// A node of the largest type, so that what runs there has room.
fn node(bytes: &mut Bytes<'_>, number: usize, types: &[InstanceType]) -> StateNode {
    let kind = types.iter().max_by_key(|kind| (kind.capacity.cpu, kind.name.clone())).unwrap();
    let name = format!("node-{number}");
    let mut node_labels = kind.labels.clone();
    for (key, value) in [
        (labels::ZONE, *bytes.one(&ZONES)),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODEPOOL, "p0"),
        (labels::HOSTNAME, name.as_str()),
    ] {
        node_labels.insert(key.to_owned(), value.to_owned());
    }
    StateNode {
        node: Node {
            labels: node_labels,
            allocatable: kind.allocatable.clone(),
            unschedulable: bytes.rarely(8),
            name: name.clone(),
            ..Node::default()
        },
        has_node: true,
        claim: Some(format!("claim-{name}")),
        pool: Some("p0".to_owned()),
        stage: Stage::Initialized,
        deleting: bytes.rarely(8),
        do_not_disrupt: bytes.rarely(8),
        capacity: kind.capacity.clone(),
        created: Timestamp::UNIX_EPOCH,
        initialized: Some(Timestamp::UNIX_EPOCH),
        last_pod_event: None,
        nominated_until: None,
        price: Some(0.1),
        planned: Default::default(),
        replaces: None,
        obsolete: None,
        expires: None,
    }
}
