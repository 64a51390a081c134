use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::json;

use super::World;

#[tokio::test(start_paused = true)]
async fn thousands_of_pods_without_nodes_are_told_of_repeats_in_moderation() {
    let world = World::new();
    for i in 0..2000 {
        world.pod(&format!("p{i}"), json!({"cpu": "1"}));
    }
    let before = world.cluster.store().revision();
    world.settle().await;
    // One event and one status for each, and then a hundred of the repeats.
    assert_eq!(world.cluster.store().revision() - before, 4000);
    world.wait(Duration::from_secs(15)).await;
    assert_eq!(world.cluster.store().revision() - before, 4400);
    let counts = world.cluster.list::<Event>("default");
    let counts: i32 = counts.iter().filter_map(|event| event.series.as_ref()?.count).sum();
    assert_eq!(counts, 100 * 5);
    // A node that is not ready says nothing new.
    let taints =
        json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]});
    world.node("n1", json!({}), taints, json!({"cpu": "1930m", "memory": "3114Mi", "pods": "29"}));
    let before = world.cluster.store().revision();
    world.wait(Duration::from_secs(20)).await;
    assert_eq!(world.cluster.store().revision(), before);
    // Ready it takes one of them, and makes few others try.
    world
        .cluster
        .modify::<Node>("", "n1", |node| node.spec.as_mut().unwrap().taints = None)
        .unwrap();
    let before = world.cluster.store().revision();
    world.settle().await;
    let bound = world.cluster.list::<Pod>("default");
    let bound = bound.iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.is_some()).count();
    assert_eq!(bound, 1);
    assert!(world.cluster.store().revision() - before <= 2 * 101);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_pods_fill_hundreds_of_nodes() {
    let world = World::new();
    for i in 0..200 {
        let room = json!({"cpu": "10", "memory": "10Gi", "pods": "110"});
        world.node(&format!("n{i}"), json!({}), json!({}), room);
    }
    for i in 0..2000 {
        world.pod(&format!("p{i}"), json!({"cpu": "1", "memory": "1Gi"}));
    }
    world.settle().await;
    let mut used = std::collections::BTreeMap::<String, usize>::new();
    for pod in world.cluster.list::<Pod>("default") {
        *used.entry(pod.spec.as_ref().unwrap().node_name.clone().unwrap()).or_default() += 1;
    }
    assert_eq!(used.len(), 200);
    assert!(used.values().all(|count| *count == 10));
    assert_eq!(world.cluster.list::<Event>("default").len(), 2000);
}
