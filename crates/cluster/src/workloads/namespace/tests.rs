use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use serde_json::{Value, json};

use super::run;
use crate::Cluster;
use crate::registry::{DeleteOptions, Part, WriteOptions};
use crate::workloads::fixtures::{cluster, create, pass};

fn create_in(cluster: &Cluster, plural: &str, object: Value) {
    let kind = cluster.kind("", plural).unwrap();
    cluster.create_object(&kind, "team", object, WriteOptions::default()).unwrap();
}

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    let spec = json!({"finalizers": ["kubernetes"]});
    create(&cluster, "", "namespaces", json!({"metadata": {"name": "team"}, "spec": spec}));
    crate::bootstrap::populate(&cluster, "team", "CA").unwrap();
    create_in(&cluster, "configmaps", json!({"metadata": {"name": "c"}}));
    cluster
}

fn message(cluster: &Cluster, type_: &str) -> String {
    let namespace = cluster.get::<Namespace>("", "team").unwrap();
    let conditions = namespace.status.as_ref().unwrap().conditions.clone().unwrap();
    let condition = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    condition.message.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_everything_in_it() {
    let cluster = start();
    cluster.delete::<Namespace>("", "team", &DeleteOptions::default()).unwrap();
    pass(&cluster, 0).await;
    assert!(cluster.get::<Namespace>("", "team").is_none());
    assert!(cluster.list::<ConfigMap>("team").is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_pods_and_then_for_finalizers() {
    let cluster = start();
    let spec = json!({
        "terminationGracePeriodSeconds": 10, "containers": [{"name": "c", "image": "i"}],
    });
    create_in(&cluster, "pods", json!({"metadata": {"name": "p"}, "spec": spec}));
    cluster
        .modify_part::<Pod>("team", "p", Part::Whole, |pod| {
            pod.spec.as_mut().unwrap().node_name = Some("n1".into());
        })
        .unwrap();
    cluster
        .modify::<ConfigMap>("team", "c", |map| {
            map.metadata.finalizers = Some(vec!["example.com/hold".into()]);
        })
        .unwrap();
    cluster.delete::<Namespace>("", "team", &DeleteOptions::default()).unwrap();
    pass(&cluster, 0).await;
    let remaining = "Some resources are remaining: pods. has 1 resource instances";
    assert_eq!(message(&cluster, "NamespaceContentRemaining"), remaining);
    assert!(cluster.get::<ConfigMap>("team", "c").unwrap().metadata.deletion_timestamp.is_none());
    let now = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
    cluster.delete::<Pod>("team", "p", &now).unwrap();
    pass(&cluster, 30).await;
    let held = "Some content in the namespace has finalizers remaining: example.com/hold in 1 \
                resource instances";
    assert_eq!(message(&cluster, "NamespaceFinalizersRemaining"), held);
    cluster.modify::<ConfigMap>("team", "c", |map| map.metadata.finalizers = None).unwrap();
    pass(&cluster, 30).await;
    assert!(cluster.get::<Namespace>("", "team").is_none());
}
