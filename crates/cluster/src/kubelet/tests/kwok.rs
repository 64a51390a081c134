//! Nodes that KWOK would play.

use super::*;

/// A node as Karpenter's KWOK provider makes it: without an address.
async fn kwok_node(cluster: &Cluster) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n1", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "64"}},
    }))
    .unwrap();
    cluster.create("", &node).unwrap();
    wait(cluster, 1.0).await;
}

fn status(cluster: &Cluster, name: &str) -> PodStatus {
    cluster.get::<Pod>("default", name).unwrap().status.clone().unwrap()
}

fn ready(cluster: &Cluster, name: &str) -> String {
    let conditions = status(cluster, name).conditions.unwrap();
    conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap().status
}

fn sleeper() -> Value {
    // Elsewhere it would end, and fail its probe.
    json!({"containers": [{
        "name": "c", "image": "alpine:3.20", "command": ["sleep", "1"],
        "readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 60},
    }]})
}

#[tokio::test(start_paused = true)]
async fn pods_are_ready_at_once_and_stay() {
    let cluster = cluster_with(Settings::instant());
    kwok_node(&cluster).await;
    let node = cluster.get::<Node>("", "n1").unwrap().status.clone().unwrap();
    assert_eq!(node.addresses.unwrap()[0].address, "10.240.0.4");
    assert!(node.conditions.unwrap().iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    bind(&cluster, "p", json!({}), sleeper());
    wait(&cluster, 0.1).await;
    assert_eq!(ready(&cluster, "p"), "True");
    wait(&cluster, 100.0).await;
    assert_eq!(
        (ready(&cluster, "p").as_str(), status(&cluster, "p").phase.as_deref()),
        ("True", Some("Running"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_stays_for_its_delay_whatever_its_grace() {
    let cluster = cluster_with(Settings::instant());
    kwok_node(&cluster).await;
    let delay = json!({"pod-delete.stage.kwok.x-k8s.io/delay": "60s"});
    bind(&cluster, "slow", delay, sleeper());
    bind(&cluster, "quick", json!({}), sleeper());
    wait(&cluster, 1.0).await;
    for name in ["slow", "quick"] {
        let options = DeleteOptions { grace_period: Some(30), ..DeleteOptions::default() };
        cluster.delete::<Pod>("default", name, &options).unwrap();
    }
    let there = |name: &str| cluster.get::<Pod>("default", name).is_some();
    wait(&cluster, 1.0).await;
    assert!(there("slow") && !there("quick"));
    wait(&cluster, 58.0).await;
    assert_eq!(ready(&cluster, "slow"), "True", "until the end");
    wait(&cluster, 2.0).await;
    assert!(!there("slow"));
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_pod_never_becomes_ready() {
    let cluster = cluster_with(Settings::instant());
    kwok_node(&cluster).await;
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "ill", "labels": {"kwok.x-k8s.io/stage": "unhealthy"}},
        "spec": sleeper(),
    }))
    .unwrap();
    pod.spec.as_mut().unwrap().node_name = Some("n1".to_owned());
    cluster.create("default", &pod).unwrap();
    wait(&cluster, 100.0).await;
    assert_eq!(ready(&cluster, "ill"), "False");
}
