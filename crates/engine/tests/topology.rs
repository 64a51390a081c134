//! Constraints between pods, many at once: what is planned satisfies them, and the work does not
//! grow with the square of the pods.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::{NodePool, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::plan::{Launch, Plan};
use aerostat_engine::pod::Pod;
use aerostat_engine::report::Report;
use aerostat_engine::resources::Resources;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use world::World;

const GIB: i64 = 1 << 30;

/// Karpenter's fake catalogue: type `i` has `i` cores, `2 i` GiB and five offerings.
/// Source: kubernetes-sigs/karpenter `pkg/cloudprovider/fake/instancetype.go`.
fn catalog(count: i64) -> Arc<Vec<InstanceType>> {
    let kind = |number: i64| {
        let price = 0.1 * number as f64 + 0.1 * (number * 2 * GIB) as f64 / 1e9;
        let offering = |(capacity_type, zone): (&str, &str)| Offering {
            zone: zone.to_owned(),
            capacity_type: capacity_type.to_owned(),
            price,
            available: true,
            reservation: None,
        };
        let (cpu, memory, pods) = (number * 1000, number * 2 * GIB, number * 10);
        let capacity = Resources { cpu, memory, pods, ..Resources::default() };
        let (cpu, memory) = (cpu - 100, memory - (10 << 20));
        let allocatable = Resources { cpu, memory, ..capacity.clone() };
        let offerings = [
            ("spot", "z1"),
            ("spot", "z2"),
            ("on-demand", "z1"),
            ("on-demand", "z2"),
            ("on-demand", "z3"),
        ];
        InstanceType {
            name: format!("fake-it-{number:03}"),
            labels: [(labels::ARCH.to_owned(), "amd64".to_owned())].into(),
            offerings: offerings.into_iter().map(offering).collect(),
            capacity,
            allocatable,
        }
    };
    Arc::new((1..=count).map(kind).collect())
}

fn world(types: i64) -> World {
    let types = catalog(types);
    let pool: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        }}},
    }))
    .unwrap();
    let mut world = World::new(types.clone());
    world.snapshot.pools.push(world::pool(&pool, &types));
    world
}

fn add(world: &mut World, name: &str, labels: Value, spec: Value, (cpu, memory): (u32, u32)) {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c", "resources": {
        "requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}}]);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec,
    }));
    let mut pod = Pod::from_k8s(&pod.unwrap()).unwrap();
    pod.unschedulable_since = Some(Timestamp::UNIX_EPOCH);
    world.add_pod(pod);
}

fn plan(world: &mut World) -> (Plan, Report) {
    world.plan(Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1))
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn letter(&mut self) -> String {
        ["a", "b", "c", "d", "e", "f", "g"][self.roll(7)].to_owned()
    }
}

fn spread(key: &str, selector: &str) -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"my-label": selector}}}]})
}

fn term(kind: &str, key: &str, labels: &Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": labels}}]}}})
}

/// Karpenter's mix: a fifth each without constraints, spread over zones, spread over machines,
/// together in a zone, and apart on machines.
/// Source: kubernetes-sigs/karpenter
/// `pkg/controllers/provisioning/scheduling/scheduling_benchmark_test.go`.
fn diverse(count: usize) -> World {
    let mut world = world(400);
    let mut dice = Dice(42);
    for number in 0..count {
        let size = (
            [100, 250, 500, 1000, 1500][dice.roll(5)],
            [100, 256, 512, 1024, 2048, 4096][dice.roll(6)],
        );
        let (own, other) = (dice.letter(), dice.letter());
        let (kind, labels, spec) = match number % 5 {
            0 => ("generic", json!({"my-label": own}), json!({})),
            1 => ("zonal", json!({"my-label": own}), spread(labels::ZONE, &other)),
            2 => ("hosts", json!({"my-label": own}), spread(labels::HOSTNAME, &other)),
            3 => {
                let labels = json!({"my-affinity": own});
                ("together", labels.clone(), term("podAffinity", labels::ZONE, &labels))
            }
            _ => {
                let labels = json!({"app": "nginx"});
                ("apart", labels.clone(), term("podAntiAffinity", labels::HOSTNAME, &labels))
            }
        };
        add(&mut world, &format!("{kind}-{number:05}"), labels, spec, size);
    }
    world
}

