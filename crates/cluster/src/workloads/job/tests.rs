use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use serde_json::{Value, json};

use super::{indexes, run, track};
use crate::Cluster;
use crate::registry::{DeleteOptions, Propagation};
use crate::workloads::fixtures::{
    active, bind, cluster, create, field, finish, make_ready, pass, set, template, told,
};

const PI: (&str, &str, &str) = ("batch", "jobs", "pi");

fn start() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    cluster
}

/// Creates the Job `pi` with these fields of its spec.
fn create_job(cluster: &Cluster, spec: Value) {
    let mut template = template("perl");
    template["spec"]["restartPolicy"] = "Never".into();
    let mut job = json!({
        "metadata": {"name": "pi"},
        "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 4, "template": template},
    });
    for (name, value) in spec.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    create(cluster, "batch", "jobs", job);
}

/// `Type=Status reason` of every condition, in order.
fn conditions(cluster: &Cluster) -> Vec<String> {
    let conditions = field(cluster, PI, "/status/conditions");
    let text = |c: &Value| {
        let part = |name: &str| c[name].as_str().unwrap().to_owned();
        format!("{}={} {}", part("type"), part("status"), part("reason"))
    };
    conditions.as_array().into_iter().flatten().map(text).collect()
}

fn count(cluster: &Cluster, name: &str) -> i64 {
    field(cluster, PI, &format!("/status/{name}")).as_i64().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn a_job_completes() {
    let cluster = start();
    create_job(&cluster, json!({}));
    pass(&cluster, 0).await;
    let pods = active(&cluster);
    assert_eq!(pods.len(), 1);
    assert!(track::has_finalizer(&pods[0]));
    let expected = json!({
        "active": 1, "ready": 0, "terminating": 0, "startTime": "2025-01-06T07:51:22Z",
        "uncountedTerminatedPods": {},
    });
    assert_eq!(field(&cluster, PI, "/status"), expected);
    make_ready(&cluster, &pods[0]);
    pass(&cluster, 1).await;
    assert_eq!(count(&cluster, "ready"), 1);
    finish(&cluster, &pods[0], 0);
    pass(&cluster, 1).await;
    let expected =
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"];
    assert_eq!(conditions(&cluster), expected);
    let status = field(&cluster, PI, "/status");
    assert_eq!(status["succeeded"], 1);
    assert_eq!(status["completionTime"], "2025-01-06T07:51:24Z");
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert!(status.get("active").is_none());
    let name = pods[0].metadata.name.clone().unwrap();
    let pod = cluster.get::<Pod>("default", &name).unwrap();
    assert!(!track::has_finalizer(&pod));
    let expected =
        [format!("SuccessfulCreate Created pod: {name}"), "Completed Job completed".into()];
    assert_eq!(told(&cluster), expected);
}

#[tokio::test(start_paused = true)]
async fn never_more_pods_than_parallelism_or_remaining_completions() {
    let cluster = start();
    create_job(&cluster, json!({"completions": 5, "parallelism": 2}));
    let mut seen = Vec::new();
    for _ in 0..3 {
        pass(&cluster, 1).await;
        seen.push(active(&cluster).len());
        for pod in active(&cluster) {
            finish(&cluster, &pod, 0);
        }
    }
    pass(&cluster, 1).await;
    assert_eq!(seen, [2, 2, 1]);
    assert_eq!(count(&cluster, "succeeded"), 5);
    assert_eq!(cluster.list::<Pod>("default").len(), 5);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_until_the_limit() {
    let cluster = start();
    create_job(&cluster, json!({"backoffLimit": 2}));
    pass(&cluster, 0).await;
    let mut pauses = Vec::new();
    for _ in 0..2 {
        finish(&cluster, &active(&cluster)[0], 1);
        let mut seconds = 0;
        while active(&cluster).is_empty() {
            pass(&cluster, 1).await;
            seconds += 1;
        }
        pauses.push(seconds);
    }
    assert_eq!(pauses, [10, 20]);
    finish(&cluster, &active(&cluster)[0], 1);
    pass(&cluster, 2).await;
    let expected = ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"];
    assert_eq!(conditions(&cluster), expected);
    assert_eq!(count(&cluster, "failed"), 3);
    let last = told(&cluster).pop().unwrap();
    assert_eq!(last, "BackoffLimitExceeded Job has reached the specified backoff limit");
    pass(&cluster, 600).await;
    assert!(active(&cluster).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_late_job_fails_and_its_pods_are_deleted_first() {
    let cluster = start();
    create_job(&cluster, json!({"activeDeadlineSeconds": 30}));
    pass(&cluster, 0).await;
    let name = active(&cluster)[0].metadata.name.clone().unwrap();
    bind(&cluster, &name, "n1");
    pass(&cluster, 29).await;
    assert_eq!(active(&cluster).len(), 1);
    pass(&cluster, 1).await;
    // The kubelet still ends the pod.
    assert_eq!(conditions(&cluster), ["FailureTarget=True DeadlineExceeded"]);
    assert_eq!(count(&cluster, "terminating"), 1);
    let now = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
    cluster.delete::<Pod>("default", &name, &now).unwrap();
    pass(&cluster, 2).await;
    assert_eq!(conditions(&cluster)[1], "Failed=True DeadlineExceeded");
    assert_eq!(count(&cluster, "terminating"), 0);
    assert_eq!(count(&cluster, "failed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods() {
    let cluster = start();
    create_job(&cluster, json!({"suspend": true}));
    pass(&cluster, 0).await;
    assert!(active(&cluster).is_empty());
    assert_eq!(conditions(&cluster), ["Suspended=True JobSuspended"]);
    assert_eq!(field(&cluster, PI, "/status/startTime"), Value::Null);
    set(&cluster, PI, "/spec/suspend", json!(false));
    pass(&cluster, 1).await;
    assert_eq!(active(&cluster).len(), 1);
    assert_eq!(conditions(&cluster), ["Suspended=False JobResumed"]);
    set(&cluster, PI, "/spec/suspend", json!(true));
    pass(&cluster, 1).await;
    assert!(cluster.list::<Pod>("default").is_empty());
    assert_eq!(count(&cluster, "failed"), 0);
}

#[tokio::test(start_paused = true)]
async fn every_index_completes_once() {
    let cluster = start();
    let spec = json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"});
    create_job(&cluster, spec);
    pass(&cluster, 0).await;
    let pods = active(&cluster);
    let index = |pod: &Pod| pod.metadata.annotations.as_ref().unwrap()[indexes::INDEX].clone();
    assert_eq!(pods.iter().map(|pod| index(pod)).collect::<Vec<_>>(), ["0", "1", "2"]);
    assert!(pods[1].metadata.name.as_ref().unwrap().starts_with("pi-1-"));
    let spec = pods[1].spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("pi-1"));
    assert_eq!(spec.containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
    finish(&cluster, &pods[0], 0);
    finish(&cluster, &pods[2], 0);
    pass(&cluster, 1).await;
    assert_eq!(field(&cluster, PI, "/status/completedIndexes"), json!("0,2"));
    let pods = active(&cluster);
    assert_eq!(pods.iter().map(|pod| index(pod)).collect::<Vec<_>>(), ["1", "3"]);
    for pod in &pods {
        finish(&cluster, pod, 0);
    }
    pass(&cluster, 1).await;
    assert_eq!(field(&cluster, PI, "/status/completedIndexes"), json!("0-3"));
    assert_eq!(count(&cluster, "succeeded"), 4);
}

#[tokio::test(start_paused = true)]
async fn each_index_has_its_own_limit() {
    let cluster = start();
    create_job(
        &cluster,
        json!({
            "completions": 2, "parallelism": 2, "completionMode": "Indexed",
            "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX,
        }),
    );
    pass(&cluster, 0).await;
    let pods = active(&cluster);
    finish(&cluster, &pods[0], 1);
    finish(&cluster, &pods[1], 0);
    pass(&cluster, 12).await;
    let again = active(&cluster);
    assert_eq!(again.len(), 1);
    let annotations = again[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations["batch.kubernetes.io/job-index-failure-count"], "1");
    finish(&cluster, &again[0], 1);
    pass(&cluster, 3).await;
    assert_eq!(field(&cluster, PI, "/status/failedIndexes"), json!("0"));
    assert_eq!(conditions(&cluster)[1], "Failed=True FailedIndexes");
    assert_eq!(count(&cluster, "failed"), 2);
}

#[tokio::test(start_paused = true)]
async fn the_success_policy_ends_a_job_early() {
    let cluster = start();
    create_job(
        &cluster,
        json!({
            "completions": 3, "parallelism": 3, "completionMode": "Indexed",
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        }),
    );
    pass(&cluster, 0).await;
    finish(&cluster, &active(&cluster)[0], 0);
    pass(&cluster, 3).await;
    let expected = ["SuccessCriteriaMet=True SuccessPolicy", "Complete=True SuccessPolicy"];
    assert_eq!(conditions(&cluster), expected);
    assert!(active(&cluster).is_empty());
    assert_eq!(count(&cluster, "succeeded"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_failure_policy_ignores_disruptions_and_ends_on_a_fatal_code() {
    let cluster = start();
    create_job(
        &cluster,
        json!({
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [
                    {"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            ]},
        }),
    );
    pass(&cluster, 0).await;
    let pod = active(&cluster)[0].clone();
    finish(&cluster, &pod, 137);
    cluster
        .modify_status::<Pod>("default", pod.metadata.name.as_deref().unwrap(), |pod| {
            let disrupted = PodCondition {
                type_: "DisruptionTarget".into(),
                status: "True".into(),
                ..PodCondition::default()
            };
            pod.status.as_mut().unwrap().conditions = Some(vec![disrupted]);
        })
        .unwrap();
    pass(&cluster, 12).await;
    assert_eq!(count(&cluster, "failed"), 0);
    let pod = active(&cluster)[0].clone();
    finish(&cluster, &pod, 42);
    pass(&cluster, 2).await;
    assert_eq!(conditions(&cluster)[1], "Failed=True PodFailurePolicy");
    let name = pod.metadata.name.clone().unwrap();
    let message = format!(
        "PodFailurePolicy Container c for pod default/{name} failed with exit code 42 matching \
         FailJob rule at index 1"
    );
    assert_eq!(told(&cluster).last(), Some(&message));
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_lives_for_its_ttl() {
    let cluster = start();
    create_job(&cluster, json!({"ttlSecondsAfterFinished": 60}));
    pass(&cluster, 0).await;
    finish(&cluster, &active(&cluster)[0], 0);
    pass(&cluster, 55).await;
    assert!(cluster.get::<Job>("default", "pi").is_some());
    pass(&cluster, 10).await;
    // Foreground: the garbage collector ends it.
    let job = cluster.get::<Job>("default", "pi").unwrap();
    assert!(job.metadata.deletion_timestamp.is_some());
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_let_go() {
    let cluster = start();
    create_job(&cluster, json!({}));
    pass(&cluster, 0).await;
    let name = active(&cluster)[0].metadata.name.clone().unwrap();
    let background =
        DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    cluster.delete::<Job>("default", "pi", &background).unwrap();
    pass(&cluster, 1).await;
    let pod = cluster.get::<Pod>("default", &name).unwrap();
    assert!(!track::has_finalizer(&pod));
}

#[test]
fn indexes_are_written_as_ranges() {
    for text in ["", "0", "0,1", "0-2", "0-2,4,6,7,9-12"] {
        assert_eq!(indexes::format(&indexes::parse(text, 100)), text);
    }
    assert_eq!(indexes::format(&indexes::parse("0-9,x,5-", 4)), "0-3");
}
