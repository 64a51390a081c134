use std::path::Path;

use aerostat_clock::{Clock, Seeds};
use aerostat_cluster::{Cluster, Options, bootstrap};

use super::*;
use crate::manifest;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn object(kind: &str, name: &str, owner: Option<(&str, &str)>, rest: Value) -> Value {
    let version = match kind {
        "Pod" => "v1",
        "Job" => "batch/v1",
        "PriorityClass" => "scheduling.k8s.io/v1",
        _ => "apps/v1",
    };
    let mut value = json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "namespace": "acme-shop", "uid": name}});
    if let Some((kind, uid)) = owner {
        value["metadata"]["ownerReferences"] =
            json!([{"kind": kind, "name": uid, "uid": uid, "controller": true}]);
    }
    json_patch::merge(&mut value, &rest);
    value
}

/// A pod's spec that gives everything away.
fn spec() -> Value {
    json!({
        "restartPolicy": "Never", "priorityClassName": "acme-gold",
        "nodeSelector": {"acme.example/team": "acme-red", "kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": "acme.example/only", "value": "acme-red", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "topology.kubernetes.io/zone", "namespaces": ["acme-shop"],
            "labelSelector": {"matchExpressions":
                [{"key": "acme.example/app", "operator": "In", "values": ["acme-web"]}]}}]}},
        "volumes": [{"name": "acme-secret", "secret": {"secretName": "acme-secret"}}],
        "containers": [{"name": "acme-web", "image": "registry.acme.example/web:1",
            "command": ["acme", "--token=acme"], "env": [{"name": "ACME", "value": "acme"}],
            "resources": {"requests": {"cpu": "250m"}}}],
    })
}

fn deployment(replicas: i64) -> Value {
    let labels = json!({"acme.example/app": "acme-web"});
    let mut pod = spec();
    pod["restartPolicy"] = "Always".into();
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "annotations": {"acme": "acme"}}, "spec": pod}});
    object("Deployment", "acme-web", None, json!({"spec": spec, "status": {"replicas": 1}}))
}

fn pod(name: &str, owner: Option<(&str, &str)>, phase: &str, ran: Option<(i64, i64)>) -> Value {
    let mut value = object("Pod", name, owner, json!({"spec": spec(), "status": {"phase": phase}}));
    if let Some((from, to)) = ran {
        let ended = json!({"startedAt": at(from).to_string(), "finishedAt": at(to).to_string()});
        value["status"]["containerStatuses"] = json!([{"state": {"terminated": ended}}]);
    }
    value
}

fn recorded() -> Recorder {
    let mut recorder = Recorder::new(at(0));
    let class = json!({"value": 7, "metadata": {"namespace": null}});
    let job = |name: &str, status: Value| {
        let spec = json!({"completions": 1, "template": {"metadata": {}, "spec": spec()}});
        object("Job", name, Some(("CronJob", "acme-cron")), json!({"spec": spec, "status": status}))
    };
    let done = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    recorder.applied(&deployment(2), at(0));
    recorder.applied(&object("PriorityClass", "acme-gold", None, class), at(0));
    recorder.applied(&pod("acme-web-x", Some(("ReplicaSet", "rs")), "Running", None), at(0));
    recorder.applied(&pod("acme-db-0", Some(("StatefulSet", "db")), "Running", None), at(0));
    recorder.applied(&job("acme-old", done.clone()), at(0));
    // Only the status has changed.
    recorder.applied(&deployment(2), at(5));
    recorder.applied(&job("acme-build", json!({})), at(10));
    let built = pod("acme-build-p", Some(("Job", "acme-build")), "Succeeded", Some((12, 54)));
    recorder.applied(&built, at(54));
    recorder.applied(&job("acme-build", done), at(55));
    recorder.deleted(&job("acme-build", json!({})), at(85));
    recorder.applied(&deployment(5), at(90));
    recorder.deleted(&deployment(5), at(100));
    recorder
}

#[test]
fn what_users_ask_for_is_recorded_and_how_long_jobs_ran() {
    let trace = serde_json::to_value(recorded().finish(true)).unwrap();
    let events: Vec<(i64, Vec<&str>, usize)> = trace["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let names = event["applied_objs"].as_array().unwrap();
            let names = names.iter().map(|value| value["metadata"]["name"].as_str().unwrap());
            let since = event["ts"].as_i64().unwrap() - at(0).as_second();
            (since, names.collect(), event["deleted_objs"].as_array().unwrap().len())
        })
        .collect();
    assert_eq!(
        events,
        [
            (0, vec!["acme-gold", "acme-web", "acme-db-0"], 0),
            (10, vec!["acme-build"], 0),
            (90, vec!["acme-web"], 0),
            (100, vec![], 1),
        ]
    );
    let job = &trace["events"][1]["applied_objs"][0]["spec"];
    assert_eq!(job["template"]["metadata"]["annotations"][DURATION], "42000ms");
    assert_eq!(job["ttlSecondsAfterFinished"], 30);
    let text = trace.to_string();
    assert!(text.contains("--token=acme"), "commands say how long something runs");
    assert!(!text.contains("\"ACME\""), "the environment does not");
}

#[test]
fn nobody_is_named_and_what_is_recorded_can_be_taken_over() {
    let trace = recorded().finish(false);
    let text = serde_json::to_string(&trace).unwrap();
    assert!(!text.to_lowercase().contains("acme"), "{text}");
    assert_eq!(text, serde_json::to_string(&recorded().finish(false)).unwrap());
    let value = serde_json::to_value(&trace).unwrap();
    let deployment = &value["events"][0]["applied_objs"][1];
    let spec = &deployment["spec"]["template"]["spec"];
    assert_eq!(spec["nodeSelector"]["kubernetes.io/arch"], "arm64");
    assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "250m");
    let label = deployment["spec"]["selector"]["matchLabels"].as_object().unwrap();
    let (key, name) = label.iter().next().unwrap();
    let rule =
        &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    let same = &rule["labelSelector"]["matchExpressions"][0];
    assert_eq!((same["key"].as_str(), &same["values"][0]), (Some(key.as_str()), name));
    assert_eq!(rule["namespaces"][0], deployment["metadata"]["namespace"]);
    assert_eq!(
        value["events"][3]["deleted_objs"][0]["metadata"]["name"],
        deployment["metadata"]["name"]
    );

    let clock = Clock::simulated(at(0));
    let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(1) });
    bootstrap::run(&cluster, "").unwrap();
    let mut left = super::super::Omissions::default();
    let source = manifest::Source { file: Path::new("trace").to_owned(), line: 1 };
    for (_, event) in trace.events(at(0)) {
        for value in &event.applied_objs {
            super::super::plant(&cluster, &source, value, &mut left);
        }
        for value in &event.deleted_objs {
            super::super::uproot(&cluster, &source, value);
        }
    }
    assert_eq!(left.list().count(), 0, "{left:?}");
}