/// The only zone of a launch.
fn zone(launch: &Launch) -> Option<String> {
    let zone = launch.requirements.iter().find(|r| r.key == labels::ZONE)?;
    (zone.values.len() == 1).then(|| zone.values[0].clone())
}

#[test]
fn karpenters_diverse_mix_is_placed_as_it_asks() {
    let mut world = diverse(1000);
    let pods: BTreeMap<String, Arc<Pod>> =
        world.snapshot.pods.iter().map(|pod| (pod.name.clone(), pod.clone())).collect();
    let (plan, report) = plan(&mut world);
    assert_eq!(report.unplaced, []);
    let placed: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    assert_eq!(placed, pods.len());
    let mut by_zone: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    let mut together: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
    for launch in &plan.launches {
        let here: Vec<&Pod> = launch.pods.iter().map(|(_, name)| &*pods[name]).collect();
        let labelled = |value: &str| {
            here.iter().filter(|p| p.labels.get("my-label").is_some_and(|v| v == value)).count()
        };
        assert!(here.iter().filter(|pod| pod.name.starts_with("apart")).count() <= 1);
        for pod in &here {
            if pod.name.starts_with("hosts") {
                let selector = pod.constraints.spread[0].selector.as_ref().unwrap();
                assert!(labelled(&selector.0[0].values[0]) <= 1, "{here:?}");
            } else if pod.name.starts_with("zonal") {
                let zone = zone(launch).unwrap();
                let counts = by_zone.entry(pod.labels["my-label"].clone()).or_default();
                *counts.entry(zone).or_default() += 1;
            } else if pod.name.starts_with("together") {
                let label = pod.labels["my-affinity"].clone();
                together.entry(label).or_default().insert(zone(launch));
            }
        }
    }
    for (label, counts) in by_zone {
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert!(counts.len() == 3 && most - least <= 1, "{label}: {counts:?}");
    }
    for (label, zones) in together {
        assert!(zones.len() == 1 && !zones.contains(&None), "{label}: {zones:?}");
    }
}

#[test]
fn the_plan_stands_once_it_is_carried_out() {
    let mut world = diverse(300);
    let (first, _) = plan(&mut world);
    world.carry_out(&first, Timestamp::UNIX_EPOCH);
    let (again, report) = plan(&mut world);
    assert_eq!(again.launches, []);
    assert_eq!(report.unplaced, []);
    // Without the memory of what was promised to whom.
    world.snapshot.nominations.clear();
    let (anew, report) = plan(&mut world);
    assert_eq!(report.unplaced, []);
    assert!(anew.launches.len() <= first.launches.len() / 10, "{}", anew.launches.len());
}

#[test]
fn ten_thousand_pods_that_shun_each_other_and_a_key_that_no_node_has() {
    let mut world = world(10);
    let labels = json!({"app": "shy"});
    for number in 0..10_000 {
        let spec = term("podAntiAffinity", labels::ZONE, &labels);
        add(&mut world, &format!("zone-{number:05}"), labels.clone(), spec, (100, 100));
    }
    for number in 0..1000 {
        let labels = json!({"app": "lost"});
        let spec = term("podAffinity", "example.com/nowhere", &labels);
        add(&mut world, &format!("lost-{number:05}"), labels, spec, (100, 100));
    }
    let (plan, report) = plan(&mut world);
    assert_eq!(plan.launches.len(), 3);
    assert_eq!(report.unplaced.len(), 10_997);
    let reason = |prefix: &str| {
        let unplaced = report.unplaced.iter().find(|u| u.pod.1.starts_with(prefix));
        unplaced.unwrap().message.clone()
    };
    assert_eq!(
        reason("zone-"),
        "unsatisfiable topology constraint for pod anti-affinity, key=topology.kubernetes.io/zone \
         (counts = z1: 1, z2: 1, z3: 1, podDomains = z1, z2, z3)"
    );
    assert!(reason("lost-").contains("key=example.com/nowhere"), "{}", reason("lost-"));
}

