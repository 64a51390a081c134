//! What is wrong in a cluster is named in the report; nothing panics and the rest is planned for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod world;

use std::path::Path;
use std::sync::Arc;

use aerostat_engine::plan::Plan;
use aerostat_engine::report::Report;
use aerostat_engine::snapshot::Promise;
use serde_json::{Value, json};
use world::World;
use world::read::{Scenario, time};

/// A pool of one type of 4 cores in two zones.
fn cluster() -> Value {
    json!({
        "types": [{"name": "c1.large", "cpu": "4", "memory": "8Gi", "zones": ["a", "b"],
            "price": 0.1, "allocatable": {"cpu": "3900m", "memory": "7Gi", "pods": "20"}}],
        "pools": [{
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"template": {"spec": {"nodeClassRef":
                {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}}}},
        }],
        "steps": [{"at": "10:00:00", "pods": [{"name": "x", "spec": pod("1", json!({}))}]}],
    })
}

fn pod(cpu: &str, mut spec: Value) -> Value {
    spec["containers"] =
        json!([{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]);
    spec
}

fn world(cluster: &Value) -> World {
    let scenario: Scenario = serde_saphyr::from_str(&cluster.to_string()).unwrap();
    let mut world = scenario.world(Path::new("."));
    scenario.steps.iter().for_each(|step| step.apply(&mut world));
    world
}

fn plan(cluster: &Value) -> (Plan, Report) {
    world(cluster).plan(time("10:00:00"))
}

/// What the report says of pools and of pods without a place.
fn told(report: &Report) -> String {
    let pools = report.pools.iter().map(|problem| format!("{}: {}", problem.pool, problem.message));
    let pods =
        report.unplaced.iter().map(|unplaced| format!("{}: {}", unplaced.pod.1, unplaced.message));
    pools.chain(pods).collect::<Vec<_>>().join("\n")
}

/// Nothing is ordered, and the report has all these words.
fn assert_named(cluster: &Value, words: &[&str]) {
    let (plan, report) = plan(cluster);
    assert!(plan.launches.is_empty(), "{:?}", plan.launches);
    let told = told(&report);
    for word in words {
        assert!(told.contains(word), "{word:?} is not in:\n{told}");
    }
}

fn requiring(requirement: Value) -> Value {
    let mut cluster = cluster();
    cluster["pools"][0]["spec"]["template"]["spec"]["requirements"] = json!([requirement]);
    cluster
}

#[test]
fn the_cluster_is_fine_without_damage() {
    let (plan, report) = plan(&cluster());
    assert_eq!((plan.launches.len(), told(&report).as_str()), (1, ""));
}

#[test]
fn requirements_that_cannot_be_read_are_named() {
    let zone = "topology.kubernetes.io/zone";
    let unknown = requiring(json!({"key": zone, "operator": "Like", "values": ["a"]}));
    assert_named(&unknown, &["p: requirements[0]: unknown operator \"Like\""]);
    let word = requiring(json!({"key": zone, "operator": "Gt", "values": ["four"]}));
    assert_named(&word, &["p: requirements[0]: topology.kubernetes.io/zone: Gt takes one integer"]);
}

#[test]
fn contradictions_leave_nothing_to_buy() {
    let mut cluster =
        requiring(json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}));
    let template = &mut cluster["pools"][0]["spec"]["template"]["spec"];
    let other = json!({"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"]});
    template["requirements"].as_array_mut().unwrap().push(other);
    assert_named(&cluster, &["p: NodePool requirements filtered out all", "x: "]);
}

#[test]
fn min_values_beyond_what_exists_are_named() {
    let cluster = requiring(json!({"key": "node.kubernetes.io/instance-type",
        "operator": "Exists", "minValues": 50}));
    assert_named(&cluster, &["p: NodePool requirements filtered out all", "minValues"]);
}

#[test]
fn an_empty_catalogue_is_named() {
    let mut cluster = cluster();
    cluster["types"] = json!([]);
    assert_named(&cluster, &["p: NodePool requirements filtered out all", "x: "]);
}

#[test]
fn what_has_no_price_is_not_bought_and_what_is_free_is() {
    let with_price = |price: f64| {
        let mut world = world(&cluster());
        for pool in &mut world.snapshot.pools {
            for kind in Arc::make_mut(&mut pool.types) {
                kind.offerings.iter_mut().for_each(|offering| offering.price = price);
            }
        }
        aerostat_engine::plan(&world.snapshot, time("10:00:00"))
    };
    for price in [f64::NAN, f64::INFINITY, -0.1] {
        let (plan, report) = with_price(price);
        assert!(plan.launches.is_empty(), "{price}");
        assert!(told(&report).contains("p: NodePool requirements filtered out all"), "{price}");
    }
    assert_eq!(with_price(0.0).0.launches.len(), 1);
}

#[test]
fn machines_without_memory_hold_nothing() {
    let mut cluster = cluster();
    cluster["types"][0]["allocatable"] = json!({"cpu": "3900m", "pods": "20"});
    assert_named(&cluster, &["x: "]);
}

#[test]
fn enormous_requests_do_not_overflow() {
    let mut cluster = cluster();
    let requests = json!({"memory": (1_u64 << 62).to_string()});
    cluster["steps"][0]["pods"] = json!([{"name": "x", "replicas": 5, "spec":
        {"containers": [{"name": "c", "resources": {"requests": requests}}]}}]);
    assert_named(&cluster, &["x-001: ", "x-005: "]);
}

#[test]
fn a_topology_key_that_no_node_has_is_named() {
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "nowhere",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]});
    let mut cluster = cluster();
    cluster["steps"][0]["pods"] =
        json!([{"name": "x", "labels": {"app": "a"}, "spec": pod("1", spread)}]);
    assert_named(&cluster, &["x: ", "nowhere"]);
}

