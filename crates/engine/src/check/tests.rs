//! Plans that are wrong in one way each.

use std::sync::Arc;

use aerostat_api::labels as known;
use aerostat_api::nodepool::{Budget, NodeClassRef, NodeSelectorRequirement};
use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use super::*;
use crate::instance::{InstanceType, Offering};
use crate::node::Node;
use crate::plan::{Launch, Nomination, Termination};
use crate::pod::{Owner, Pod};
use crate::resources::Resources;
use crate::snapshot::{Pool, Stage, StateNode};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn pod(name: &str, cpu: &str, spec: Value) -> Pod {
    let mut spec = spec;
    let requests = json!({"cpu": cpu, "memory": "1Gi"});
    let ports = spec.get("ports").cloned().unwrap_or(json!([]));
    spec["containers"] =
        json!([{"name": "c", "resources": {"requests": requests}, "ports": ports}]);
    let pod: core::Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "d", "labels": {"app": "a"}}, "spec": spec,
    }))
    .unwrap();
    // What the planner cannot judge yet is judged here all the same.
    Pod { unsupported: Vec::new(), ..Pod::from_k8s(&pod).unwrap() }
}

fn key(name: &str) -> PodKey {
    ("d".to_owned(), name.to_owned())
}

fn resources(cores: i64) -> Resources {
    Resources { cpu: cores * 1000, memory: cores << 32, pods: 10, ..Resources::default() }
}

fn kind(name: &str, cores: i64) -> InstanceType {
    let offering = |zone: &str| Offering {
        zone: zone.to_owned(),
        capacity_type: "on-demand".to_owned(),
        price: 0.1,
        available: true,
        reservation: None,
    };
    InstanceType {
        name: name.to_owned(),
        labels: [(known::ARCH.to_owned(), "amd64".to_owned())].into(),
        offerings: vec![offering("a"), offering("b")],
        capacity: resources(cores),
        allocatable: resources(cores),
    }
}

fn requirement(key: &str, values: &[&str]) -> NodeSelectorRequirement {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values,
        min_values: None,
    }
}

fn class() -> NodeClassRef {
    NodeClassRef { group: "g".to_owned(), kind: "K".to_owned(), name: "n".to_owned() }
}

fn pool() -> Pool {
    Pool {
        name: "p".to_owned(),
        uid: String::new(),
        weight: 0,
        usable: Ok(()),
        requirements: Vec::new(),
        labels: Default::default(),
        annotations: Default::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        class: Some(class()),
        hash: String::new(),
        limits: Default::default(),
        max_price: None,
        budget_time_zone: None,
        move_price: None,
        replicas: None,
        budgets: Vec::new(),
        consolidate_after: Some(std::time::Duration::ZERO),
        policy: String::new(),
        termination_grace: None,
        expire_after: None,
        types: Arc::new(vec![kind("large", 8), kind("small", 2)]),
    }
}

/// A node of 8 cores.
fn node(name: &str, zone: &str) -> StateNode {
    StateNode {
        node: Node {
            name: name.to_owned(),
            labels: [(known::ZONE.to_owned(), zone.to_owned())].into(),
            allocatable: resources(8),
            ..Node::default()
        },
        has_node: true,
        claim: Some(format!("claim-{name}")),
        pool: Some("p".to_owned()),
        stage: Stage::Initialized,
        deleting: false,
        do_not_disrupt: false,
        capacity: resources(8),
        created: NOW,
        initialized: Some(NOW),
        last_pod_event: None,
        nominated_until: None,
        price: None,
        planned: Default::default(),
        replaces: None,
        obsolete: None,
        expires: None,
    }
}

fn snapshot(pods: Vec<Pod>, nodes: Vec<StateNode>) -> Snapshot {
    let pods = pods.into_iter().map(Arc::new).collect();
    Snapshot { pods, nodes, pools: vec![pool()], ..Snapshot::default() }
}

