use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::run;
use crate::Cluster;
use crate::workloads::fixtures::{
    active, cluster, create, field, make_all_ready, pass, set, template, told,
};
use crate::workloads::pods::{condition, set_condition};
use crate::workloads::{deployment, replicaset};

const PDB: (&str, &str, &str) = ("policy", "poddisruptionbudgets", "web");

async fn start(spec: Value) -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    tokio::spawn(deployment::run(cluster.clone()));
    tokio::spawn(replicaset::run(cluster.clone()));
    let deployment = json!({
        "replicas": 4, "selector": {"matchLabels": {"app": "x"}}, "template": template("nginx"),
    });
    let web = json!({"metadata": {"name": "web"}, "spec": deployment});
    create(&cluster, "apps", "deployments", web);
    let mut budget = json!({"metadata": {"name": "web"}, "spec": spec});
    budget["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
    create(&cluster, "policy", "poddisruptionbudgets", budget);
    pass(&cluster, 0).await;
    cluster
}

/// Expected, desired, healthy, allowed.
fn numbers(cluster: &Cluster) -> [i64; 4] {
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
        .map(|name| field(cluster, PDB, &format!("/status/{name}")).as_i64().unwrap())
}

fn reason(cluster: &Cluster) -> Value {
    field(cluster, PDB, "/status/conditions/0/reason")
}

#[tokio::test(start_paused = true)]
async fn a_share_is_one_of_what_the_controllers_want() {
    let cluster = start(json!({"maxUnavailable": "30%"})).await;
    assert_eq!(numbers(&cluster), [4, 2, 0, 0]);
    assert_eq!(reason(&cluster), "InsufficientPods");
    make_all_ready(&cluster);
    pass(&cluster, 0).await;
    assert_eq!(numbers(&cluster), [4, 2, 4, 2]);
    assert_eq!(reason(&cluster), "SufficientPods");
    set(&cluster, ("apps", "deployments", "web"), "/spec/replicas", json!(10));
    pass(&cluster, 0).await;
    assert_eq!(numbers(&cluster), [10, 7, 4, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_number_is_one_of_the_pods_that_are_there() {
    let cluster = start(json!({"minAvailable": 3})).await;
    make_all_ready(&cluster);
    pass(&cluster, 0).await;
    assert_eq!(numbers(&cluster), [4, 3, 4, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_counts_again_after_two_minutes() {
    let cluster = start(json!({"minAvailable": 2})).await;
    make_all_ready(&cluster);
    pass(&cluster, 0).await;
    let pod = active(&cluster)[0].clone();
    let name = pod.metadata.name.clone().unwrap();
    let now = cluster.clock().now();
    cluster
        .modify_status::<PodDisruptionBudget>("default", "web", |budget| {
            let status = budget.status.as_mut().unwrap();
            status.disrupted_pods = Some([(name.clone(), Time(now))].into());
        })
        .unwrap();
    cluster
        .modify_status::<Pod>("default", &name, |pod| {
            set_condition(pod, "DisruptionTarget", "EvictionByEvictionAPI", "", now);
        })
        .unwrap();
    pass(&cluster, 110).await;
    assert_eq!(numbers(&cluster)[2..], [3, 1]);
    pass(&cluster, 15).await;
    assert_eq!(numbers(&cluster)[2..], [4, 2]);
    assert!(told(&cluster).iter().any(|event| event.starts_with("NotDeleted ")));
    let pod = cluster.get::<Pod>("default", &name).unwrap();
    assert_eq!(condition(&pod, "DisruptionTarget").unwrap().status, "False");
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_scale_stop_all_evictions() {
    let cluster = start(json!({"maxUnavailable": 1})).await;
    let pod = json!({
        "metadata": {
            "name": "odd", "labels": {"app": "x"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u",
                "controller": true}],
        },
        "spec": template("nginx")["spec"],
    });
    make_all_ready(&cluster);
    create(&cluster, "", "pods", pod);
    pass(&cluster, 0).await;
    assert_eq!(reason(&cluster), "SyncFailed");
    assert_eq!(field(&cluster, PDB, "/status/disruptionsAllowed"), 0);
}
