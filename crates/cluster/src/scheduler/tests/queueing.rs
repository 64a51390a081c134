use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::json;

use super::{World, said, typed};
use crate::registry::DeleteOptions;

const NO_NODES: (&str, &str) = ("FailedScheduling", "no nodes available to schedule pods");

#[tokio::test(start_paused = true)]
async fn a_pod_keeps_its_first_message_until_the_node_is_ready() {
    let world = World::new();
    world.pod("pi", json!({"cpu": "500m", "memory": "1000Mi"}));
    world.settle().await;
    assert_eq!(world.message("pi"), NO_NODES.1);
    let status = world.get("pi").status.unwrap();
    assert_eq!(status.conditions.unwrap()[0].observed_generation, Some(1));

    let taints = json!({"taints": [
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]});
    let room = json!({"cpu": "1930m", "memory": "3114Mi", "pods": "29"});
    world.node("n1", json!({}), taints, room);
    world.wait(Duration::from_secs(20)).await;
    world
        .cluster
        .modify::<Node>("", "n1", |node| {
            node.spec.as_mut().unwrap().taints.as_mut().unwrap().remove(0);
        })
        .unwrap();
    world.wait(Duration::from_secs(5)).await;
    assert_eq!(world.events("pi"), said(&[NO_NODES]));
    world
        .cluster
        .modify::<Node>("", "n1", |node| node.spec.as_mut().unwrap().taints = None)
        .unwrap();
    world.settle().await;
    assert_eq!(
        world.events("pi"),
        said(&[NO_NODES, ("Scheduled", "Successfully assigned default/pi to n1")])
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_wakes_only_those_that_it_may_help() {
    let world = World::new();
    world.large("n1");
    world.pod("selective", json!({"nodeSelector": {"disk": "ssd"}}));
    world.pod("huge", json!({"cpu": "8"}));
    world.settle().await;
    let count = |name: &str| world.events(name).len();
    assert_eq!((count("selective"), count("huge")), (1, 1));
    // More of the same helps neither.
    world.large("n2");
    world.settle().await;
    assert_eq!((count("selective"), count("huge")), (1, 1));
    world
        .cluster
        .modify::<Node>("", "n1", |node| {
            node.metadata.labels = Some(typed(json!({"disk": "ssd"})));
        })
        .unwrap();
    world.settle().await;
    assert_eq!(world.node_of("selective").as_deref(), Some("n1"));
    world
        .cluster
        .modify_status::<Node>("", "n2", |node| {
            node.status.as_mut().unwrap().allocatable =
                Some(typed(json!({"cpu": "16", "memory": "32Gi", "pods": "29"})));
        })
        .unwrap();
    world.settle().await;
    assert_eq!(world.node_of("huge").as_deref(), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn room_that_becomes_free_goes_by_priority_then_age() {
    let world = World::new();
    world.class("high", 10, "Never");
    world.large("n1");
    world.pod("full", json!({"cpu": "1900m"}));
    world.settle().await;
    for name in ["first", "second"] {
        world.pod(name, json!({"cpu": "1900m"}));
        world.settle().await;
    }
    world.pod("urgent", json!({"cpu": "1900m", "priorityClassName": "high"}));
    world.settle().await;
    let now = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
    for (leaves, comes) in [("full", "urgent"), ("urgent", "first"), ("first", "second")] {
        world.cluster.delete::<Pod>("default", leaves, &now).unwrap();
        world.settle().await;
        assert_eq!(world.node_of(comes).as_deref(), Some("n1"), "{comes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_counts_up_and_writes_no_status() {
    let world = World::new();
    world.pod("p", json!({"cpu": "1"}));
    world.settle().await;
    let count = |world: &World| {
        let events = world.cluster.list::<Event>("default");
        assert_eq!(events[0].message.as_deref(), Some(NO_NODES.1));
        let series = events.last().unwrap().series.as_ref();
        (events.len(), series.and_then(|series| series.count))
    };
    assert_eq!(count(&world), (1, None));
    let version = world.get("p").metadata.resource_version;
    // Looked at again after five minutes: the status write began a new event.
    world.wait(Duration::from_secs(301)).await;
    assert_eq!(count(&world), (2, None));
    world.wait(Duration::from_secs(301)).await;
    assert_eq!(count(&world), (2, Some(2)));
    assert_eq!(world.get("p").metadata.resource_version, version);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_forgotten() {
    let world = World::new();
    world.pod("p", json!({"cpu": "1"}));
    world.settle().await;
    world.cluster.delete::<Pod>("default", "p", &DeleteOptions::default()).unwrap();
    world.large("n1");
    world.wait(Duration::from_secs(600)).await;
    assert_eq!(world.events("p"), said(&[NO_NODES]));
}
