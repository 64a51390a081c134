use std::path::Path;

use aerostat_clock::{Clock, Seeds};
use aerostat_cluster::{Cluster, Options, bootstrap};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;

fn cluster() -> Cluster {
    let clock = Clock::simulated("2026-01-05T00:00:00Z".parse().unwrap());
    let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(1) });
    bootstrap::run(&cluster, "").unwrap();
    cluster
}

fn container() -> Value {
    json!([{"name": "main", "image": "busybox",
        "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/token"}]}])
}

#[tokio::test(start_paused = true)]
async fn a_dump_is_planted_and_what_cannot_be_is_listed() {
    let meta = |name: &str, uid: &str| {
        json!({"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "5",
            "creationTimestamp": "2026-01-01T00:00:00Z"})
    };
    let owned = |name: &str, kind: &str, uid: &str| {
        let mut meta = meta(name, name);
        meta["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x",
            "uid": uid, "controller": true}]);
        meta
    };
    let spec = json!({"serviceAccountName": "shop", "nodeName": "old", "containers": container(),
        "volumes": [{"name": "kube-api-access-x", "emptyDir": {}}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let pod = |metadata: Value, phase: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
            "status": {"phase": phase}})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "old"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("web", "d"), "spec":
            {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned("web-1", "Deployment", "d"),
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": template}},
        pod(owned("web-1-a", "ReplicaSet", "web-1"), "Running"),
        pod(owned("orphan", "ReplicaSet", "elsewhere"), "Running"),
        pod(owned("agent", "DaemonSet", "elsewhere"), "Running"),
        pod(meta("done", "p"), "Succeeded"),
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
    ]});
    let cluster = cluster();
    let text = list.to_string();
    let dump = dump::Dump(crate::manifest::parse(Path::new("dump.json"), &text).unwrap());
    let mut left = Omissions::default();
    dump.plant(&cluster, &mut left);
    let deployment = cluster.get::<Deployment>("shop", "web").unwrap();
    assert_eq!(deployment.spec.as_ref().unwrap().replicas, Some(2));
    let names: Vec<String> =
        cluster.list::<Pod>("").iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(names, ["orphan"]);
    let pod = cluster.get::<Pod>("shop", "orphan").unwrap();
    assert_eq!(pod.spec.as_ref().unwrap().node_name, None);
    let listed: Vec<String> = left
        .list()
        .map(|left| format!("{} ({} pods): {}", left.what, left.pods, left.why))
        .collect();
    assert_eq!(
        listed,
        [
            "1 Node (0 pods): this cluster makes its own",
            "1 Pod (1 pods): it has ended",
            "1 Pod (1 pods): its DaemonSet is not in the dump",
            "1 Widget (0 pods): this cluster does not serve the kind",
        ]
    );
}

/// What nobody acts on here must not take its pods along, and what has ended must not run again.
#[tokio::test(start_paused = true)]
async fn pods_of_a_dump_are_neither_lost_nor_doubled() {
    let object = |kind: &str, name: &str, owner: &str, rest: Value| {
        let version = match kind {
            "Pod" => "v1",
            "StatefulSet" => "apps/v1",
            _ => "batch/v1",
        };
        let mut value = json!({"apiVersion": version, "kind": kind,
            "metadata": {"name": name, "namespace": "shop", "uid": name}});
        if !owner.is_empty() {
            value["metadata"]["ownerReferences"] =
                json!([{"kind": "X", "name": owner, "uid": owner, "controller": true}]);
        }
        json_patch::merge(&mut value, &rest);
        value
    };
    let pod =
        json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]});
    let running = json!({"spec": pod, "status": {"phase": "Running"}});
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": pod});
    let set = json!({"spec": {"replicas": 2, "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}}, "template": {"metadata":
        {"labels": {"app": "db"}}, "spec": {"containers": pod["containers"]}}}});
    let job = |completions: i64, status: Value| json!({"spec": {"completions": completions, "template": template}, "status": status});
    let complete = json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]});
    let items = [
        object("StatefulSet", "db", "", set.clone()),
        object("Pod", "db-0", "db", running.clone()),
        object("Pod", "db-1", "db", running),
        object("StatefulSet", "lonely", "", set),
        object("Job", "done", "nightly", job(1, complete)),
        object("Pod", "done-0", "done", json!({"spec": pod, "status": {"phase": "Succeeded"}})),
        object("Job", "half", "", job(5, json!({"succeeded": 3}))),
    ];
    let cluster = cluster();
    let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let dump = dump::Dump(crate::manifest::parse(Path::new("dump.json"), &text).unwrap());
    let mut left = Omissions::default();
    dump.plant(&cluster, &mut left);
    let names: Vec<String> =
        cluster.list::<Pod>("").iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(names, ["db-0", "db-1"]);
    let jobs = cluster.list::<Job>("");
    let jobs: Vec<_> = jobs.iter().map(|job| job.spec.as_ref().unwrap().completions).collect();
    assert_eq!(jobs, [Some(2)]);
    let listed: Vec<String> = left
        .list()
        .map(|left| format!("{} ({} pods): {}", left.what, left.pods, left.why))
        .collect();
    assert_eq!(
        listed,
        [
            "1 Job (0 pods): it has ended",
            "1 Pod (1 pods): it has ended",
            "1 StatefulSet (2 pods): nothing acts on it here",
            "1 StatefulSet (0 pods): nothing acts on it here: its pods come by themselves",
        ]
    );
}

#[test]
fn traces_are_read_in_both_forms() {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let trace = json!({"version": "2", "config": {"trackedObjects": {}}, "index": {},
        "pod_lifecycles": {}, "events": [
            {"ts": 100, "applied_objs": [], "deleted_objs": []},
            {"ts": 142, "applied_objs": [object], "deleted_objs": []}]});
    let start: jiff::Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
    let packed = rmp_serde::to_vec_named(&trace).unwrap();
    for bytes in [trace.to_string().into_bytes(), packed.clone()] {
        let events: Vec<_> = simkube::Trace::parse(&bytes).unwrap().events(start).collect();
        assert_eq!(events[1].0.to_string(), "2026-01-05T00:00:42Z");
        assert_eq!(events[1].1.applied_objs[0]["kind"], "Pod");
    }
    let error = |bytes: &[u8]| format!("{:#}", simkube::Trace::parse(bytes).unwrap_err());
    assert!(error(&packed[..packed.len() / 2]).contains("cannot be read to the end"));
    assert!(error(br#"{"version": 1, "events": []}"#).contains("version 1; version 2 is known"));
    let late = br#"{"version": 2, "events": [{"ts": 2, "applied_objs": [], "deleted_objs": []},
        {"ts": 1, "applied_objs": [], "deleted_objs": []}]}"#;
    assert!(error(late).contains("not in order of time"));
}