/// A claim for these pods that may become these types in these zones.
fn launch(pods: &[&str], types: &[&str], zones: &[&str]) -> Launch {
    Launch {
        pool: "p".to_owned(),
        pool_uid: String::new(),
        labels: [(known::NODEPOOL.to_owned(), "p".to_owned())].into(),
        annotations: Default::default(),
        requirements: vec![
            requirement(known::INSTANCE_TYPE, types),
            requirement(known::ZONE, zones),
        ]
        .into(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        class: class(),
        requests: resources(64).quantities(),
        termination_grace: None,
        expire_after: None,
        pods: pods.iter().map(|name| key(name)).collect(),
        promised: 0,
    }
}

fn on(pod: &str, node: &str) -> Nomination {
    Nomination { pod: key(pod), claim: None, node: Some(node.to_owned()) }
}

fn ordering(launches: Vec<Launch>) -> Plan {
    Plan { launches, ..Plan::default() }
}

fn nominating(nominations: Vec<Nomination>) -> Plan {
    Plan { nominations, ..Plan::default() }
}

fn told(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    check(snapshot, plan, NOW).iter().map(ToString::to_string).collect()
}

/// Requirements on other pods with `app: a`, by a topology key.
fn affinity(kind: &str, key: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": key}]}}})
}

fn spread(key: &str) -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]})
}

#[test]
fn a_right_plan_has_nothing_wrong() {
    let cluster =
        snapshot(vec![pod("x", "1", json!({})), pod("y", "1", json!({}))], vec![node("n", "a")]);
    let plan = Plan {
        nominations: vec![on("x", "n")],
        launches: vec![launch(&["y"], &["small", "large"], &["a", "b"])],
        ..Plan::default()
    };
    assert_eq!(told(&cluster, &plan), [""; 0]);
}

#[test]
fn pods_are_placed_once_and_only_if_they_wait() {
    let bound = Pod { node: Some("n".to_owned()), ..pod("bound", "1", json!({})) };
    let cluster = snapshot(vec![pod("x", "1", json!({})), bound], vec![node("n", "a")]);
    let mut twice = launch(&["x", "bound", "ghost"], &["large"], &["a"]);
    twice.promised = 2;
    let plan = Plan { nominations: vec![on("x", "n")], launches: vec![twice], ..Plan::default() };
    assert_eq!(
        told(&cluster, &plan),
        [
            "pod d/x is placed twice",
            "pod d/bound is placed and does not wait for a place",
            "pod d/ghost is placed and does not wait for a place",
            "2 promised pods are placed, only 0 are promised",
        ]
    );
    assert_eq!(
        told(&cluster, &nominating(vec![on("x", "m")])),
        ["pod d/x is sent to \"m\", which does not exist"]
    );
}

#[test]
fn a_claim_holds_its_pods_whatever_it_becomes() {
    let cluster = snapshot(vec![pod("x", "3", json!({}))], Vec::new());
    assert_eq!(told(&cluster, &ordering(vec![launch(&["x"], &["large"], &["a"])])), [""; 0]);
    assert_eq!(
        told(&cluster, &ordering(vec![launch(&["x"], &["large", "small"], &["a"])])),
        ["launch 0 of pool p as small a on-demand has 2000 of cpu, 3000 are asked for"]
    );
    let mut daemon = pod("d", "6", json!({}));
    daemon.owner = Some(Owner { kind: "DaemonSet".into(), name: "d".into(), uid: "d".into() });
    let with_daemon = Snapshot { daemons: vec![Arc::new(daemon)], ..cluster };
    assert_eq!(
        told(&with_daemon, &ordering(vec![launch(&["x"], &["large"], &["a"])])),
        ["launch 0 of pool p as large a on-demand has 8000 of cpu, 9000 are asked for"]
    );
}

#[test]
fn a_node_has_room_beside_those_that_are_there() {
    let there = Pod { node: Some("n".to_owned()), ..pod("there", "6", json!({})) };
    let cluster = snapshot(vec![pod("x", "3", json!({})), there], vec![node("n", "a")]);
    assert_eq!(
        told(&cluster, &nominating(vec![on("x", "n")])),
        ["node n has 8000 of cpu, 9000 are asked for"]
    );
}

