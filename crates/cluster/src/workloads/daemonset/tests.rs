use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::pods::{HASH_LABEL, target};
use super::run;
use crate::Cluster;
use crate::registry::DeleteOptions;
use crate::workloads::fixtures::{
    active, cluster, create, field, finish, make_all_ready, pass, set, template, told,
};

const AGENT: (&str, &str, &str) = ("apps", "daemonsets", "agent");
const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn create_node(cluster: &Cluster, name: &str, pool: &str) {
    let metadata = json!({"name": name, "labels": {"pool": pool}});
    create(cluster, "", "nodes", json!({"metadata": metadata}));
    cluster
        .modify::<Node>("", name, |node| {
            node.spec.get_or_insert_default().taints = None;
        })
        .unwrap();
}

/// Three nodes of pool `a` and the DaemonSet, with these limits of its rolling update.
async fn start(limits: Value) -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    for name in ["n1", "n2", "n3"] {
        create_node(&cluster, name, "a");
    }
    let mut template = template("agent:1");
    template["spec"]["nodeSelector"] = json!({"pool": "a"});
    let spec = json!({
        "selector": {"matchLabels": {"app": "x"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits},
        "template": template,
    });
    create(&cluster, "apps", "daemonsets", json!({"metadata": {"name": "agent"}, "spec": spec}));
    pass(&cluster, 0).await;
    cluster
}

/// The nodes of the active pods.
fn places(cluster: &Cluster) -> Vec<String> {
    let mut places: Vec<_> =
        active(cluster).iter().filter_map(|pod| target(pod).map(str::to_owned)).collect();
    places.sort();
    places
}

/// How many active pods run this image.
fn running(cluster: &Cluster, image: &str) -> usize {
    let runs = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image);
    active(cluster).iter().filter(|pod| runs(pod)).count()
}

#[tokio::test(start_paused = true)]
async fn every_matching_node_gets_a_pod_and_loses_it() {
    let cluster = start(json!({})).await;
    create_node(&cluster, "other", "b");
    create_node(&cluster, "n4", "a");
    pass(&cluster, 0).await;
    assert_eq!(places(&cluster), ["n1", "n2", "n3", "n4"]);
    let pod = active(&cluster)[0].clone();
    let tolerations = pod.spec.clone().unwrap().tolerations.unwrap();
    assert!(tolerations.iter().any(|t| {
        t.key.as_deref() == Some("node.kubernetes.io/unschedulable")
            && t.effect.as_deref() == Some("NoSchedule")
    }));
    make_all_ready(&cluster);
    pass(&cluster, 0).await;
    let status = field(&cluster, AGENT, "/status");
    assert_eq!(status["desiredNumberScheduled"], 4);
    assert_eq!(status["numberAvailable"], 4);
    assert_eq!(status["updatedNumberScheduled"], 4);
    cluster.delete::<Node>("", "n4", &DeleteOptions::default()).unwrap();
    set(&cluster, ("", "nodes", "n1"), "/metadata/labels/pool", json!("b"));
    pass(&cluster, 0).await;
    assert_eq!(places(&cluster), ["n2", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn a_taint_keeps_new_pods_off_and_lets_old_ones_stay() {
    let cluster = start(json!({})).await;
    set(
        &cluster,
        ("", "nodes", "n1"),
        "/spec",
        json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
    );
    create_node(&cluster, "n4", "a");
    pass(&cluster, 0).await;
    assert_eq!(places(&cluster), ["n1", "n2", "n3", "n4"]);
    assert_eq!(field(&cluster, AGENT, "/status/numberMisscheduled"), 1);
    set(
        &cluster,
        ("", "nodes", "n1"),
        "/spec",
        json!({"taints": [{"key": "k", "effect": "NoExecute"}]}),
    );
    pass(&cluster, 0).await;
    assert_eq!(places(&cluster), ["n2", "n3", "n4"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_replaces_one_pod_after_the_other() {
    let cluster = start(json!({"maxUnavailable": 1})).await;
    make_all_ready(&cluster);
    pass(&cluster, 0).await;
    set(&cluster, AGENT, IMAGE, json!("agent:2"));
    let mut new = Vec::new();
    for _ in 0..4 {
        pass(&cluster, 0).await;
        new.push(running(&cluster, "agent:2"));
        make_all_ready(&cluster);
    }
    assert_eq!(new, [1, 2, 3, 3]);
    assert_eq!(places(&cluster), ["n1", "n2", "n3"]);
    let revisions = cluster.list::<ControllerRevision>("default");
    let mut numbers: Vec<_> = revisions.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
    let current = revisions.iter().find(|revision| revision.revision == 2).unwrap();
    let pod = active(&cluster)[0].clone();
    let labels = |labels: &Option<std::collections::BTreeMap<String, String>>| {
        labels.clone().unwrap()[HASH_LABEL].clone()
    };
    assert_eq!(labels(&pod.metadata.labels), labels(&current.metadata.labels));
}

#[tokio::test(start_paused = true)]
async fn a_surge_puts_the_new_pod_beside_the_old_one() {
    let cluster = start(json!({"maxSurge": 1, "maxUnavailable": 0})).await;
    make_all_ready(&cluster);
    pass(&cluster, 0).await;
    set(&cluster, AGENT, IMAGE, json!("agent:2"));
    pass(&cluster, 0).await;
    assert_eq!((running(&cluster, "agent:1"), running(&cluster, "agent:2")), (3, 1));
    for _ in 0..6 {
        make_all_ready(&cluster);
        pass(&cluster, 0).await;
    }
    assert_eq!((running(&cluster, "agent:1"), running(&cluster, "agent:2")), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_with_growing_pauses() {
    let cluster = start(json!({})).await;
    finish(&cluster, &active(&cluster)[0], 1);
    pass(&cluster, 0).await;
    assert_eq!(places(&cluster).len(), 3);
    assert!(told(&cluster).iter().any(|event| event.starts_with("FailedDaemonPod Found failed")));
    finish(&cluster, &active(&cluster)[0], 1);
    let first = active(&cluster).len();
    pass(&cluster, 3).await;
    assert_eq!((first, places(&cluster).len()), (2, 3));
}
