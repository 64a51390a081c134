use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{World, said, typed};
use crate::registry::DeleteOptions;

fn balloon() -> Value {
    json!({"cpu": "500m", "memory": "750Mi", "priorityClassName": "balloon",
           "terminationGracePeriodSeconds": 0})
}

fn job() -> Value {
    json!({"cpu": "500m", "memory": "1000Mi"})
}

/// What its kubelet would report.
fn start(world: &World, name: &str) {
    let now = world.cluster.clock().now();
    world
        .cluster
        .modify_status::<Pod>("default", name, |pod| {
            let status = pod.status.as_mut().unwrap();
            status.phase = Some("Running".into());
            status.start_time = Some(Time(now));
        })
        .unwrap();
}

/// Three balloons on one node, started one after the other.
async fn warm() -> World {
    let world = World::new();
    world.class("balloon", -10, "Never");
    world.large("n1");
    for name in ["b1", "b2", "b3"] {
        world.pod(name, balloon());
        world.settle().await;
        start(&world, name);
        world.wait(Duration::from_secs(10)).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn the_warm_story() {
    let world = warm().await;
    world.pod("pi", job());
    world.settle().await;
    assert_eq!(
        world.events("pi"),
        said(&[
            (
                "FailedScheduling",
                "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
            ),
            ("Scheduled", "Successfully assigned default/pi to n1"),
        ])
    );
    let pi = world.get("pi");
    assert_eq!(pi.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(pi.status.unwrap().nominated_node_name, None);
    // The newest balloon went, at once, and was told why.
    let names: Vec<_> = world
        .cluster
        .list::<Pod>("default")
        .iter()
        .map(|pod| pod.metadata.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["b1", "b2", "pi"]);
    let uid = pi.metadata.uid.unwrap();
    let told = world.events("b3");
    assert_eq!(told[1].0, "Preempted");
    assert_eq!(told[1].1, format!("Preempted by pod {uid} on node n1"));
    // Its replacement finds no room and preempts nobody.
    world.pod("b4", balloon());
    world.settle().await;
    assert_eq!(
        world.message("b4"),
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. no new claims to \
         deallocate, preemption: not eligible due to preemptionPolicy=Never."
    );
    // When the job is done, the replacement gets its room.
    world
        .cluster
        .modify_status::<Pod>("default", "pi", |pod| {
            pod.status.as_mut().unwrap().phase = Some("Succeeded".into());
        })
        .unwrap();
    world.settle().await;
    assert_eq!(world.node_of("b4").as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn room_stays_for_its_pod_while_victims_leave() {
    let world = warm().await;
    world.cluster.delete::<Pod>("default", "b3", &DeleteOptions::default()).unwrap();
    let mut slow = balloon();
    slow["terminationGracePeriodSeconds"] = 20.into();
    world.pod("slow", slow);
    world.settle().await;
    start(&world, "slow");
    world.pod("pi", job());
    world.settle().await;
    let pi = world.get("pi").status.unwrap();
    assert_eq!(pi.nominated_node_name.as_deref(), Some("n1"));
    let victim = world.get("slow");
    assert!(victim.metadata.deletion_timestamp.is_some());
    let conditions = victim.status.unwrap().conditions.unwrap();
    let target = conditions.iter().find(|c| c.type_ == "DisruptionTarget").unwrap();
    assert_eq!(target.reason.as_deref(), Some("PreemptionByScheduler"));
    assert_eq!(
        target.message.as_deref(),
        Some("default-scheduler: preempting to accommodate a higher priority pod")
    );
    // A balloon that fits beside the leaving victim must not take what is meant for the pod.
    world.cluster.delete::<Pod>("default", "b2", &DeleteOptions::default()).unwrap();
    world.pod("b4", balloon());
    world.pod("b5", balloon());
    world.settle().await;
    let on_node = ["b4", "b5"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert_eq!(on_node, 0, "pi takes the room first: {:?}", world.node_of("pi"));
    let gone = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
    world.cluster.delete::<Pod>("default", "slow", &gone).unwrap();
    world.settle().await;
    assert_eq!(world.node_of("pi").as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_victims_and_takes_no_more() {
    let world = World::new();
    world.class("low", -1, "PreemptLowerPriority");
    world.large("n1");
    for name in ["v1", "v2", "v3"] {
        world.pod(name, json!({"cpu": "600m", "priorityClassName": "low"}));
    }
    world.settle().await;
    world.pod("p", json!({"cpu": "600m"}));
    world.settle().await;
    let leaving = |world: &World| {
        ["v1", "v2", "v3"]
            .iter()
            .filter(|name| world.get(name).metadata.deletion_timestamp.is_some())
            .count()
    };
    assert_eq!(leaving(&world), 1);
    // A retry while the victim leaves finds nobody else.
    world.wait(Duration::from_secs(301)).await;
    assert_eq!(leaving(&world), 1);
    assert_eq!(
        world.message("p"),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: \
         not eligible due to a terminating pod on the nominated node."
    );
    assert_eq!(world.get("p").status.unwrap().nominated_node_name.as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn the_node_where_it_hurts_least_is_chosen() {
    let world = World::new();
    world.class("lower", -20, "Never");
    world.class("low", -10, "Never");
    let on = |node: &str, class: &str, cpu: &str| {
        json!({"cpu": cpu, "priorityClassName": class, "terminationGracePeriodSeconds": 0,
               "nodeSelector": {"is": node}})
    };
    for name in ["n1", "n2", "n3"] {
        let room = json!({"cpu": "2", "memory": "4Gi", "pods": "10"});
        world.node(name, json!({"is": name}), json!({}), room);
    }
    world.pod("a", on("n1", "low", "2"));
    world.pod("b1", on("n2", "lower", "1"));
    world.pod("b2", on("n2", "lower", "1"));
    world.pod("c", on("n3", "lower", "2"));
    world.settle().await;
    world.pod("p", json!({"cpu": "2"}));
    world.settle().await;
    // n1's victim ranks higher, n2 would lose two.
    assert_eq!(world.node_of("p").as_deref(), Some("n3"));
    assert!(world.cluster.get::<Pod>("default", "c").is_none());
}

#[tokio::test(start_paused = true)]
async fn budgets_are_heeded_where_possible() {
    let world = World::new();
    world.class("low", -10, "Never");
    world.large("n1");
    for name in ["old", "new"] {
        let spec = json!({"cpu": "900m", "priorityClassName": "low",
                          "terminationGracePeriodSeconds": 0});
        world.pod(name, spec);
        world.settle().await;
        start(&world, name);
        world.wait(Duration::from_secs(5)).await;
    }
    world.create::<PodDisruptionBudget>(
        "default",
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1,
               "selector": {"matchLabels": {"name": "new"}}}}),
    );
    world.pod("p", json!({"cpu": "900m"}));
    world.settle().await;
    // Without the budget the newer pod would go.
    assert!(world.cluster.get::<Pod>("default", "old").is_none());
    assert!(world.cluster.get::<Pod>("default", "new").is_some());
}

#[tokio::test(start_paused = true)]
async fn why_preemption_does_not_help_is_told() {
    let world = World::new();
    world.class("low", -10, "Never");
    world.large("n1");
    world.large("n2");
    world.pod("equal", json!({"cpu": "1900m", "nodeSelector": {"a": "b"}}));
    world.pod("low", json!({"cpu": "1000m", "priorityClassName": "low"}));
    world
        .cluster
        .modify::<Node>("", "n1", |node| {
            node.metadata.labels = Some(typed(json!({"a": "b"})));
        })
        .unwrap();
    world.settle().await;
    world.pod("high", json!({"cpu": "900m"}));
    world.settle().await;
    assert_eq!(world.node_of("high").as_deref(), Some("n2"));
    world.pod("p", json!({"cpu": "1500m"}));
    world.settle().await;
    assert_eq!(
        world.message("p"),
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: \
         0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming \
         pod."
    );
    assert!(world.cluster.get::<Pod>("default", "low").is_some());
}
