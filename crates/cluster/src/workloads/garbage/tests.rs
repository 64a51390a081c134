use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

use super::run;
use crate::Cluster;
use crate::registry::{DeleteOptions, Propagation};
use crate::workloads::fixtures::{active, cluster, create, pass, template};
use crate::workloads::{deployment, replicaset};

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    cluster
}

fn config_map(name: &str, owners: &[(&str, bool)], cluster: &Cluster) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|(owner, blocks)| {
            let object = cluster.get::<ConfigMap>("default", owner).unwrap();
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner,
                "uid": object.metadata.uid, "blockOwnerDeletion": blocks,
            })
        })
        .collect();
    json!({"metadata": {"name": name, "ownerReferences": references}})
}

fn delete(cluster: &Cluster, name: &str, propagation: Propagation) {
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
    cluster.delete::<ConfigMap>("default", name, &options).unwrap();
}

/// The names that begin with a letter of the tests.
fn names(cluster: &Cluster) -> Vec<String> {
    let maps = cluster.list::<ConfigMap>("default");
    let names = maps.iter().filter_map(|map| map.metadata.name.clone());
    names.filter(|name| name.len() == 1).collect()
}

/// `a` owns `b` and `c` (which has `d` as another owner); `b` owns `e`.
async fn family() -> Cluster {
    let cluster = start();
    for (name, owners) in
        [("a", [].as_slice()), ("d", &[]), ("b", &["a"]), ("c", &["a", "d"]), ("e", &["b"])]
    {
        let owners: Vec<_> = owners.iter().map(|owner| (*owner, true)).collect();
        create(&cluster, "", "configmaps", config_map(name, &owners, &cluster));
    }
    pass(&cluster, 0).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn in_background_dependents_follow_unless_someone_else_owns_them() {
    let cluster = family().await;
    delete(&cluster, "a", Propagation::Background);
    assert_eq!(names(&cluster), ["b", "c", "d", "e"]);
    pass(&cluster, 0).await;
    assert_eq!(names(&cluster), ["c", "d"]);
    let owners =
        cluster.get::<ConfigMap>("default", "c").unwrap().metadata.owner_references.clone();
    assert_eq!(owners.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_foreground_the_owner_waits() {
    let cluster = family().await;
    cluster
        .modify::<ConfigMap>("default", "e", |map| {
            map.metadata.finalizers = Some(vec!["example.com/hold".into()]);
        })
        .unwrap();
    delete(&cluster, "a", Propagation::Foreground);
    pass(&cluster, 0).await;
    assert_eq!(names(&cluster), ["a", "b", "c", "d", "e"]);
    cluster.modify::<ConfigMap>("default", "e", |map| map.metadata.finalizers = None).unwrap();
    pass(&cluster, 0).await;
    assert_eq!(names(&cluster), ["c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_lose_their_reference() {
    let cluster = family().await;
    delete(&cluster, "a", Propagation::Orphan);
    pass(&cluster, 0).await;
    assert_eq!(names(&cluster), ["b", "c", "d", "e"]);
    let orphan = cluster.get::<ConfigMap>("default", "b").unwrap();
    assert_eq!(orphan.metadata.owner_references.clone().unwrap_or_default(), []);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_is_no_owner() {
    let cluster = start();
    let mut map = config_map("x", &[], &cluster);
    map["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "nobody"}]);
    create(&cluster, "", "configmaps", map);
    pass(&cluster, 0).await;
    assert_eq!(names(&cluster), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_unknown_kind_keeps_its_dependents() {
    let cluster = start();
    let mut map = config_map("x", &[], &cluster);
    map["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "y", "uid": "u"}]);
    create(&cluster, "", "configmaps", map);
    pass(&cluster, 60).await;
    assert_eq!(names(&cluster), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_takes_its_pods_along() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let cluster = start();
        tokio::spawn(deployment::run(cluster.clone()));
        tokio::spawn(replicaset::run(cluster.clone()));
        let spec = json!({
            "replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template("nginx"),
        });
        let web = json!({"metadata": {"name": "web"}, "spec": spec});
        create(&cluster, "apps", "deployments", web);
        pass(&cluster, 0).await;
        assert_eq!(active(&cluster).len(), 3);
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        cluster.delete::<Deployment>("default", "web", &options).unwrap();
        pass(&cluster, 0).await;
        assert!(cluster.list::<Pod>("default").is_empty());
        assert!(cluster.list::<Deployment>("default").is_empty());
    }
}