#[test]
fn labels_taints_and_ports_keep_pods_off() {
    let port = json!({"ports": [{"containerPort": 1, "hostPort": 80}]});
    let term =
        json!([{"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["b"]}]);
    let cluster = snapshot(
        vec![
            pod("p1", "1", port.clone()),
            pod("p2", "1", port),
            pod(
                "picky",
                "1",
                json!({"affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": term}]}}}}),
            ),
            pod("plain", "1", json!({})),
        ],
        vec![node("n", "a")],
    );
    assert_eq!(
        told(&cluster, &nominating(vec![on("p1", "n"), on("p2", "n")])),
        ["pod d/p1 may not be on node n: host port 80 is taken"]
    );
    assert_eq!(
        told(&cluster, &ordering(vec![launch(&["picky"], &["large"], &["a", "b"])])),
        ["pod d/picky may not be on launch 0 of pool p as large b on-demand: \
          its node selector or node affinity excludes it"]
    );
    let mut tainted = cluster;
    let taint = core::Taint { key: "t".into(), effect: "NoExecute".into(), ..Default::default() };
    tainted.nodes[0].node.taints = vec![taint];
    assert_eq!(
        told(&tainted, &nominating(vec![on("plain", "n")])),
        ["pod d/plain may not be on node n: it does not tolerate the taint t"]
    );
    tainted.nodes[0].node.taints.clear();
    tainted.nodes[0].node.unschedulable = true;
    assert_eq!(
        told(&tainted, &nominating(vec![on("plain", "n")])),
        ["pod d/plain may not be on node n: it takes no pods any more"]
    );
}

#[test]
fn claims_are_what_their_pool_makes() {
    let mut cluster = snapshot(vec![pod("x", "1", json!({}))], Vec::new());
    cluster.pools[0].requirements = vec![NodeSelectorRequirement {
        min_values: Some(2),
        ..requirement(known::INSTANCE_TYPE, &["small"])
    }];
    let wide = launch(&["x"], &["large", "small"], &["a"]);
    assert_eq!(
        told(&cluster, &ordering(vec![wide])),
        ["launch 0 of pool p: its pool excludes what it may become, \
          by node.kubernetes.io/instance-type"]
    );
    let narrow = launch(&["x"], &["small"], &["a"]);
    assert_eq!(
        told(&cluster, &ordering(vec![narrow.clone()])),
        [
            "launch 0 of pool p: 1 values of node.kubernetes.io/instance-type are left, minValues is 2"
        ]
    );
    cluster.pools[0].requirements.clear();
    let nowhere = launch(&["x"], &["small"], &["c"]);
    assert_eq!(
        told(&cluster, &ordering(vec![nowhere])),
        ["launch 0 of pool p: nothing that is to be had satisfies it"]
    );
    let poor = Launch { requests: Default::default(), ..narrow.clone() };
    assert_eq!(
        told(&cluster, &ordering(vec![poor])),
        ["launch 0 of pool p: its pods ask for more cpu than it requests"]
    );
    cluster.pools[0].labels.insert("team".into(), "red".into());
    assert_eq!(
        told(&cluster, &ordering(vec![narrow.clone()])),
        ["launch 0 of pool p: its labels are not those of its pool"]
    );
    cluster.pools[0].usable = Err("why".to_owned());
    assert_eq!(
        told(&cluster, &ordering(vec![narrow])),
        ["launch 0 of pool p: its pool may not launch"]
    );
}

#[test]
fn limits_hold_for_the_most_that_claims_may_become() {
    let mut cluster = snapshot(vec![pod("x", "1", json!({}))], vec![node("n", "a")]);
    let limit = |units| aerostat_api::Quantity::from_units(units);
    cluster.pools[0].limits = [("cpu".into(), limit(12)), ("nodes".into(), limit(1))].into();
    let order = |types: &[&str]| ordering(vec![launch(&["x"], types, &["a"])]);
    let nodes = "pool p would hold 2 of nodes, its limit is 1";
    assert_eq!(told(&cluster, &order(&["small"])), [nodes]);
    assert_eq!(
        told(&cluster, &order(&["small", "large"])),
        ["pool p would hold 16000 of cpu, its limit is 12000", nodes]
    );
}