#[test]
fn a_daemon_that_fits_nowhere_keeps_no_pod_off_what_it_does_not_run_on() {
    let daemon = |spec: Value| json!([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}, "spec": spec}]);
    let mut cluster = cluster();
    cluster["daemons"] = daemon(pod("64", json!({"nodeSelector": {"nobody": "has"}})));
    assert_eq!(plan(&cluster).0.launches.len(), 1);
    cluster["daemons"] = daemon(pod("64", json!({})));
    let (plan, report) = plan(&cluster);
    assert!(plan.launches.is_empty());
    assert!(told(&report).contains("x: "), "{}", told(&report));
}

#[test]
fn a_limit_of_zero_is_named() {
    let mut cluster = cluster();
    cluster["pools"][0]["spec"]["limits"] = json!({"cpu": "0"});
    assert_named(&cluster, &["x: ", "limits"]);
}

#[test]
fn twins_are_named_and_others_served() {
    let mut world = world(&cluster());
    let twin = world.snapshot.pods[0].clone();
    let mut other = (*twin).clone();
    other.name = "y".to_owned();
    world.snapshot.pods.extend([twin, Arc::new(other)]);
    let (plan, report) = world.plan(time("10:00:00"));
    let pods: Vec<_> = plan.launches.iter().flat_map(|launch| &launch.pods).collect();
    assert_eq!(pods.len(), 1);
    assert!(told(&report).contains("x: another pod has the same namespace and name"));
}

#[test]
fn a_pool_without_a_class_is_named() {
    let mut world = world(&cluster());
    world.snapshot.pools[0].class = None;
    let (plan, report) = world.plan(time("10:00:00"));
    assert!(plan.launches.is_empty());
    assert!(told(&report).contains("p: nodeClassRef: missing"), "{}", told(&report));
}

#[test]
fn a_claim_names_a_type_even_if_settings_allow_none() {
    let mut world = world(&cluster());
    world.snapshot.settings.max_instance_types = 0;
    assert_eq!(world.plan(time("10:00:00")).0.launches.len(), 1);
}

#[test]
fn ten_thousand_pods_that_shun_each_other_get_a_machine_each() {
    let apart = json!({"affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "a"}}}]}}});
    let mut cluster = cluster();
    cluster["steps"][0]["pods"] = json!([{"name": "x", "replicas": 1, "labels": {"app": "a"},
        "spec": pod("1", apart)}]);
    let mut world = world(&cluster);
    let sample = world.snapshot.pods.remove(0);
    let named = |n: u32| {
        Arc::new(aerostat_engine::pod::Pod { name: format!("x-{n:05}"), ..(*sample).clone() })
    };
    world.snapshot.pods = (0..10_000).map(named).collect();
    let (plan, report) = aerostat_engine::plan(&world.snapshot, time("10:00:00"));
    assert_eq!((plan.launches.len(), report.unplaced.len()), (10_000, 0));
    assert!(plan.launches.iter().all(|launch| launch.pods.len() == 1));
}

#[test]
fn twin_pools_nodes_and_types_are_named_and_left_out() {
    let mut twins = cluster();
    let mut other = twins["pools"][0].clone();
    other["metadata"]["name"] = json!("q");
    twins["pools"].as_array_mut().unwrap().push(other);
    let mut clear = world(&twins);
    let twin = clear.snapshot.pools[0].clone();
    clear.snapshot.pools.insert(0, twin);
    let (plan, report) = clear.plan(time("10:00:00"));
    assert!(plan.launches.iter().all(|launch| launch.pool == "q"), "{:?}", plan.launches);
    assert_eq!(plan.launches.len(), 1);
    assert!(told(&report).contains("p: another NodePool has the same name"), "{report:?}");

    let mut types = world(&cluster());
    let pool = &mut types.snapshot.pools[0];
    let mut kinds = pool.types.to_vec();
    kinds.push(kinds[0].clone());
    pool.types = Arc::new(kinds);
    let (plan, report) = types.plan(time("10:00:00"));
    assert_eq!(plan.launches, []);
    assert!(told(&report).contains("more than one instance type is called c1.large"));

    let mut there = cluster();
    there["steps"][0]["nodes"] =
        json!([{"name": "n", "pool": "p", "type": "c1.large", "zone": "a"}]);
    let mut nodes = world(&there);
    let node = nodes.snapshot.nodes[0].clone();
    nodes.snapshot.nodes.push(node);
    let (plan, report) = nodes.plan(time("10:00:00"));
    assert_eq!((plan.nominations.len(), plan.terminations.len()), (0, 0));
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(report.left_out[0].what, "node n");
}

#[test]
fn promises_beyond_what_one_plan_is_for_are_told_of() {
    let mut promising = world(&cluster());
    let pod = promising.snapshot.pods[0].clone();
    let owner = aerostat_engine::pod::Owner {
        kind: "ReplicaSet".to_owned(),
        name: "many".to_owned(),
        uid: "many".to_owned(),
    };
    let pod = Arc::new(aerostat_engine::pod::Pod { owner: Some(owner), ..(*pod).clone() });
    promising.snapshot.pods[0] = pod.clone();
    promising.snapshot.promised.push(Promise { pod, count: u32::MAX });
    let (plan, report) = promising.plan(time("10:00:00"));
    assert_eq!(plan.launches.iter().map(|launch| launch.promised).sum::<u32>(), 10_000);
    assert_eq!(report.left_out[0].what, "promised pods of ReplicaSet/many in default");
    assert_eq!(report.left_out[0].why, "10000 of 4294967295: one plan is for 10000 at most");
}
