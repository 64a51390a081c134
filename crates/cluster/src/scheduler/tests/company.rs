use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service, ServiceAccount};
use serde_json::{Value, json};

use super::{World, typed};
use crate::registry::DeleteOptions;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const VAIN: &str = "no new claims to deallocate, preemption:";

impl World {
    /// A node with 2 CPUs in a zone.
    fn zonal(&self, name: &str, zone: &str) {
        let room = json!({"cpu": "2", "memory": "4Gi", "pods": "20"});
        self.node(name, json!({HOSTNAME: name, ZONE: zone}), json!({}), room);
    }

    /// A pod of an app that asks for some CPU.
    fn app(&self, name: &str, app: &str, cpu: &str, spec: Value) {
        self.app_in("default", name, json!({"labels": {"app": app}}), cpu, spec);
    }

    fn app_in(&self, namespace: &str, name: &str, meta: Value, cpu: &str, spec: Value) {
        let (mut meta, mut spec) = (meta, spec);
        meta["name"] = name.into();
        spec["containers"] = json!([{"name": "c", "image": "i:1",
            "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}]);
        self.create::<Pod>(namespace, json!({"metadata": meta, "spec": spec}));
    }

    fn delete(&self, name: &str) {
        let now = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
        self.cluster.delete::<Pod>("default", name, &now).unwrap();
    }

    fn zone_of(&self, name: &str) -> Option<String> {
        let node = self.cluster.get::<Node>("", &self.node_of(name)?).unwrap();
        node.metadata.labels.as_ref()?.get(ZONE).cloned()
    }
}

fn term(app: &str, key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn near(app: &str, key: &str) -> Value {
    json!({"affinity": {"podAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}})
}

fn apart(app: &str, key: &str) -> Value {
    json!({"affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}})
}

fn spread(app: &str, key: &str) -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]})
}

#[tokio::test(start_paused = true)]
async fn pods_that_shun_each_other_take_a_node_each() {
    let world = World::new();
    world.zonal("n1", "a");
    world.zonal("n2", "a");
    for name in ["p1", "p2", "p3", "p4"] {
        world.app(name, "web", "100m", apart("web", HOSTNAME));
        world.settle().await;
    }
    assert_ne!(world.node_of("p1").unwrap(), world.node_of("p2").unwrap());
    assert_eq!(
        world.message("p3"),
        format!(
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. {VAIN} 0/2 \
             nodes are available: 2 No preemption victims found for incoming pod."
        )
    );
    // Who goes makes room for one.
    let node = world.node_of("p1");
    world.delete("p1");
    world.settle().await;
    assert_eq!((world.node_of("p3"), world.node_of("p4")), (node, None));
    // A new node takes the next.
    world.zonal("n3", "a");
    world.settle().await;
    assert_eq!(world.node_of("p4").as_deref(), Some("n3"));
}

#[tokio::test(start_paused = true)]
async fn who_is_there_keeps_others_out_of_the_whole_zone() {
    let world = World::new();
    world.zonal("n1", "a");
    world.zonal("n2", "a");
    let mut shy = apart("web", ZONE);
    shy["nodeSelector"] = json!({HOSTNAME: "n1"});
    world.app("shy", "shy", "100m", shy);
    world.settle().await;
    world.app("p", "web", "100m", json!({"nodeSelector": {HOSTNAME: "n2"}}));
    world.settle().await;
    assert_eq!(
        world.message("p"),
        format!(
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 \
             node(s) didn't satisfy existing pods anti-affinity rules. {VAIN} 0/2 nodes are \
             available: 1 No preemption victims found for incoming pod, 1 Preemption is not \
             helpful for scheduling."
        )
    );
    // It was on another node.
    world.delete("shy");
    world.settle().await;
    assert_eq!(world.node_of("p").as_deref(), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn followers_wait_for_their_leader_and_go_where_it_is() {
    let world = World::new();
    world.zonal("n1", "a");
    world.zonal("n2", "b");
    world.zonal("n3", "b");
    for name in ["f1", "f2", "f3"] {
        world.app(name, "follower", "100m", near("leader", ZONE));
    }
    world.settle().await;
    assert_eq!(
        world.message("f1"),
        format!(
            "0/3 nodes are available: 3 node(s) didn't match pod affinity rules. {VAIN} 0/3 nodes \
             are available: 3 Preemption is not helpful for scheduling."
        )
    );
    world.app("leader", "leader", "100m", json!({"nodeSelector": {HOSTNAME: "n2"}}));
    world.settle().await;
    for name in ["f1", "f2", "f3"] {
        assert_eq!(world.zone_of(name).as_deref(), Some("b"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_without_a_leader_gathers_where_its_first_goes() {
    let world = World::new();
    for name in ["n1", "n2", "n3"] {
        world.zonal(name, name);
    }
    for name in ["p1", "p2", "p3"] {
        world.app(name, "group", "600m", near("group", ZONE));
    }
    world.settle().await;
    let zone = world.zone_of("p1");
    assert!(zone.is_some());
    assert_eq!((world.zone_of("p2"), world.zone_of("p3")), (zone.clone(), zone));
    // The zone is full; the others do not count.
    world.app("p4", "group", "600m", near("group", ZONE));
    world.settle().await;
    assert!(world.message("p4").starts_with(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match pod affinity rules. "
    ));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_its_zone_takes_its_pods_along() {
    let world = World::new();
    world.zonal("n1", "a");
    world.zonal("n2", "b");
    world.app("leader", "leader", "100m", json!({"nodeSelector": {HOSTNAME: "n1"}}));
    let mut follower = near("leader", ZONE);
    follower["nodeSelector"] = json!({HOSTNAME: "n2"});
    world.app("follower", "follower", "100m", follower);
    world.settle().await;
    assert_eq!(world.node_of("follower"), None);
    world
        .cluster
        .modify::<Node>("", "n1", |node| {
            node.metadata.labels = Some(typed(json!({HOSTNAME: "n1", ZONE: "b"})));
        })
        .unwrap();
    world.settle().await;
    assert_eq!(world.node_of("follower").as_deref(), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn pods_spread_over_zones_and_wait_rather_than_crowd() {
    let world = World::new();
    world.zonal("n1", "a");
    world.zonal("n2", "a");
    world.zonal("n3", "b");
    world.large("unzoned");
    for i in 0..5 {
        world.app(&format!("p{i}"), "web", "800m", spread("web", ZONE));
        world.settle().await;
    }
    let zones: Vec<_> = (0..4).map(|i| world.zone_of(&format!("p{i}")).unwrap()).collect();
    assert_eq!(zones.iter().filter(|zone| *zone == "a").count(), 2, "{zones:?}");
    // One more may go to `a`; then zone `b` is full, and `a` too far ahead.
    assert_eq!(world.zone_of("p4").as_deref(), Some("a"));
    world.app("p5", "web", "800m", spread("web", ZONE));
    world.settle().await;
    assert_eq!(
        world.message("p5"),
        format!(
            "0/4 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 \
             node(s) didn't match pod topology spread constraints (missing required label), 2 \
             Insufficient cpu. {VAIN} 0/4 nodes are available: 1 Preemption is not helpful for \
             scheduling, 3 No preemption victims found for incoming pod."
        )
    );
    // With its zone gone, nothing is to be balanced with.
    world.cluster.delete::<Node>("", "n3", &DeleteOptions::default()).unwrap();
    world.settle().await;
    assert_eq!(world.zone_of("p5").as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn who_is_shunned_does_not_hold_up_others_of_its_size() {
    let world = World::new();
    world.zonal("n1", "a");
    world.app("full", "x", "1700m", json!({}));
    world.settle().await;
    // They are alike until somebody comes who shuns the first.
    world.app("first", "a", "1700m", json!({}));
    world.app("second", "b", "1700m", json!({}));
    world.settle().await;
    world.app("shy", "shy", "100m", apart("a", HOSTNAME));
    world.settle().await;
    assert_eq!(world.node_of("shy").as_deref(), Some("n1"));
    world.delete("full");
    world.settle().await;
    assert_eq!((world.node_of("first"), world.node_of("second")), (None, Some("n1".into())));
}

#[tokio::test(start_paused = true)]
async fn preemption_removes_those_that_are_shunned() {
    let world = World::new();
    world.class("low", -10, "Never");
    world.zonal("n1", "a");
    let low = || json!({"priorityClassName": "low", "terminationGracePeriodSeconds": 0});
    world.app("bystander", "x", "100m", low());
    world.app("web", "web", "100m", low());
    world.settle().await;
    // There is room enough.
    world.app("p", "shy", "100m", apart("web", HOSTNAME));
    world.settle().await;
    assert_eq!(world.node_of("p").as_deref(), Some("n1"));
    assert!(world.cluster.get::<Pod>("default", "web").is_none());
    assert!(world.cluster.get::<Pod>("default", "bystander").is_some());
}

#[tokio::test(start_paused = true)]
async fn preemption_evens_out_a_spread() {
    let world = World::new();
    world.class("low", -10, "Never");
    world.zonal("n1", "a");
    world.zonal("n2", "b");
    for (name, app) in [("w1", "web"), ("x1", "x")] {
        let spec = json!({"priorityClassName": "low", "terminationGracePeriodSeconds": 0,
                          "nodeSelector": {HOSTNAME: "n1"}});
        world.app(name, app, "100m", spec);
    }
    // Zone `b` is full with pods that do not give way.
    world.app("rock", "rock", "2", json!({"nodeSelector": {HOSTNAME: "n2"}}));
    world.settle().await;
    world.app("p", "web", "100m", spread("web", ZONE));
    world.settle().await;
    assert_eq!(world.node_of("p").as_deref(), Some("n1"));
    assert!(world.cluster.get::<Pod>("default", "w1").is_none());
    assert!(world.cluster.get::<Pod>("default", "x1").is_some());
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_selected_by_their_labels() {
    let world = World::new();
    world.zonal("n1", "a");
    world.zonal("n2", "a");
    let team = |name: &str| json!({"metadata": {"name": name, "labels": {"team": name}}});
    world.create::<Namespace>("", team("ours"));
    world.create::<Namespace>("", team("theirs"));
    for (namespace, node) in [("ours", "n1"), ("theirs", "n2")] {
        world.create::<ServiceAccount>(namespace, json!({"metadata": {"name": "default"}}));
        let spec = json!({"nodeSelector": {HOSTNAME: node}});
        let meta = json!({"labels": {"app": "web"}});
        world.app_in(namespace, "web", meta, "100m", spec);
    }
    world.settle().await;
    let mut shuns = term("web", HOSTNAME);
    shuns["namespaceSelector"] = json!({"matchLabels": {"team": "ours"}});
    let mut spec = apart("web", HOSTNAME);
    spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0] =
        shuns;
    for name in ["p1", "p2"] {
        world.app(name, "shy", "100m", spec.clone());
    }
    world.settle().await;
    for name in ["p1", "p2"] {
        assert_eq!(world.node_of(name).as_deref(), Some("n2"));
    }
}

/// Two nodes of which the first is better for everything but company.
fn uneven() -> World {
    let world = World::new();
    for (name, zone, cpu) in [("big", "a", "64"), ("small", "b", "4")] {
        let room = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
        world.node(name, json!({HOSTNAME: name, ZONE: zone}), json!({}), room);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn preferred_company_weighs_more_than_room() {
    let world = uneven();
    world.app("db", "db", "1", json!({"nodeSelector": {HOSTNAME: "small"}}));
    world.app("plain", "x", "1", json!({}));
    let wish = |kind: &str| {
        json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "podAffinityTerm": term("db", ZONE)}]}}})
    };
    world.app("fan", "fan", "1", wish("podAffinity"));
    world.settle().await;
    assert_eq!(world.node_of("plain").as_deref(), Some("big"));
    assert_eq!(world.node_of("fan").as_deref(), Some("small"));
    // Those who are there wish too: one draws the next database near.
    world.app("db2", "db", "100m", json!({}));
    world.settle().await;
    assert_eq!(world.node_of("db2").as_deref(), Some("small"));
}

#[tokio::test(start_paused = true)]
async fn replicas_and_pods_of_a_service_are_spread_by_default() {
    let world = uneven();
    let labels = json!({"app": "web"});
    world.create::<ReplicaSet>(
        "default",
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}}),
    );
    world.create::<Service>(
        "default",
        json!({"metadata": {"name": "api"},
               "spec": {"selector": {"app": "api"}, "ports": [{"port": 80}]}}),
    );
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                        "uid": "u", "controller": true}]);
    let owned = json!({"labels": labels, "ownerReferences": owner});
    for i in 0..2 {
        world.app(&format!("bare{i}"), "web-like", "100m", json!({}));
        world.app_in("default", &format!("web{i}"), owned.clone(), "100m", json!({}));
        world.app(&format!("api{i}"), "api", "100m", json!({}));
        world.settle().await;
    }
    let nodes = |app: &str| {
        let mut nodes: Vec<_> =
            (0..2).map(|i| world.node_of(&format!("{app}{i}")).unwrap()).collect();
        nodes.sort();
        nodes
    };
    assert_eq!(nodes("bare"), ["big", "big"]);
    assert_eq!(nodes("web"), ["big", "small"]);
    assert_eq!(nodes("api"), ["big", "small"]);
}

#[tokio::test(start_paused = true)]
async fn hundreds_that_shun_each_other_fill_the_nodes_that_there_are() {
    let world = World::new();
    for i in 0..100 {
        world.zonal(&format!("n{i}"), ["a", "b", "c"][i % 3]);
    }
    for i in 0..150 {
        world.app(&format!("p{i}"), "web", "100m", apart("web", HOSTNAME));
        world.app(&format!("s{i}"), "even", "100m", spread("even", ZONE));
    }
    world.settle().await;
    let bound = |prefix: &str| {
        let names = (0..150).map(|i| format!("{prefix}{i}"));
        names.filter_map(|name| world.node_of(&name)).collect::<Vec<_>>()
    };
    let mut web = bound("p");
    web.sort();
    web.dedup();
    assert_eq!((bound("p").len(), web.len()), (100, 100));
    let zone = |zone: &str| {
        (0..150).filter(|i| world.zone_of(&format!("s{i}")).as_deref() == Some(zone)).count()
    };
    assert_eq!((zone("a"), zone("b"), zone("c")), (50, 50, 50));
}