#[test]
fn only_what_is_empty_and_free_to_go_goes() {
    let there = Pod { node: Some("n".to_owned()), ..pod("there", "1", json!({})) };
    let mut cluster = snapshot(vec![there], vec![node("n", "a"), node("m", "a")]);
    let give_up = |names: &[&str]| Plan {
        terminations: names
            .iter()
            .map(|name| Termination {
                claim: format!("claim-{name}"),
                node: Some((*name).to_owned()),
                pool: "p".to_owned(),
                reason: "Empty".to_owned(),
            })
            .collect(),
        ..Plan::default()
    };
    assert_eq!(told(&cluster, &give_up(&["m"])), [""; 0]);
    assert_eq!(
        told(&cluster, &give_up(&["n", "z"])),
        [
            "claim claim-n must stay: pod d/there runs there",
            "claim claim-z must stay: there is no such claim"
        ]
    );
    cluster.pools[0].budgets =
        vec![Budget { nodes: "0".into(), reasons: None, schedule: None, duration: None }];
    assert_eq!(told(&cluster, &give_up(&["m"])), ["1 machines of pool p are given up, 0 may go"]);
    cluster.pools[0].budgets.clear();
    cluster.nodes[1].do_not_disrupt = true;
    assert_eq!(
        told(&cluster, &give_up(&["m"])),
        ["claim claim-m must stay: it is not to be disrupted"]
    );
}

#[test]
fn pods_that_shun_each_other_are_apart() {
    let shy = |name: &str, by: &str| pod(name, "1", affinity("podAntiAffinity", by));
    let cluster = snapshot(vec![shy("x", known::HOSTNAME), shy("y", known::HOSTNAME)], Vec::new());
    let together = ordering(vec![launch(&["x", "y"], &["large"], &["a"])]);
    assert_eq!(
        told(&cluster, &together),
        ["pod d/x may not be on launch 0 of pool p: \
          anti-affinity with pod d/x, by kubernetes.io/hostname"]
    );
    let apart = |zones: [&str; 2]| {
        ordering(vec![
            launch(&["x"], &["large"], &[zones[0]]),
            launch(&["y"], &["large"], &[zones[1], "b"]),
        ])
    };
    assert_eq!(told(&cluster, &apart(["a", "a"])), [""; 0]);
    let cluster = snapshot(vec![shy("x", known::ZONE), shy("y", known::ZONE)], Vec::new());
    assert_eq!(told(&cluster, &apart(["a", "b"])), [""; 0]);
    assert_eq!(told(&cluster, &apart(["a", "a"])).len(), 1, "the second may land in zone a");
}

#[test]
fn running_pods_keep_off_whom_they_shun() {
    let there = Pod {
        node: Some("n".to_owned()),
        ..pod("there", "1", affinity("podAntiAffinity", known::ZONE))
    };
    let cluster =
        snapshot(vec![there, pod("x", "1", json!({}))], vec![node("n", "a"), node("m", "a")]);
    assert_eq!(
        told(&cluster, &nominating(vec![on("x", "m")])),
        ["pod d/x may not be on node m: \
          anti-affinity with pod d/there, by topology.kubernetes.io/zone"]
    );
    assert_eq!(told(&cluster, &ordering(vec![launch(&["x"], &["small"], &["b"])])), [""; 0]);
}

#[test]
fn pods_that_seek_company_find_it() {
    let seeking = |name: &str| pod(name, "1", affinity("podAffinity", known::ZONE));
    let cluster = snapshot(vec![seeking("x"), seeking("y")], vec![node("n", "a")]);
    let order = |zone: &str| Plan {
        nominations: vec![on("x", "n")],
        launches: vec![launch(&["y"], &["small"], &[zone])],
        ..Plan::default()
    };
    assert_eq!(told(&cluster, &order("a")), [""; 0], "the first may go anywhere");
    let lonely = told(&cluster, &order("b"));
    assert_eq!(lonely.len(), 1);
    assert!(
        lonely[0].ends_with("no pod that its affinity asks for, by topology.kubernetes.io/zone")
    );
    let there = Pod { node: Some("n".to_owned()), ..pod("there", "1", json!({})) };
    let cluster = snapshot(vec![there, seeking("x")], vec![node("n", "a"), node("m", "b")]);
    assert_eq!(told(&cluster, &nominating(vec![on("x", "n")])), [""; 0]);
    assert_eq!(told(&cluster, &nominating(vec![on("x", "m")])).len(), 1);
}

