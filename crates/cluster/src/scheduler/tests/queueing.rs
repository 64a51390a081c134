use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{World, said, typed};
use crate::registry::DeleteOptions;
use crate::scheduler::pod::PodInfo;
use crate::scheduler::queue::Queue;

/// When the tests' clock begins.
const BEGIN: i64 = 1_736_149_882;

const NO_NODES: (&str, &str) = ("FailedScheduling", "no nodes available to schedule pods");

/// The only event about pods: how often it was seen, and when last, in seconds after the first.
fn seen(world: &World) -> (i32, i64) {
    let events = world.cluster.list::<Event>("default");
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(event.message.as_deref(), Some(NO_NODES.1));
    let first = event.event_time.as_ref().unwrap().0;
    let series = event.series.as_ref();
    let last = series.map_or(first, |s| s.last_observed_time.as_ref().unwrap().0);
    // The same for those who sort by whole seconds.
    let seconds = |time: &Option<Time>| time.as_ref().unwrap().0.as_second();
    assert_eq!(seconds(&event.first_timestamp), first.as_second());
    assert_eq!(seconds(&event.last_timestamp), last.as_second());
    (series.map_or(1, |s| s.count.unwrap()), last.duration_since(first).as_secs())
}

#[tokio::test(start_paused = true)]
async fn without_nodes_a_pod_is_tried_again_after_its_back_off() {
    let world = World::new();
    world.pod("pi", json!({"cpu": "500m"}));
    world.settle().await;
    assert_eq!(world.message("pi"), NO_NODES.1);
    let status = world.get("pi").status.unwrap();
    assert_eq!(status.conditions.unwrap()[0].observed_generation, Some(1));
    let version = world.get("pi").metadata.resource_version;
    for (second, count, last) in [
        (0, 1, 0),
        (1, 2, 1),
        (2, 2, 1),
        (3, 3, 3),
        (7, 4, 7),
        (15, 5, 15),
        (25, 6, 25),
        (35, 7, 35),
    ] {
        let since = world.cluster.clock().now().as_second() - BEGIN;
        world.wait(Duration::from_secs(second - u64::try_from(since).unwrap())).await;
        assert_eq!(seen(&world), (count, last), "after {second} s");
    }
    assert_eq!(world.get("pi").metadata.resource_version, version);
    // A node that comes is found when the back-off ends.
    world.large("n1");
    world.wait(Duration::from_secs(9)).await;
    assert_eq!(world.node_of("pi"), None);
    world.wait(Duration::from_secs(1)).await;
    assert_eq!(world.node_of("pi").as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_keeps_its_message_until_the_first_node_is_ready() {
    let world = World::new();
    world.wait(Duration::from_millis(20)).await;
    world.pod("pi", json!({"cpu": "500m", "memory": "1000Mi"}));
    world.settle().await;
    let taints = json!({"taints": [
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]});
    let room = json!({"cpu": "1930m", "memory": "3114Mi", "pods": "29"});
    world.wait(Duration::from_secs(20)).await;
    world.node("n1", json!({}), taints, room);
    world.wait(Duration::from_secs(20)).await;
    let untaint = |from: usize| {
        world
            .cluster
            .modify::<Node>("", "n1", |node| {
                node.spec.as_mut().unwrap().taints.as_mut().unwrap().truncate(from);
            })
            .unwrap();
    };
    untaint(1);
    world.wait(Duration::from_secs(5)).await;
    assert_eq!(seen(&world), (5, 15));
    untaint(0);
    world.settle().await;
    assert_eq!(
        world.events("pi"),
        said(&[NO_NODES, ("Scheduled", "Successfully assigned default/pi to n1")])
    );
}

#[tokio::test(start_paused = true)]
async fn taints_are_told_if_they_stay() {
    let world = World::new();
    world.pod("p", json!({"cpu": "1"}));
    world.settle().await;
    let taints = json!({"taints": [{"key": "mine", "effect": "NoSchedule"}]});
    world.node("n1", json!({}), taints, json!({"cpu": "2", "memory": "4Gi", "pods": "29"}));
    world.wait(Duration::from_secs(290)).await;
    assert_eq!(world.message("p"), NO_NODES.1);
    world.wait(Duration::from_secs(20)).await;
    assert!(world.message("p").starts_with("0/1 nodes are available: 1 node(s) had untolerated"));
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
async fn what_fits_nowhere_is_looked_at_again_after_five_minutes() {
    let world = World::new();
    world.large("n1");
    world.pod("p", json!({"cpu": "8"}));
    world.settle().await;
    let count = |world: &World| {
        let events = world.cluster.list::<Event>("default");
        let series = events[0].series.as_ref();
        (events.len(), series.and_then(|series| series.count))
    };
    assert_eq!(count(&world), (1, None));
    let version = world.get("p").metadata.resource_version;
    for repeats in [2, 3] {
        world.wait(Duration::from_secs(301)).await;
        assert_eq!(count(&world), (1, Some(repeats)));
    }
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

#[test]
fn a_machine_that_is_a_little_late_makes_no_back_off_longer() {
    let pod: Pod = typed(json!({
        "metadata": {"name": "pi", "namespace": "default", "uid": "1"},
        "spec": {"containers": [{"name": "c", "image": "perl"}]}}));
    let info = Arc::new(PodInfo::read(&pod).unwrap());
    let key = info.key();
    let at = |milliseconds| Timestamp::from_millisecond(1000 * BEGIN + milliseconds).unwrap();
    let mut queue = Queue::default();
    queue.add(info, 1, at(570));
    let mut tried = 570;
    for due in [2_000, 4_000, 8_000, 16_000, 26_000] {
        assert_eq!(queue.pop(at(tried)).as_ref(), Some(&key), "at {tried}");
        queue.put_after_error(&key, at(tried + 3));
        assert_eq!(queue.next_timer(), Some(at(due)));
        tried = due + 1;
    }
}
