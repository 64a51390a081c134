use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::run;
use crate::Cluster;
use crate::registry::Part;
use crate::workloads::fixtures::{cluster, create, pass, told};
use crate::workloads::pods::condition;

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    create(&cluster, "", "nodes", json!({"metadata": {"name": "n1"}}));
    taint(&cluster, json!([]));
    cluster
}

fn taint(cluster: &Cluster, taints: Value) {
    cluster
        .modify::<Node>("", "n1", |node| {
            let spec = node.spec.get_or_insert_default();
            spec.taints = serde_json::from_value(taints.clone()).unwrap();
        })
        .unwrap();
}

fn create_pod(cluster: &Cluster, name: &str, tolerations: Value) {
    let spec = json!({
        "tolerations": tolerations, "containers": [{"name": "c", "image": "i"}],
    });
    create(cluster, "", "pods", json!({"metadata": {"name": name}, "spec": spec}));
    cluster
        .modify_part::<Pod>("default", name, Part::Whole, |pod| {
            pod.spec.as_mut().unwrap().node_name = Some("n1".into());
        })
        .unwrap();
}

fn leaving(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list::<Pod>("default");
    let leaving = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
    leaving.filter_map(|pod| pod.metadata.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_go_when_their_toleration_ends() {
    let cluster = start();
    create_pod(&cluster, "none", json!([]));
    create_pod(&cluster, "forever", json!([{"key": "x", "operator": "Exists"}]));
    let limited = json!([{"key": "x", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 30}]);
    create_pod(&cluster, "limited", limited.clone());
    taint(&cluster, json!([{"key": "x", "effect": "NoExecute"}]));
    pass(&cluster, 29).await;
    assert_eq!(leaving(&cluster), ["none"]);
    pass(&cluster, 1).await;
    assert_eq!(leaving(&cluster), ["limited", "none"]);
    create_pod(&cluster, "saved", limited);
    pass(&cluster, 20).await;
    taint(&cluster, json!([]));
    pass(&cluster, 60).await;
    assert_eq!(leaving(&cluster), ["limited", "none"]);
    let pod = cluster.get::<Pod>("default", "none").unwrap();
    let reason = condition(&pod, "DisruptionTarget").unwrap().reason.clone();
    assert_eq!(reason.as_deref(), Some("DeletionByTaintManager"));
    let told = told(&cluster);
    assert_eq!(told[0], "TaintManagerEviction Marking for deletion Pod default/none");
    assert_eq!(told[2], "TaintManagerEviction Cancelling deletion of Pod default/saved");
}
