//! Pods and types read from tables.

use std::sync::Arc;

use aerostat_api::labels;
use aerostat_api::nodepool::NodeClassRef;
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::pod::{Constraints, Pod};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Pool, Snapshot};
use jiff::Timestamp;

/// A workload on a catalog, and what Karpenter's scheduler makes of it.
pub struct Pair {
    pub catalog: String,
    pub workload: String,
    /// Pods that fit some type.
    pub placed: usize,
    pub karpenter_nodes: usize,
    /// USD per hour.
    pub karpenter: f64,
    /// The bound of the fractional market, USD per hour.
    pub fluid_bound: f64,
}

/// The lines of a table as its cells, without comments and head.
fn cells(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| line.split(',').collect())
}

/// All pairs.
pub fn pairs() -> Vec<Pair> {
    let pair = |cells: Vec<&str>| Pair {
        catalog: cells[0].to_owned(),
        workload: cells[1].to_owned(),
        placed: cells[2].parse().unwrap(),
        karpenter_nodes: cells[3].parse().unwrap(),
        karpenter: cells[4].parse().unwrap(),
        fluid_bound: cells[5].parse().unwrap(),
    };
    cells(include_str!("peers.csv")).map(pair).collect()
}

/// The moment of all plans.
pub fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1)
}

impl Pair {
    /// How far above the bound the bill is to be.
    pub fn goal(&self) -> f64 {
        match self.placed {
            _ if self.catalog.starts_with("gpu") => 1.05,
            20_000.. => 1.005,
            1_000.. => 1.02,
            _ => 1.05,
        }
    }

    /// Whether an unoptimized build plans for it in a few seconds.
    pub fn is_small(&self) -> bool {
        let pair = (&*self.catalog, &*self.workload);
        self.workload == "e2e-basic"
            || matches!(
                pair,
                ("cmr-8", "generic-200") | ("cmr-32", "openb-cpu") | ("cmr-8", "e2e-wide")
            )
    }

    /// The pods that wait, and one pool that may buy anything of the catalog.
    pub fn snapshot(&self) -> Snapshot {
        let number = |cell: &str| cell.parse::<i64>().unwrap();
        let types = cells(include_str!("catalogs.csv")).filter(|cells| cells[0] == self.catalog);
        let types = types.map(|cells| {
            let amounts = [2, 3, 4, 5].map(|at| number(cells[at]));
            kind(cells[1], amounts, cells[6].parse().unwrap())
        });
        let mut types: Vec<InstanceType> = types.collect();
        types.sort_by(|a, b| a.name.cmp(&b.name));
        let mut pods = Vec::new();
        let asked = cells(include_str!("workloads.csv")).filter(|cells| cells[0] == self.workload);
        for (class, cells) in asked.enumerate() {
            let [cpu, memory, gpu, count] = [1, 2, 3, 4].map(|at| number(cells[at]));
            let requests = resources(cpu, memory, 1, gpu);
            pods.extend((0..count).map(|n| pod(format!("{class:03}-{n:05}"), requests.clone())));
        }
        Snapshot { pods, pools: vec![pool(types)], ..Snapshot::default() }
    }
}

fn resources(cpu: i64, memory_mib: i64, pods: i64, gpu: i64) -> Resources {
    let mut resources = Resources { cpu, memory: memory_mib << 20, pods, ..Resources::default() };
    if gpu > 0 {
        resources.other.insert("nvidia.com/gpu".to_owned(), gpu);
    }
    resources
}

fn kind(name: &str, [cpu, memory, pods, gpu]: [i64; 4], price: f64) -> InstanceType {
    let resources = resources(cpu, memory, pods, gpu);
    InstanceType {
        name: name.to_owned(),
        labels: [(labels::ARCH.to_owned(), "amd64".to_owned())].into(),
        offerings: vec![Offering {
            zone: "a".to_owned(),
            capacity_type: "on-demand".to_owned(),
            price,
            available: true,
            reservation: None,
        }],
        capacity: resources.clone(),
        allocatable: resources,
    }
}

fn pod(name: String, requests: Resources) -> Arc<Pod> {
    Arc::new(Pod {
        namespace: "default".to_owned(),
        name,
        uid: String::new(),
        labels: Default::default(),
        annotations: Default::default(),
        owner: None,
        scored: requests.clone(),
        requests,
        constraints: Constraints::default(),
        priority: 0,
        preempts: true,
        node: None,
        nominated_node: None,
        created: Timestamp::UNIX_EPOCH,
        started: None,
        unschedulable_since: Some(Timestamp::UNIX_EPOCH),
        gated: false,
        deleting: false,
        terminal: false,
        ends: None,
        grace_seconds: 30,
        claims: Vec::new(),
        unsupported: Vec::new(),
    })
}

fn pool(types: Vec<InstanceType>) -> Pool {
    Pool {
        name: "p".to_owned(),
        uid: "p".to_owned(),
        weight: 0,
        usable: Ok(()),
        requirements: Vec::new(),
        labels: Default::default(),
        annotations: Default::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        class: Some(NodeClassRef {
            group: "test".to_owned(),
            kind: "Class".to_owned(),
            name: "c".to_owned(),
        }),
        hash: String::new(),
        limits: Default::default(),
        max_price: None,
        budget_time_zone: None,
        move_price: None,
        replicas: None,
        budgets: Vec::new(),
        consolidate_after: None,
        policy: "WhenEmpty".to_owned(),
        termination_grace: None,
        expire_after: None,
        types: Arc::new(types),
    }
}
