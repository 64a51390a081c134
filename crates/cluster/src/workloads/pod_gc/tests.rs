use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

use super::run;
use crate::Cluster;
use crate::registry::{DeleteOptions, Part};
use crate::workloads::fixtures::{cluster, create, pass};
use crate::workloads::pods::phase;

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let metadata = json!({"name": "p", "finalizers": ["example.com/watch"]});
    create(&cluster, "", "pods", json!({"metadata": metadata, "spec": spec}));
    cluster
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_missing_node_fail_and_go() {
    let cluster = start();
    create(&cluster, "", "nodes", json!({"metadata": {"name": "n1"}}));
    cluster
        .modify_part::<Pod>("default", "p", Part::Whole, |pod| {
            pod.spec.as_mut().unwrap().node_name = Some("n1".into());
        })
        .unwrap();
    pass(&cluster, 60).await;
    cluster.delete::<Node>("", "n1", &DeleteOptions::default()).unwrap();
    pass(&cluster, 39).await;
    assert_eq!(phase(&cluster.get::<Pod>("default", "p").unwrap()), "Pending");
    pass(&cluster, 1).await;
    let pod = cluster.get::<Pod>("default", "p").unwrap();
    assert_eq!(phase(&pod), "Failed");
    assert!(pod.metadata.deletion_timestamp.is_some());
    cluster.modify::<Pod>("default", "p", |pod| pod.metadata.finalizers = None).unwrap();
    assert!(cluster.get::<Pod>("default", "p").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_without_a_node_fails() {
    let cluster = start();
    cluster.delete::<Pod>("default", "p", &DeleteOptions::default()).unwrap();
    pass(&cluster, 20).await;
    assert_eq!(phase(&cluster.get::<Pod>("default", "p").unwrap()), "Failed");
}
