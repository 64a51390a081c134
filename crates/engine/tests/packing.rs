//! How good plans are: small cases with a proven optimum, random ones against exhaustive search,
//! and work that must not grow with the number of pods.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use aerostat_api::labels;
use aerostat_api::nodepool::NodeClassRef;
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::plan::Plan;
use aerostat_engine::pod::{Constraints, Pod};
use aerostat_engine::report::{Certificate, Report};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Pool, Snapshot};
use jiff::Timestamp;
use proptest::prelude::*;
use serde::Deserialize;

const MIB: i64 = 1 << 20;

#[derive(Deserialize)]
struct Fixture {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    id: String,
    pods: Vec<Pods>,
    types: Vec<Kind>,
    optimal_cost: f64,
    karpenter_cost: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Pods {
    count: u32,
    cpu_milli: i64,
    memory_mib: i64,
    gpu: i64,
    anti_affinity_group: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Kind {
    name: String,
    alloc_cpu_milli: i64,
    alloc_memory_mib: i64,
    alloc_pods: i64,
    gpu: i64,
    price: f64,
}

impl Kind {
    fn resources(&self) -> Resources {
        resources(self.alloc_cpu_milli, self.alloc_memory_mib, self.alloc_pods, self.gpu)
    }

    fn instance_type(&self) -> InstanceType {
        let offering = Offering {
            zone: "z".to_owned(),
            capacity_type: "on-demand".to_owned(),
            price: self.price,
            available: true,
            reservation: None,
        };
        InstanceType {
            name: self.name.clone(),
            labels: [(labels::ARCH.to_owned(), "amd64".to_owned())].into(),
            offerings: vec![offering],
            capacity: self.resources(),
            allocatable: self.resources(),
        }
    }
}

fn resources(cpu: i64, memory_mib: i64, pods: i64, gpu: i64) -> Resources {
    let mut resources = Resources { cpu, memory: memory_mib * MIB, pods, ..Resources::default() };
    if gpu > 0 {
        resources.other.insert("nvidia.com/gpu".to_owned(), gpu);
    }
    resources
}

fn pod(name: String, requests: Resources, constraints: Constraints) -> Arc<Pod> {
    Arc::new(Pod {
        namespace: "default".to_owned(),
        name,
        uid: String::new(),
        labels: Default::default(),
        annotations: Default::default(),
        owner: None,
        scored: requests.clone(),
        requests,
        constraints,
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

/// Plans for pods alone, and checks that the machines hold what is planned for them.
fn plan(pods: &[Pods], types: &[Kind]) -> (Plan, Report) {
    let mut kinds: Vec<InstanceType> = types.iter().map(Kind::instance_type).collect();
    kinds.sort_by(|a, b| a.name.cmp(&b.name));
    let mut snapshot = Snapshot { pools: vec![pool(kinds)], ..Snapshot::default() };
    for (group, pods) in pods.iter().enumerate() {
        let requests = resources(pods.cpu_milli, pods.memory_mib, 1, pods.gpu);
        // A host port keeps pods of a group apart, as anti-affinity over host names does.
        let port = |group: &String| ("TCP".to_owned(), "0.0.0.0".to_owned(), group.len() as i32);
        let host_ports = pods.anti_affinity_group.iter().map(port).collect();
        let constraints = Constraints { host_ports, ..Constraints::default() };
        for number in 0..pods.count {
            let name = format!("{group:03}-{number:06}");
            snapshot.pods.push(pod(name, requests.clone(), constraints.clone()));
        }
    }
    let (plan, report) = aerostat_engine::plan(
        &snapshot,
        Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1),
    );
    let mut placed = 0;
    for (launch, choice) in plan.launches.iter().zip(&report.launches) {
        let mut load = Resources::default();
        for (_, name) in &launch.pods {
            let group: usize = name[..3].parse().unwrap();
            let Pods { cpu_milli, memory_mib, gpu, .. } = pods[group];
            load.add(&resources(cpu_milli, memory_mib, 1, gpu));
        }
        assert!(choice.allocatable.covers(&load), "{choice:?}");
        placed += launch.pods.len();
    }
    let total: usize = pods.iter().map(|pods| pods.count as usize).sum();
    assert_eq!(placed + report.unplaced.len(), total);
    (plan, report)
}

fn cost(report: &Report) -> f64 {
    report.launches.iter().map(|choice| choice.price).sum()
}

#[test]
fn small_cases_are_at_their_optimum() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/packing-cases.json");
    let fixture: Fixture = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(fixture.cases.len(), 9);
    for case in fixture.cases {
        let (_, report) = plan(&case.pods, &case.types);
        assert!(report.unplaced.is_empty(), "{}", case.id);
        let cost = cost(&report);
        assert!((cost - case.optimal_cost).abs() < 1e-6, "{}: {cost}", case.id);
        assert!(cost < case.karpenter_cost, "{}", case.id);
    }
}

/// The cheapest way to carry pods, found by trying every way to share them among machines.
fn exhaustive(pods: &[Resources], types: &[Kind], machines: &mut Vec<Resources>) -> Option<f64> {
    let Some((next, rest)) = pods.split_first() else {
        let cheapest = |load: &Resources| {
            let holding = types.iter().filter(|kind| kind.resources().covers(load));
            holding.map(|kind| kind.price).min_by(f64::total_cmp)
        };
        return machines.iter().map(cheapest).sum();
    };
    let mut best: Option<f64> = None;
    for at in 0..=machines.len() {
        if at == machines.len() {
            machines.push(Resources::default());
        }
        machines[at].add(next);
        let found = exhaustive(rest, types, machines);
        machines[at].subtract(next);
        if machines[at] == Resources::default() {
            machines.truncate(at);
        }
        best = [best, found].into_iter().flatten().min_by(f64::total_cmp);
    }
    best
}

/// Checks a certificate against what it claims: the worths add up to the bound, and no machine can
/// carry pods worth more than its price, by trying all ways to fill it.
fn verify(certificate: &Certificate, pods: &[Pods], kinds: &[Kind]) {
    if certificate.worth.is_empty() {
        return;
    }
    let total: f64 = certificate.worth.iter().map(|w| w.usd_per_hour * f64::from(w.count)).sum();
    assert!(total >= certificate.lower_bound_per_hour - 1e-9, "{total} {certificate:?}");
    let class = |(_, name): &(String, String)| &pods[name[..3].parse::<usize>().unwrap()];
    let each = certificate.worth.iter().map(|worth| {
        let Pods { cpu_milli, memory_mib, .. } = *class(&worth.pod);
        (resources(cpu_milli, memory_mib, 1, 0), worth.count, worth.usd_per_hour)
    });
    let each: Vec<(Resources, u32, f64)> = each.collect();
    for kind in kinds {
        let most = most_worth(&each, &kind.resources(), &mut Resources::default());
        assert!(most <= kind.price * (1.0 + 1e-6) + 1e-9, "{}: {most} {certificate:?}", kind.name);
    }
}

/// The most that pods in one machine can be worth.
fn most_worth(pods: &[(Resources, u32, f64)], room: &Resources, load: &mut Resources) -> f64 {
    let Some(((request, count, worth), rest)) = pods.split_first() else { return 0.0 };
    let (mut best, mut taken) = (0.0_f64, 0);
    loop {
        best = best.max(f64::from(taken) * worth + most_worth(rest, room, load));
        load.add(request);
        taken += 1;
        if taken > *count || !room.covers(load) {
            break;
        }
    }
    (0..taken).for_each(|_| load.subtract(request));
    best
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = (1..=16_i64, 1..=16_i64, 2..=8_i64, 10..200_u32);
    proptest::collection::vec(kind, 1..6).prop_map(|list| {
        let kind = |(number, (cpu, memory, pods, price)): (usize, (i64, i64, i64, u32))| Kind {
            name: format!("t{number}"),
            alloc_cpu_milli: cpu * 500,
            alloc_memory_mib: memory * 1024,
            alloc_pods: pods,
            gpu: 0,
            price: f64::from(price) / 1000.0,
        };
        list.into_iter().enumerate().map(kind).collect()
    })
}

fn pods(classes: usize, count: u32) -> impl Strategy<Value = Vec<Pods>> {
    let pods = (1..=count, 1..=10_i64, 1..=10_i64);
    proptest::collection::vec(pods, 1..=classes).prop_map(|list| {
        let pods = |(count, cpu, memory)| Pods {
            count,
            cpu_milli: cpu * 250,
            memory_mib: memory * 512,
            gpu: 0,
            anti_affinity_group: None,
        };
        list.into_iter().map(pods).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn few_pods_cost_the_least_possible(pods in pods(3, 2), kinds in kinds()) {
        let (_, report) = plan(&pods, &kinds);
        let fits = |pods: &Pods| {
            let requests = resources(pods.cpu_milli, pods.memory_mib, 1, 0);
            let fits = kinds.iter().any(|kind| kind.resources().covers(&requests));
            fits.then(|| vec![requests; pods.count as usize])
        };
        let each: Vec<Resources> = pods.iter().filter_map(fits).flatten().collect();
        let optimum = exhaustive(&each, &kinds, &mut Vec::new()).unwrap();
        prop_assert!((cost(&report) - optimum).abs() < 1e-6, "{} {optimum}", cost(&report));
        let bound = report.certificate.lower_bound_per_hour;
        prop_assert!(bound <= optimum + 1e-6, "{bound} {optimum}");
    }

    #[test]
    fn many_pods_are_all_placed_between_the_bounds(pods in pods(12, 60), kinds in kinds()) {
        let (_, report) = plan(&pods, &kinds);
        // No plan is cheaper than the dearest resource alone, bought where it is cheapest.
        let fits = |pods: &&Pods| {
            let requests = resources(pods.cpu_milli, pods.memory_mib, 1, 0);
            kinds.iter().any(|kind| kind.resources().covers(&requests))
        };
        let placeable: Vec<&Pods> = pods.iter().filter(fits).collect();
        let bound = |of: fn(&Pods) -> i64, room: fn(&Kind) -> i64| {
            let asked: i64 = placeable.iter().map(|pods| of(pods) * i64::from(pods.count)).sum();
            let rate = kinds.iter().map(|kind| kind.price / room(kind) as f64);
            rate.min_by(f64::total_cmp).unwrap() * asked as f64
        };
        let bound = bound(|pods| pods.cpu_milli, |kind| kind.alloc_cpu_milli)
            .max(bound(|pods| pods.memory_mib, |kind| kind.alloc_memory_mib));
        let unplaced: u32 = pods.iter().filter(|pods| !fits(pods)).map(|pods| pods.count).sum();
        prop_assert_eq!(report.unplaced.len(), unplaced as usize);
        prop_assert!(cost(&report) >= bound - 1e-9);
        verify(&report.certificate, &pods, &kinds);
        // A machine for each pod is the dearest that makes sense.
        let alone = |pods: &&Pods| {
            let requests = resources(pods.cpu_milli, pods.memory_mib, 1, 0);
            let holding = kinds.iter().filter(|kind| kind.resources().covers(&requests));
            let least = holding.map(|kind| kind.price).min_by(f64::total_cmp).unwrap();
            least * f64::from(pods.count)
        };
        prop_assert!(cost(&report) <= placeable.iter().map(alone).sum::<f64>() + 1e-9);
    }
}

#[test]
fn ten_thousand_pods_of_a_few_classes() {
    let sizes =
        [(1, 2, 0.05), (2, 4, 0.1), (4, 8, 0.2), (8, 16, 0.4), (16, 32, 0.8), (48, 96, 2.4)];
    let mut kinds = Vec::new();
    for family in 0..133 {
        for (cpu, memory, price) in sizes {
            let memory = memory * (1 + family % 4);
            kinds.push(Kind {
                name: format!("f{family:03}-{cpu}"),
                alloc_cpu_milli: cpu * 1000 - 70,
                alloc_memory_mib: memory * 1024 - 700,
                alloc_pods: 8 + cpu * 10,
                gpu: 0,
                price: price * (1.0 + family as f64 / 100.0) * (1.0 + 0.2 * (family % 4) as f64),
            });
        }
    }
    let class = |cpu_milli, memory_mib| Pods {
        count: 2000,
        cpu_milli,
        memory_mib,
        gpu: 0,
        anti_affinity_group: None,
    };
    let pods =
        [class(100, 256), class(250, 2048), class(500, 512), class(1000, 4096), class(3500, 3000)];
    let (_, report) = plan(&pods, &kinds);
    assert!(report.unplaced.is_empty());
    // Cpu alone, at the lowest price of a milli-core.
    let asked: i64 = pods.iter().map(|pods| pods.cpu_milli * i64::from(pods.count)).sum();
    let rate = kinds.iter().map(|kind| kind.price / kind.alloc_cpu_milli as f64);
    let bound = rate.min_by(f64::total_cmp).unwrap() * asked as f64;
    assert!(cost(&report) < bound * 1.1, "{} {bound}", cost(&report));
}