#[test]
fn pods_are_spread() {
    let even = |name: &str| pod(name, "1", spread(known::ZONE));
    let cluster = snapshot(vec![even("x"), even("y"), even("z")], vec![node("n", "a")]);
    let order = |zones: [&str; 2]| Plan {
        nominations: vec![on("x", "n")],
        launches: vec![
            launch(&["y"], &["small"], &[zones[0]]),
            launch(&["z"], &["small"], &[zones[1]]),
        ],
        ..Plan::default()
    };
    assert_eq!(told(&cluster, &order(["a", "b"])), [""; 0]);
    assert_eq!(told(&cluster, &order(["b", "b"])), [""; 0]);
    let two = snapshot(vec![even("x"), even("y"), even("z")], vec![node("n", "a"), node("m", "b")]);
    assert_eq!(
        told(&two, &order(["a", "a"])),
        ["pod d/x may not be on node n: 3 pods in a domain of topology.kubernetes.io/zone, \
          0 in the emptiest, maxSkew 1"]
    );
    let no_zone = StateNode {
        node: Node { labels: Default::default(), ..node("n", "a").node },
        ..node("n", "a")
    };
    let bare = snapshot(vec![even("x")], vec![no_zone]);
    assert_eq!(
        told(&bare, &nominating(vec![on("x", "n")])),
        ["pod d/x may not be on node n: the machine has no label topology.kubernetes.io/zone"]
    );
}

#[test]
fn volumes_are_where_they_can_be_and_not_too_many() {
    let claimed = |name: &str| {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
        pod(name, "1", json!({"volumes": volumes}))
    };
    let there = Pod { node: Some("n".to_owned()), ..claimed("old") };
    let mut limited = node("n", "a");
    limited.node.attach_limits = [("csi".to_owned(), 2)].into();
    let pods = vec![there, claimed("new"), claimed("other"), claimed("none")];
    let mut cluster = snapshot(pods, vec![limited, node("m", "b")]);
    let terms = json!([{"matchExpressions":
        [{"key": known::ZONE, "operator": "In", "values": ["a"]}]}]);
    let volume = crate::storage::Volume {
        terms: serde_json::from_value(terms).unwrap(),
        driver: Some("csi".to_owned()),
        ..Default::default()
    };
    let claim = crate::storage::Claim {
        volume: Some("pv".to_owned()),
        is_bound: true,
        ..Default::default()
    };
    let storage = Arc::make_mut(&mut cluster.storage);
    storage.volumes.insert("pv".to_owned(), volume);
    for name in ["old", "new", "other"] {
        storage.claims.insert(key(name), claim.clone());
    }
    let nominated = |pods: &[(&str, &str)]| {
        let nomination = |(pod, node): &(&str, &str)| Nomination {
            pod: key(pod),
            claim: Some(format!("claim-{node}")),
            node: Some((*node).to_owned()),
        };
        let plan = Plan { nominations: pods.iter().map(nomination).collect(), ..Plan::default() };
        check(&cluster, &plan, NOW).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(nominated(&[("new", "n")]).is_empty());
    assert_eq!(
        nominated(&[("new", "m")]),
        ["pod d/new may not be on node m: the volume of claim new cannot be there"]
    );
    assert_eq!(
        nominated(&[("none", "n")]),
        ["pod d/none may not be on node n: the volume of claim none cannot be there"]
    );
    assert_eq!(
        nominated(&[("new", "n"), ("other", "n")]),
        ["node n has 2 of volumes of csi, 3 are asked for"]
    );
}
