use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::Cluster;
use crate::workloads::fixtures::{
    active, cluster, create, field, make_all_ready, make_ready, pass, set, told,
};
use crate::workloads::{deployment, replicaset};

const WEB: (&str, &str, &str) = ("apps", "deployments", "web");
const HPA: (&str, &str, &str) = ("autoscaling", "horizontalpodautoscalers", "web");

/// Two replicas that ask for half a core each and share `load`.
async fn start(load: Value, metrics: Value) -> Cluster {
    let cluster = cluster();
    tokio::spawn(super::run(cluster.clone()));
    tokio::spawn(deployment::run(cluster.clone()));
    tokio::spawn(replicaset::run(cluster.clone()));
    let container = json!({"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}});
    let template =
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}});
    create(
        &cluster,
        "apps",
        "deployments",
        json!({
            "metadata": {"name": "web", "annotations": load},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template},
        }),
    );
    pass(&cluster, 1).await;
    make_all_ready(&cluster);
    pass(&cluster, 1).await;
    create(
        &cluster,
        "autoscaling",
        "horizontalpodautoscalers",
        json!({
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 2, "maxReplicas": 10, "metrics": metrics,
            },
        }),
    );
    cluster
}

fn cpu(percent: i64) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

fn load(cpu: &str) -> Value {
    json!({"sim.aerostat.dev/load-cpu": cpu})
}

fn replicas(cluster: &Cluster) -> Value {
    field(cluster, WEB, "/spec/replicas")
}

/// Status, reason and message of a condition.
fn condition(cluster: &Cluster, name: &str) -> String {
    let conditions = field(cluster, HPA, "/status/conditions");
    let all = conditions.as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|condition| condition["type"] == name);
    let text =
        |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or("?").to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_the_load_up_at_once_and_down_after_five_minutes() {
    let cluster = start(load("500m"), cpu(50)).await;
    pass(&cluster, 0).await;
    assert_eq!(replicas(&cluster), 2, "half a core for one core that is asked for");
    assert_eq!(
        field(&cluster, HPA, "/status/currentMetrics/0/resource/current"),
        json!({"averageUtilization": 50, "averageValue": "250m"})
    );
    set(&cluster, WEB, "/metadata/annotations", load("1500m"));
    pass(&cluster, 15).await;
    assert_eq!(replicas(&cluster), 6);
    let above =
        "New size: 6; reason: cpu resource utilization (percentage of request) above target";
    assert!(told(&cluster).contains(&format!("SuccessfulRescale {above}")), "{:?}", told(&cluster));
    make_all_ready(&cluster);
    set(&cluster, WEB, "/metadata/annotations", load("100m"));
    pass(&cluster, 285).await;
    assert_eq!(replicas(&cluster), 6);
    assert!(condition(&cluster, "AbleToScale").starts_with("True ScaleDownStabilized"));
    pass(&cluster, 30).await;
    assert_eq!(replicas(&cluster), 2, "the least");
    assert!(condition(&cluster, "ScalingLimited").starts_with("True TooFewReplicas"));
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_ready_take_no_part() {
    let cluster = start(load("2"), cpu(50)).await;
    // Before the first look.
    let one = active(&cluster).remove(0);
    let name = one.metadata.name.clone().unwrap();
    cluster
        .modify_status::<Pod>("default", &name, |pod| {
            pod.status.get_or_insert_default().conditions = None;
        })
        .unwrap();
    pass(&cluster, 0).await;
    // 2 cores on one of two pods: 400 %, with the other one 200 %, four times the goal.
    assert_eq!(replicas(&cluster), 6, "at most four more at once");
    make_ready(&cluster, &one);
}

#[tokio::test(start_paused = true)]
async fn memory_by_the_pod_and_the_metric_that_asks_for_most() {
    let metrics = json!([cpu(50)[0], {"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": "1Gi"}}}]);
    let load = json!({"sim.aerostat.dev/load-cpu": "100m", "sim.aerostat.dev/load-memory": "4Gi"});
    let cluster = start(load, metrics).await;
    pass(&cluster, 15).await;
    assert_eq!(replicas(&cluster), 4);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_measured_is_said() {
    let cluster = start(json!({}), cpu(50)).await;
    pass(&cluster, 0).await;
    let active = condition(&cluster, "ScalingActive");
    assert!(active.starts_with("False FailedGetResourceMetric"), "{active}");
    assert!(active.contains("no annotation sim.aerostat.dev/load-cpu"), "{active}");
    set(&cluster, WEB, "/metadata/annotations", load("much"));
    pass(&cluster, 15).await;
    assert!(condition(&cluster, "ScalingActive").contains("\"much\" is no amount"));
    set(&cluster, WEB, "/metadata/annotations", load("3"));
    set(&cluster, HPA, "/spec/scaleTargetRef/name", "wep".into());
    pass(&cluster, 15).await;
    assert!(condition(&cluster, "AbleToScale").starts_with("False FailedGetScale"));
    assert_eq!(replicas(&cluster), 2);
    set(&cluster, HPA, "/spec/scaleTargetRef/name", "web".into());
    let external = json!([{"type": "Pods", "pods": {"metric": {"name": "hits"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}]);
    set(&cluster, HPA, "/spec/metrics", external);
    pass(&cluster, 15).await;
    let active = condition(&cluster, "ScalingActive");
    assert!(active.contains("metrics of type Pods cannot be simulated"), "{active}");
}

#[tokio::test(start_paused = true)]
async fn a_target_of_zero_is_left_alone_and_bounds_hold_without_a_load() {
    let cluster = start(json!({}), cpu(50)).await;
    set(&cluster, WEB, "/spec/replicas", 0.into());
    pass(&cluster, 15).await;
    assert_eq!(replicas(&cluster), 0);
    assert!(condition(&cluster, "ScalingActive").starts_with("False ScalingDisabled"));
    set(&cluster, WEB, "/spec/replicas", 12.into());
    pass(&cluster, 15).await;
    assert_eq!(replicas(&cluster), 10);
}