#[test]
fn ten_thousand_pods_that_shun_each_other_on_machines_get_one_each() {
    let mut world = world(10);
    let labels = json!({"app": "shy"});
    for number in 0..10_000 {
        let spec = term("podAntiAffinity", labels::HOSTNAME, &labels);
        add(&mut world, &format!("host-{number:05}"), labels.clone(), spec, (100, 100));
    }
    let (plan, report) = plan(&mut world);
    assert_eq!((plan.launches.len(), report.unplaced.len()), (10_000, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Zone spread by itself: what is placed is within the skew, and what is not could not be.
    #[test]
    fn zones_differ_by_the_skew_at_most(
        groups in proptest::collection::vec((1..20_u32, 1..4_u32, 0..3_usize), 1..4),
    ) {
        let mut world = world(8);
        for (group, (count, skew, zones)) in groups.iter().enumerate() {
            let label = format!("g{group}");
            let mut spec = spread(labels::ZONE, &label);
            spec["topologySpreadConstraints"][0]["maxSkew"] = json!(skew);
            let allowed = &["z1", "z2", "z3"][..3 - zones];
            spec["affinity"] = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": labels::ZONE, "operator": "In", "values": allowed}]}]}}});
            for number in 0..*count {
                let name = format!("{label}-{number:03}");
                add(&mut world, &name, json!({"my-label": label}), spec.clone(), (700, 300));
            }
        }
        let (plan, report) = plan(&mut world);
        prop_assert_eq!(&report.unplaced, &[]);
        for (group, (_, skew, zones)) in groups.iter().enumerate() {
            let mut counts: BTreeMap<&str, u32> =
                ["z1", "z2", "z3"][..3 - zones].iter().map(|zone| (*zone, 0)).collect();
            for launch in &plan.launches {
                let prefix = format!("g{group}-");
                for _ in launch.pods.iter().filter(|(_, name)| name.starts_with(&prefix)) {
                    let zone = zone(launch).unwrap();
                    *counts.get_mut(zone.as_str()).unwrap() += 1;
                }
            }
            let spread = counts.values().max().unwrap() - counts.values().min().unwrap();
            prop_assert!(spread <= *skew, "{:?}", counts);
        }
    }
}

/// One of the ways in which pods speak of each other: which, over which key, of whom, and how
/// strictly.
type Saying = (usize, usize, usize, usize);

/// What pods say that say all of this.
fn saying(all: &[Saying]) -> Value {
    let (mut together, mut apart, mut spread) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, key, app, skew) in all {
        let key = [labels::ZONE, labels::HOSTNAME, labels::CAPACITY_TYPE][*key];
        let selector = json!({"matchLabels": {"my-label": (["a", "b", "c"][*app])}});
        match kind {
            0 => {}
            1 => together.push(json!({"topologyKey": key, "labelSelector": selector})),
            2 => apart.push(json!({"topologyKey": key, "labelSelector": selector})),
            _ => spread.push(json!({"topologyKey": key, "labelSelector": selector,
                "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"})),
        }
    }
    let required =
        |terms: &[Value]| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    json!({"topologySpreadConstraints": spread, "affinity": {
        "podAffinity": required(&together), "podAntiAffinity": required(&apart)}})
}

/// Pods that are alike: what they say, their label, how many, their size, and the node that the
/// first of them runs on, if any.
type Likes = (Vec<Saying>, usize, u32, u32, usize);

/// A cluster of three nodes and these pods.
fn crowd(groups: &[Likes]) -> World {
    let mut world = world(6);
    for (number, zone) in ["z1", "z2", "z2"].into_iter().enumerate() {
        let kind = world.types[3].clone();
        let name = format!("n{number}");
        let state = world::node(&kind, &name, zone);
        world.snapshot.nodes.push(state);
    }
    for (group, (says, own, count, cpu, place)) in groups.iter().enumerate() {
        for number in 0..*count {
            let label = ["a", "b", "c"][*own];
            let name = format!("g{group}-{number}");
            add(&mut world, &name, json!({"my-label": label}), saying(says), (cpu * 300, 100));
            // Some run already, whether they should be there or not.
            if *place > 0 && number == 0 {
                let pod = Arc::make_mut(world.snapshot.pods.last_mut().unwrap());
                pod.node = Some(format!("n{}", place - 1));
                pod.unschedulable_since = None;
            }
        }
    }
    world
}

#[test]
fn pods_that_can_only_come_after_each_other_do_not_come() {
    const TOGETHER: usize = 1;
    let needs_c_in_zone = (vec![(TOGETHER, 0, 2, 1)], 0, 1, 1, 0);
    let needs_a_on_host = (vec![(TOGETHER, 1, 0, 1)], 2, 1, 1, 0);
    let mut circle = vec![needs_c_in_zone, needs_a_on_host];
    let (_, report) = plan(&mut crowd(&circle));
    let told: Vec<&str> = report.unplaced.iter().map(|u| u.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone: \
             no pod that matches can be placed before it",
            "unsatisfiable topology constraint for pod affinity, key=kubernetes.io/hostname: \
             no pod that matches can be placed before it"
        ]
    );
    circle.push((Vec::new(), 0, 1, 1, 0));
    let (_, report) = plan(&mut crowd(&circle));
    assert_eq!(report.unplaced, [], "one that needs nobody breaks the circle");
}

