use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::run;
use crate::Cluster;
use crate::registry::Part;
use crate::workloads::fixtures::{active, cluster, create, make_all_ready, pass, told};
use crate::workloads::pods::is_ready;

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    create(&cluster, "", "nodes", json!({"metadata": {"name": "n1", "labels": labels}}));
    cluster
}

/// Plays kubelet: posts the node's status.
fn post(cluster: &Cluster, ready: &str) {
    let now = Some(Time(cluster.clock().now()));
    cluster
        .modify_status::<Node>("", "n1", |node| {
            node.status.get_or_insert_default().conditions = Some(vec![NodeCondition {
                type_: "Ready".into(),
                status: ready.into(),
                last_heartbeat_time: now.clone(),
                ..NodeCondition::default()
            }]);
        })
        .unwrap();
}

fn taints(cluster: &Cluster) -> Vec<String> {
    let node = cluster.get::<Node>("", "n1").unwrap();
    let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
    let short = |key: &str| key.trim_start_matches("node.kubernetes.io/").to_owned();
    let mut texts: Vec<_> =
        taints.iter().map(|taint| format!("{}:{}", short(&taint.key), taint.effect)).collect();
    texts.sort();
    texts
}

#[tokio::test(start_paused = true)]
async fn taints_follow_the_ready_condition() {
    let cluster = start();
    post(&cluster, "False");
    pass(&cluster, 0).await;
    assert_eq!(taints(&cluster), ["not-ready:NoExecute", "not-ready:NoSchedule"]);
    post(&cluster, "True");
    pass(&cluster, 0).await;
    assert_eq!(taints(&cluster), Vec::<String>::new());
    let node = cluster.get::<Node>("", "n1").unwrap();
    assert_eq!(node.metadata.labels.as_ref().unwrap()["beta.kubernetes.io/os"], "linux");
    assert_eq!(told(&cluster), ["RegisteredNode Node n1 event: Registered Node n1 in Controller"]);
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_is_tainted_and_other_taints_stay() {
    let cluster = start();
    post(&cluster, "True");
    pass(&cluster, 0).await;
    cluster
        .modify::<Node>("", "n1", |node| {
            let spec = node.spec.get_or_insert_default();
            spec.unschedulable = Some(true);
            spec.taints =
                serde_json::from_value(json!([{"key": "x", "effect": "NoExecute"}])).unwrap();
        })
        .unwrap();
    pass(&cluster, 0).await;
    assert_eq!(taints(&cluster), ["unschedulable:NoSchedule", "x:NoExecute"]);
    cluster
        .modify::<Node>("", "n1", |node| {
            node.spec.get_or_insert_default().unschedulable = None;
        })
        .unwrap();
    pass(&cluster, 0).await;
    assert_eq!(taints(&cluster), ["x:NoExecute"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_becomes_unknown_and_its_pods_unready() {
    let cluster = start();
    post(&cluster, "True");
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]});
    create(&cluster, "", "pods", json!({"metadata": {"name": "p"}, "spec": spec}));
    cluster
        .modify_part::<Pod>("default", "p", Part::Whole, |pod| {
            pod.spec.as_mut().unwrap().node_name = Some("n1".into());
        })
        .unwrap();
    make_all_ready(&cluster);
    pass(&cluster, 40).await;
    let lease = cluster.kind("coordination.k8s.io", "leases").unwrap();
    let renewed = json!({
        "metadata": {"name": "n1"}, "spec": {"renewTime": "2025-01-06T07:52:02.000000Z"},
    });
    cluster.create_object(&lease, "kube-node-lease", renewed, Default::default()).unwrap();
    pass(&cluster, 45).await;
    assert_eq!(taints(&cluster), Vec::<String>::new());
    pass(&cluster, 10).await;
    assert_eq!(taints(&cluster), ["unreachable:NoExecute", "unreachable:NoSchedule"]);
    let node = cluster.get::<Node>("", "n1").unwrap();
    let conditions = node.status.as_ref().unwrap().conditions.clone().unwrap();
    assert_eq!(conditions.len(), 4);
    assert_eq!(conditions[0].reason.as_deref(), Some("NodeStatusUnknown"));
    assert_eq!(conditions[1].reason.as_deref(), Some("NodeStatusNeverUpdated"));
    assert!(!is_ready(&active(&cluster)[0]));
    let told = told(&cluster);
    assert!(told.contains(&"NodeNotReady Node n1 status is now: NodeNotReady".into()));
    assert!(told.contains(&"NodeNotReady Node is not ready".into()));
    post(&cluster, "True");
    pass(&cluster, 0).await;
    assert_eq!(taints(&cluster), Vec::<String>::new());
}
