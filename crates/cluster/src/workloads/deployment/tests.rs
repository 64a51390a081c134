use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Value, json};

use super::run;
use crate::Cluster;
use crate::workloads::fixtures::{
    active, bind, cluster, create, field, make_all_ready, pass, set, template, told,
};
use crate::workloads::replicaset;

const WEB: (&str, &str, &str) = ("apps", "deployments", "web");
const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn web(replicas: i32, strategy: Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "x"}},
            "strategy": strategy,
            "revisionHistoryLimit": 1,
            "progressDeadlineSeconds": 600,
            "template": template("nginx:1"),
        },
    })
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    json!({"type": "RollingUpdate", "rollingUpdate": limits})
}

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(replicaset::run(cluster.clone()));
    tokio::spawn(run(cluster.clone()));
    cluster
}

/// Image and size of every ReplicaSet, by image.
fn sizes(cluster: &Cluster) -> Vec<(String, i32)> {
    let mut sizes: Vec<_> = cluster
        .list::<ReplicaSet>("default")
        .iter()
        .map(|set| {
            let spec = set.spec.clone().unwrap();
            let containers = spec.template.unwrap().spec.unwrap().containers;
            (containers[0].image.clone().unwrap(), spec.replicas.unwrap())
        })
        .collect();
    sizes.sort();
    sizes
}

fn condition(cluster: &Cluster, type_: &str) -> (String, String) {
    let conditions = field(cluster, WEB, "/status/conditions");
    let condition =
        conditions.as_array().unwrap().iter().find(|c| c["type"] == type_).cloned().unwrap();
    let text = |name: &str| condition[name].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

/// All pods become ready, step by step, until nothing moves.
async fn roll(cluster: &Cluster) {
    for _ in 0..20 {
        make_all_ready(cluster);
        pass(cluster, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_moves_within_its_limits() {
    let cluster = start();
    create(&cluster, "apps", "deployments", web(4, rolling(json!("25%"), json!("25%"))));
    pass(&cluster, 0).await;
    let hash = active(&cluster)[0].metadata.labels.clone().unwrap()["pod-template-hash"].clone();
    assert_eq!(
        told(&cluster)[0],
        format!("ScalingReplicaSet Scaled up replica set web-{hash} from 0 to 4")
    );
    assert_eq!(condition(&cluster, "Available").1, "MinimumReplicasUnavailable");
    assert_eq!(condition(&cluster, "Progressing").1, "ReplicaSetUpdated");
    roll(&cluster).await;
    assert_eq!(condition(&cluster, "Progressing").1, "NewReplicaSetAvailable");
    assert_eq!(field(&cluster, WEB, "/status/availableReplicas"), json!(4));
    set(&cluster, WEB, IMAGE, json!("nginx:2"));
    pass(&cluster, 0).await;
    // One may be missing and one too many: two new ones, three old ones.
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 3), ("nginx:2".into(), 2)]);
    roll(&cluster).await;
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 0), ("nginx:2".into(), 4)]);
    let revision = "/metadata/annotations/deployment.kubernetes.io~1revision";
    assert_eq!(field(&cluster, WEB, revision), json!("2"));
    assert_eq!(field(&cluster, WEB, "/status/observedGeneration"), json!(2));
    assert_eq!(field(&cluster, WEB, "/status/unavailableReplicas"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn rolling_back_renumbers_and_old_sets_are_cleaned_up() {
    let cluster = start();
    create(&cluster, "apps", "deployments", web(1, rolling(json!(1), json!(0))));
    roll(&cluster).await;
    for image in ["nginx:2", "nginx:3"] {
        set(&cluster, WEB, IMAGE, json!(image));
        roll(&cluster).await;
    }
    assert_eq!(sizes(&cluster), [("nginx:2".into(), 0), ("nginx:3".into(), 1)]);
    set(&cluster, WEB, IMAGE, json!("nginx:2"));
    roll(&cluster).await;
    assert_eq!(sizes(&cluster), [("nginx:2".into(), 1), ("nginx:3".into(), 0)]);
    let sets = cluster.list::<ReplicaSet>("default");
    let newest = sets.iter().find(|set| set.spec.as_ref().unwrap().replicas == Some(1)).unwrap();
    let annotations = newest.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "4");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "2");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "2");
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_for_the_last_old_pod() {
    let cluster = start();
    create(&cluster, "apps", "deployments", web(2, json!({"type": "Recreate"})));
    pass(&cluster, 0).await;
    // A node makes deletion wait for its kubelet.
    for pod in active(&cluster) {
        let name = pod.metadata.name.as_deref().unwrap();
        bind(&cluster, name, "n1");
    }
    make_all_ready(&cluster);
    set(&cluster, WEB, IMAGE, json!("nginx:2"));
    pass(&cluster, 0).await;
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 0)]);
    for pod in cluster.list::<k8s_openapi::api::core::v1::Pod>("default") {
        let now = crate::registry::DeleteOptions { grace_period: Some(0), ..Default::default() };
        let name = pod.metadata.name.as_deref().unwrap();
        cluster.delete::<k8s_openapi::api::core::v1::Pod>("default", name, &now).unwrap();
    }
    pass(&cluster, 0).await;
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 0), ("nginx:2".into(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let cluster = start();
    create(&cluster, "apps", "deployments", web(10, rolling(json!(3), json!(2))));
    roll(&cluster).await;
    set(&cluster, WEB, IMAGE, json!("nginx:2"));
    pass(&cluster, 0).await;
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 8), ("nginx:2".into(), 5)]);
    set(&cluster, WEB, "/spec/replicas", json!(15));
    pass(&cluster, 0).await;
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 11), ("nginx:2".into(), 7)]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll() {
    let cluster = start();
    create(&cluster, "apps", "deployments", web(2, rolling(json!(1), json!(0))));
    roll(&cluster).await;
    set(&cluster, WEB, "/spec", {
        let mut spec = field(&cluster, WEB, "/spec");
        spec["paused"] = true.into();
        spec["replicas"] = 3.into();
        spec["template"]["spec"]["containers"][0]["image"] = "nginx:2".into();
        spec
    });
    pass(&cluster, 0).await;
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 3)]);
    assert_eq!(condition(&cluster, "Progressing"), ("Unknown".into(), "DeploymentPaused".into()));
    set(&cluster, WEB, "/spec/paused", json!(false));
    roll(&cluster).await;
    assert_eq!(sizes(&cluster), [("nginx:1".into(), 0), ("nginx:2".into(), 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_stands_still_times_out() {
    let cluster = start();
    create(&cluster, "apps", "deployments", web(1, rolling(json!(1), json!(0))));
    pass(&cluster, 590).await;
    assert_eq!(condition(&cluster, "Progressing").0, "True");
    pass(&cluster, 20).await;
    let late = ("False".into(), "ProgressDeadlineExceeded".into());
    assert_eq!(condition(&cluster, "Progressing"), late);
}