#[test]
fn all_terms_of_an_affinity_are_about_the_same_pods() {
    let mut world = world(6);
    let of = |names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| ((*name).into(), "".into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    add(&mut world, "a", of(&["a"]), json!({}), (100, 100));
    add(&mut world, "b", of(&["b"]), json!({}), (100, 100));
    let beside = |name: &str| {
        json!({"topologyKey": labels::ZONE,
        "labelSelector": {"matchExpressions": [{"key": name, "operator": "Exists"}]}})
    };
    let both = json!({"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [beside("a"), beside("b")]}}});
    add(&mut world, "guest", json!({}), both, (100, 100));
    let (_, report) = plan(&mut world);
    assert_eq!(report.unplaced.len(), 1, "neither is both: {:?}", report.unplaced);
    add(&mut world, "both", of(&["a", "b"]), json!({}), (100, 100));
    let (_, report) = plan(&mut world);
    assert_eq!(report.unplaced, []);
}

#[test]
fn domains_that_only_others_may_open_count_for_a_spread() {
    const APART: usize = 2;
    const SPREAD: usize = 3;
    // The first have to be on spot machines, of which there are none in z3. The fourth opens z3.
    let kept_off = (vec![(SPREAD, 0, 1, 1), (APART, 2, 0, 1)], 1, 3, 1, 0);
    let opens = (vec![(SPREAD, 0, 1, 1)], 0, 1, 1, 0);
    let runs = (Vec::new(), 0, 1, 1, 1);
    let (_, report) = plan(&mut crowd(&[kept_off, opens, runs]));
    assert_eq!(report.unplaced.len(), 1, "{:?}", report.unplaced);
}

#[test]
fn pods_that_want_to_be_together_and_apart_get_nothing() {
    const TOGETHER: usize = 1;
    const APART: usize = 2;
    let torn = (vec![(APART, 0, 2, 1), (TOGETHER, 1, 2, 1)], 2, 2, 1, 0);
    let (_, report) = plan(&mut crowd(&[torn]));
    assert_eq!(report.unplaced.len(), 2);
}

#[test]
fn a_bundle_counts_with_all_its_pods() {
    const TOGETHER: usize = 1;
    const SPREAD: usize = 3;
    // Three of two sizes want to be on one machine; who bears two at most goes elsewhere.
    let small = (vec![(TOGETHER, 1, 0, 1)], 0, 2, 1, 0);
    let large = (vec![(TOGETHER, 1, 0, 1)], 0, 1, 2, 0);
    let wary = (vec![(SPREAD, 1, 0, 2)], 1, 1, 1, 0);
    let mut world = crowd(&[small, large, wary]);
    let (plan, report) = plan(&mut world);
    assert_eq!(report.unplaced, []);
    let places: BTreeMap<&str, &str> = plan
        .nominations
        .iter()
        .map(|n| (n.pod.1.as_str(), n.node.as_deref().unwrap_or_default()))
        .collect();
    assert!(places["g0-0"] == places["g0-1"] && places["g0-0"] == places["g1-0"]);
    assert_ne!(places["g0-0"], places["g2-0"]);
}

/// How many made-up clusters a run looks at.
const CASES: u32 = 256;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]

    /// Whatever pods say of each other, the plan passes the check that debug builds make of every
    /// plan, and so does the one that follows it.
    #[test]
    fn plans_are_sound(
        groups in proptest::collection::vec(
            (
                proptest::collection::vec((0..4_usize, 0..3_usize, 0..3_usize, 1..3_usize), 0..2),
                0..3_usize, 1..5_u32, 1..3_u32, 0..4_usize,
            ),
            1..10,
        ),
    ) {
        let mut world = crowd(&groups);
        let (first, _) = plan(&mut world);
        world.carry_out(&first, Timestamp::UNIX_EPOCH);
        let (again, _) = plan(&mut world);
        prop_assert!(again.launches.len() <= first.launches.len());
    }
}
