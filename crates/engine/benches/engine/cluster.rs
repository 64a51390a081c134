//! Clusters of equal nodes: cluster-autoscaler's benchmarks, and one pod more on a large one.

use std::sync::Arc;

use aerostat_api::{NodePool, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::node::Node;
use aerostat_engine::pod::{Expression, Selector};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Pdb, Pool, Snapshot, Stage, StateNode};
use jiff::Timestamp;
use serde_json::json;

use crate::pods::{Pods, Size, term};
use crate::world;

/// What a node leaves to pods: millicores and MiB.
const NODE: Size = (10_000, 10_000);
const ZONE: &str = "zone-a";
const KIND: &str = "ten";

/// 50,000 pods of which fifty fill a node.
/// Source: kubernetes-sigs/cluster-autoscaler `pkg/core/bench/benchmark_runonce_test.go`.
pub fn scale_up() -> Snapshot {
    let mut pods = Pods::default();
    pods.add_all(50_000, &json!({}), &json!({}), (200, 200));
    snapshot(pods, 0)
}

/// 5,000 nodes with ten small pods each, two of every app, which shun each other on a machine;
/// then 100 more of that kind which take a node each.
/// Source: kubernetes/autoscaler pull request 9596, `BenchmarkRunOnceAffinitySurge`.
pub fn surge() -> Snapshot {
    const NODES: usize = 5000;
    let mut pods = Pods::default();
    for number in 0..NODES * 10 + 100 {
        let labels = json!({"app": format!("app-{}", number / 2)});
        let spec = term("podAntiAffinity", labels::HOSTNAME, &labels);
        let waits = number >= NODES * 10;
        let size = if waits { NODE } else { (10, 10) };
        let pod = pods.add(&json!({"labels": labels}), &spec, size);
        if !waits {
            // There, fillers of one app are on one node; here they are where they may be.
            pod.node = Some(node_name(number % NODES));
        }
    }
    snapshot(pods, NODES)
}

/// 5,000 full nodes with twenty pods each, and a pod for which another one is needed.
pub fn one_more() -> Snapshot {
    const NODES: usize = 5000;
    let mut pods = Pods::default();
    for number in 0..NODES * 20 {
        let app = format!("app-{}", number % 500);
        let metadata = json!({
            "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app,
                "uid": app, "controller": true}],
        });
        pods.add(&metadata, &json!({}), (480, 400)).node = Some(node_name(number / 20));
    }
    pods.add(&json!({"labels": {"app": "new"}}), &json!({}), (500, 500));
    snapshot(pods, NODES)
}

/// 1,000 nodes of 20 pools with 30 pods each, full to between a half and all; of one in fifty a part
/// of the pods is gone. PodDisruptionBudgets guard every app.
pub fn consolidation() -> Snapshot {
    const NODES: usize = 1000;
    let mut pods = Pods::default();
    for number in 0..NODES * 30 {
        let app = format!("app-{}", number % 500);
        let metadata = json!({
            "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app,
                "uid": app, "controller": true}],
        });
        let node = number / 30;
        let cpu = if node % 50 == 0 { 30 } else { 300 + (node % 7) as u64 * 4 };
        let pod = pods.add(&metadata, &json!({}), (cpu, 200));
        (pod.node, pod.unschedulable_since) = (Some(node_name(node)), None);
    }
    let mut snapshot = snapshot(pods, NODES);
    let pool = snapshot.pools.remove(0);
    for number in 0..20 {
        let name = format!("pool-{number:02}");
        snapshot.pools.push(Pool { uid: name.clone(), name, ..pool.clone() });
    }
    for (number, state) in snapshot.nodes.iter_mut().enumerate() {
        let pool = format!("pool-{:02}", number % 20);
        state.node.labels.insert(labels::NODEPOOL.to_owned(), pool.clone());
        state.pool = Some(pool);
    }
    for app in 0..500 {
        let name = format!("app-{app}");
        let values = vec![name.clone()];
        let is = Expression { key: "app".to_owned(), operator: "In".to_owned(), values };
        let selector = Some(Selector(vec![is]));
        snapshot.pdbs.push(Pdb { namespace: "default".to_owned(), name, selector, allowed: 1 });
    }
    snapshot
}

fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

fn snapshot(pods: Pods, nodes: usize) -> Snapshot {
    let pool: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "test", "kind": "Class", "name": "default"},
            "requirements": [],
        }}},
    }))
    .unwrap();
    let kind = kind();
    let nodes = (0..nodes).map(|number| node(node_name(number), &kind)).collect();
    let pools = vec![world::pool(&pool, &Arc::new(vec![kind]))];
    Snapshot { pods: pods.list, nodes, pools, ..Snapshot::default() }
}

fn kind() -> InstanceType {
    let (cpu, memory) = (NODE.0 as i64, (NODE.1 as i64) << 20);
    let capacity = Resources { cpu, memory, pods: 110, ..Resources::default() };
    InstanceType {
        name: KIND.to_owned(),
        labels: [(labels::ARCH.to_owned(), "amd64".to_owned())].into(),
        offerings: vec![Offering {
            zone: ZONE.to_owned(),
            capacity_type: "on-demand".to_owned(),
            price: 0.4,
            available: true,
            reservation: None,
        }],
        allocatable: capacity.clone(),
        capacity,
    }
}

/// A node of the pool that has long been ready.
fn node(name: String, kind: &InstanceType) -> StateNode {
    let labels = [
        (labels::ARCH, "amd64"),
        (labels::ZONE, ZONE),
        (labels::INSTANCE_TYPE, KIND),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODEPOOL, "default"),
        (labels::HOSTNAME, &name),
    ];
    StateNode {
        node: Node {
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            allocatable: kind.allocatable.clone(),
            name: name.clone(),
            ..Node::default()
        },
        has_node: true,
        claim: Some(name),
        pool: Some("default".to_owned()),
        stage: Stage::Initialized,
        deleting: false,
        do_not_disrupt: false,
        capacity: kind.capacity.clone(),
        created: Timestamp::UNIX_EPOCH,
        initialized: Some(Timestamp::UNIX_EPOCH),
        last_pod_event: Some(Timestamp::UNIX_EPOCH),
        nominated_until: None,
        price: Some(0.4),
        planned: Default::default(),
        replaces: None,
        obsolete: None,
        expires: None,
    }
}
