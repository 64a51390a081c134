use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::json;

use super::{World, said, typed};

#[tokio::test(start_paused = true)]
async fn a_pod_goes_where_it_fits_and_an_event_says_so() {
    let world = World::new();
    let zone = json!({"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"});
    world.node("n1", zone, json!({}), json!({"cpu": "2", "memory": "4Gi", "pods": "10"}));
    world.pod("p", json!({"cpu": "1"}));
    world.settle().await;
    let pod = world.get("p");
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
    let labels = pod.metadata.labels.clone().unwrap();
    assert_eq!(labels["topology.kubernetes.io/zone"], "a");
    assert_eq!(labels["topology.kubernetes.io/region"], "r");
    let conditions = pod.status.unwrap().conditions.unwrap();
    assert_eq!(conditions.len(), 1);
    assert_eq!(
        (conditions[0].type_.as_str(), conditions[0].status.as_str()),
        ("PodScheduled", "True")
    );
    assert_eq!(world.events("p"), said(&[("Scheduled", "Successfully assigned default/p to n1")]));

    let event = &world.cluster.list::<Event>("default")[0];
    assert_eq!(event.reporting_component.as_deref(), Some("default-scheduler"));
    assert_eq!(
        (event.action.as_deref(), event.type_.as_deref()),
        (Some("Binding"), Some("Normal"))
    );
    assert_eq!(event.source.as_ref().unwrap().component, None);
    let time = event.event_time.as_ref().unwrap().0;
    for seconds in [&event.first_timestamp, &event.last_timestamp] {
        assert_eq!(seconds.as_ref().unwrap().0.as_second(), time.as_second());
    }
    let nanos = time.as_nanosecond();
    assert_eq!(event.metadata.name.as_deref(), Some(format!("p.{nanos:x}").as_str()));
    assert_eq!(event.involved_object.uid, pod.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn every_node_gives_its_reason() {
    let world = World::new();
    let room = || json!({"cpu": "2", "memory": "4Gi", "pods": "10"});
    world.node(
        "full",
        json!({"disk": "ssd"}),
        json!({}),
        json!({"cpu": "500m", "memory": "4Gi", "pods": "10"}),
    );
    world.node("cordoned", json!({}), json!({"unschedulable": true}), room());
    let taint = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
    world.node("tainted", json!({}), taint, room());
    world.pod("p", json!({"cpu": "1"}));
    world.pod("selective", json!({"cpu": "100m", "nodeSelector": {"disk": "hdd"}}));
    world.settle().await;
    assert_eq!(
        world.message("p"),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), \
         1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are \
         available: 3 Preemption is not helpful for scheduling."
    );
    assert_eq!(
        world.message("selective"),
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) \
         had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn affinity_to_a_node_name_leaves_the_others_out() {
    let world = World::new();
    for name in ["n1", "n2", "n3"] {
        world.large(name);
    }
    let to = |name: &str| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields":
                [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}})
    };
    world.pod("fits", json!({"cpu": "1", "affinity": to("n2")}));
    world.pod("huge", json!({"cpu": "3", "affinity": to("n2")}));
    world.settle().await;
    assert_eq!(world.node_of("fits").as_deref(), Some("n2"));
    assert_eq!(
        world.message("huge"),
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) \
         [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are available: 3 \
         Preemption is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_judged_is_told() {
    let world = World::new();
    world.large("n1");
    let claim = json!([{"name": "gpu", "resourceClaimName": "c"}]);
    world.pod("p", json!({"cpu": "1", "resourceClaims": claim}));
    world.settle().await;
    assert_eq!(
        world.message("p"),
        "0/1 nodes are available: resource claims not supported by this embedded \
         scheduler. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption \
         is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn others_pods_and_gated_pods_are_left_alone() {
    let world = World::new();
    world.large("n1");
    world.pod("other", json!({"schedulerName": "mine"}));
    world.pod("gated", json!({"schedulingGates": [{"name": "g"}]}));
    world.settle().await;
    for name in ["other", "gated"] {
        assert_eq!(world.node_of(name), None);
        assert_eq!(world.events(name), []);
    }
    world
        .cluster
        .modify::<Pod>("default", "gated", |pod| {
            pod.spec.as_mut().unwrap().scheduling_gates = None;
        })
        .unwrap();
    world.settle().await;
    assert_eq!(world.node_of("gated").as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn scores_prefer_room_affinity_images_and_no_taints() {
    let world = World::new();
    let room = || json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    world.node("n1", json!({}), json!({}), room());
    world.node("n2", json!({"disk": "ssd"}), json!({}), room());
    let soft = json!({"taints": [{"key": "cold", "effect": "PreferNoSchedule"}]});
    world.node("n3", json!({}), soft, json!({"cpu": "64", "memory": "128Gi", "pods": "110"}));
    let wish = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}});
    world.pod("wishing", json!({"cpu": "1", "memory": "2Gi", "affinity": wish}));
    world.settle().await;
    assert_eq!(world.node_of("wishing").as_deref(), Some("n2"));
    // n2 is a quarter full; n3 is empty, but its taint weighs more.
    world.pod("plain", json!({"cpu": "1", "memory": "2Gi"}));
    world.settle().await;
    assert_eq!(world.node_of("plain").as_deref(), Some("n1"));
    // n1 and n2 are equal but for the image.
    world
        .cluster
        .modify_status::<Node>("", "n2", |node| {
            node.status.as_mut().unwrap().images =
                Some(typed(json!([{"names": ["i:1"], "sizeBytes": 900_000_000}])));
        })
        .unwrap();
    world.pod("imaged", json!({"cpu": "1", "memory": "2Gi"}));
    world.settle().await;
    assert_eq!(world.node_of("imaged").as_deref(), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_draws_the_same_nodes() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let world = World::new();
        for i in 0..10 {
            world.large(&format!("n{i}"));
        }
        for i in 0..10 {
            world.pod(&format!("p{i}"), json!({"cpu": "1", "memory": "1Gi"}));
        }
        world.settle().await;
        let nodes: Vec<_> = (0..10).map(|i| world.node_of(&format!("p{i}")).unwrap()).collect();
        runs.push(nodes);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], (0..10).map(|i| format!("n{i}")).collect::<Vec<_>>());
}
