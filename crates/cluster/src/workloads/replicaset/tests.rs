use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::run;
use crate::Cluster;
use crate::registry::DeleteOptions;
use crate::workloads::fixtures::{
    active, cluster, create, field, make_all_ready, make_ready, pass, set, template, told,
};
use crate::workloads::owner::controller_of;

const WEB: (&str, &str, &str) = ("apps", "replicasets", "web");

fn web(replicas: i32) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "x"}},
            "template": template("nginx"),
        },
    })
}

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    cluster
}

#[tokio::test(start_paused = true)]
async fn pods_come_and_are_counted() {
    let cluster = start();
    create(&cluster, "apps", "replicasets", web(3));
    pass(&cluster, 0).await;
    let pods = active(&cluster);
    assert_eq!(pods.len(), 3);
    let name = pods[0].metadata.name.clone().unwrap();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    assert_eq!(controller_of(&pods[0].metadata).unwrap().name, "web");
    make_ready(&cluster, &pods[1]);
    pass(&cluster, 0).await;
    let status = field(&cluster, WEB, "/status");
    let wanted = json!({
        "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1,
    });
    assert_eq!(status, wanted);
    assert_eq!(told(&cluster).len(), 3);
    assert!(told(&cluster)[0].starts_with("SuccessfulCreate Created pod: web-"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_pod_is_replaced() {
    let cluster = start();
    create(&cluster, "apps", "replicasets", web(2));
    pass(&cluster, 0).await;
    let lost = active(&cluster)[0].metadata.name.clone().unwrap();
    cluster.delete::<Pod>("default", &lost, &DeleteOptions::default()).unwrap();
    pass(&cluster, 0).await;
    let names: Vec<_> = active(&cluster).iter().map(|p| p.metadata.name.clone().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(!names.contains(&lost));
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_pods_go_first() {
    let cluster = start();
    create(&cluster, "apps", "replicasets", web(4));
    pass(&cluster, 0).await;
    let pods = active(&cluster);
    for pod in &pods[..3] {
        make_ready(&cluster, pod);
    }
    let costly = pods[2].metadata.name.clone().unwrap();
    cluster
        .modify::<Pod>("default", &costly, |pod| {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert("controller.kubernetes.io/pod-deletion-cost".into(), "5".into());
        })
        .unwrap();
    set(&cluster, WEB, "/spec/replicas", json!(3));
    pass(&cluster, 0).await;
    let unready = pods[3].metadata.name.clone().unwrap();
    assert_eq!(told(&cluster).last().unwrap(), &format!("SuccessfulDelete Deleted pod: {unready}"));
    set(&cluster, WEB, "/spec/replicas", json!(1));
    pass(&cluster, 0).await;
    assert_eq!(active(&cluster)[0].metadata.name.as_ref(), Some(&costly));
}

#[tokio::test(start_paused = true)]
async fn matching_pods_are_adopted_and_strangers_released() {
    let cluster = start();
    let spec = template("nginx")["spec"].clone();
    let bare = json!({"metadata": {"name": "bare", "labels": {"app": "x"}}, "spec": spec});
    create(&cluster, "", "pods", bare);
    create(&cluster, "apps", "replicasets", web(2));
    pass(&cluster, 0).await;
    assert_eq!(active(&cluster).len(), 2);
    let pod = cluster.get::<Pod>("default", "bare").unwrap();
    assert_eq!(controller_of(&pod.metadata).unwrap().name, "web");
    set(&cluster, ("", "pods", "bare"), "/metadata/labels", json!({"app": "y"}));
    pass(&cluster, 0).await;
    assert_eq!(active(&cluster).len(), 3);
    let pod = cluster.get::<Pod>("default", "bare").unwrap();
    assert!(controller_of(&pod.metadata).is_none());
}

#[tokio::test(start_paused = true)]
async fn pods_become_available_after_min_ready_seconds() {
    let cluster = start();
    let mut web = web(1);
    web["spec"]["minReadySeconds"] = 20.into();
    create(&cluster, "apps", "replicasets", web);
    pass(&cluster, 0).await;
    make_all_ready(&cluster);
    pass(&cluster, 10).await;
    assert_eq!(field(&cluster, WEB, "/status/availableReplicas"), Value::Null);
    pass(&cluster, 10).await;
    assert_eq!(field(&cluster, WEB, "/status/availableReplicas"), json!(1));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_pods_come_in_bursts() {
    let cluster = start();
    create(&cluster, "apps", "replicasets", web(10_000));
    pass(&cluster, 0).await;
    assert_eq!(active(&cluster).len(), 10_000);
    assert_eq!(field(&cluster, WEB, "/status/replicas"), json!(10_000));
    assert!(told(&cluster).len() < 12);
}

#[tokio::test(start_paused = true)]
async fn a_failing_create_is_told_and_tried_again() {
    let cluster = start();
    let mut web = web(1);
    web["spec"]["template"]["spec"]["serviceAccountName"] = "late".into();
    create(&cluster, "apps", "replicasets", web);
    pass(&cluster, 5).await;
    assert!(active(&cluster).is_empty());
    let told = told(&cluster);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("FailedCreate Error creating: pods "), "{told:?}");
    assert!(told[0].ends_with(
        r#"error looking up service account default/late: serviceaccount "late" not found"#
    ));
    assert_eq!(field(&cluster, WEB, "/status/conditions/0/reason"), "FailedCreate");
    create(&cluster, "", "serviceaccounts", json!({"metadata": {"name": "late"}}));
    pass(&cluster, 20).await;
    assert_eq!(active(&cluster).len(), 1);
    assert_eq!(field(&cluster, WEB, "/status/conditions"), Value::Null);
}
