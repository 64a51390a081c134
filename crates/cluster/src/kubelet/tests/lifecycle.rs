//! Restarts, init containers, probes, termination.

use super::*;

fn container(command: Value) -> Value {
    json!({"containers": [{"name": "c", "image": "busybox:1.37", "command": command}]})
}

fn state(cluster: &Cluster, pod: &str) -> Value {
    status_json(cluster, pod)["containerStatuses"][0]["state"].clone()
}

fn reasons(cluster: &Cluster, pod: &str, from: Timestamp) -> Vec<String> {
    let short = |line: String| line.split(':').next().unwrap().to_owned();
    events_since(cluster, pod, from).into_iter().map(short).collect()
}

#[tokio::test(start_paused = true)]
async fn a_crashing_container_backs_off() {
    let cluster = cluster();
    ready_node(&cluster).await;
    bind(&cluster, "warm", json!({}), container(json!(["sleep", "infinity"])));
    wait(&cluster, 5.0).await;
    let bound = cluster.clock().now();
    bind(&cluster, "crash", json!({}), container(json!(["sh", "-c", "sleep 1; exit 3"])));
    wait(&cluster, 5.0).await;
    let uid = cluster.get::<Pod>("default", "crash").unwrap().metadata.uid.clone().unwrap();
    let waiting = &state(&cluster, "crash")["waiting"];
    assert_eq!(waiting["reason"], "CrashLoopBackOff");
    assert_eq!(
        waiting["message"],
        format!("back-off 10s restarting failed container=c pod=crash_default({uid})")
    );
    assert_eq!(phase(&cluster, "crash").as_deref(), Some("Running"));
    let status = status_json(&cluster, "crash");
    let container = &status["containerStatuses"][0];
    assert_eq!(container["restartCount"], 1);
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(container["lastState"]["terminated"]["reason"], "Error");
    wait(&cluster, 40.0).await;
    // Started at 0.3, 1.4, (1.1 later + 10) 12.5, (+ 20) 33.6.
    let lines = events_since(&cluster, "crash", bound);
    assert!(lines[0].ends_with("x4"), "{lines:?}");
    let back_off = format!(
        "2.4 BackOff: Back-off restarting failed container c in pod crash_default({uid}) x3"
    );
    assert_eq!(lines[3], back_off);
    assert_eq!(status_json(&cluster, "crash")["containerStatuses"][0]["restartCount"], 3);
}

#[tokio::test(start_paused = true)]
async fn restart_policies_decide_what_ends_a_pod() {
    let cluster = cluster();
    ready_node(&cluster).await;
    for (name, policy, code, expected) in [
        ("a", "Never", "0", "Succeeded"),
        ("b", "Never", "1", "Failed"),
        ("c", "OnFailure", "0", "Succeeded"),
        ("d", "OnFailure", "1", "Running"),
        ("e", "Always", "0", "Running"),
    ] {
        let annotations =
            json!({"sim.aerostat.dev/duration": "1s", "sim.aerostat.dev/exit-code": code});
        let mut spec = json!({"containers": [{"name": "c", "image": "busybox:1.37"}]});
        spec["restartPolicy"] = policy.into();
        bind(&cluster, name, annotations, spec);
        wait(&cluster, 5.0).await;
        assert_eq!(phase(&cluster, name).as_deref(), Some(expected), "{policy} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_annotation_is_reported_and_the_default_taken() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let bound = cluster.clock().now();
    let annotations = json!({"sim.aerostat.dev/duration": "soon"});
    let mut spec = container(json!(["sleep", "2"]));
    spec["restartPolicy"] = "Never".into();
    bind(&cluster, "a", annotations, spec);
    wait(&cluster, 4.0).await;
    let line = "sim.aerostat.dev/duration: \"soon\" is not a duration: write it like 30s, 10m or 24h0m0s; the container goes by the defaults";
    assert!(events_since(&cluster, "a", bound).iter().any(|event| event.contains(line)));
    assert_eq!(state(&cluster, "a")["terminated"]["exitCode"], 0);
}

#[tokio::test(start_paused = true)]
async fn init_containers_and_sidecars_come_in_order() {
    let cluster = cluster();
    ready_node(&cluster).await;
    bind(&cluster, "warm", json!({}), container(json!(["sleep", "infinity"])));
    wait(&cluster, 5.0).await;
    let bound = cluster.clock().now();
    bind(
        &cluster,
        "a",
        json!({}),
        json!({
            "restartPolicy": "Never",
            "initContainers": [
                {"name": "one", "image": "busybox:1.37", "command": ["sleep", "2"]},
                {"name": "side", "image": "busybox:1.37", "restartPolicy": "Always", "command": ["nginx"],
                 "startupProbe": {"initialDelaySeconds": 3, "tcpSocket": {"port": 80}}},
                {"name": "two", "image": "busybox:1.37", "command": ["sleep", "1"]},
            ],
            "containers": [{"name": "main", "image": "busybox:1.37", "command": ["sleep", "5"]}],
        }),
    );
    wait(&cluster, 1.0).await;
    assert_eq!(state(&cluster, "a")["waiting"]["reason"], "PodInitializing");
    assert_eq!(conditions(&cluster, "a")[1], "Initialized False ContainersNotInitialized");
    wait(&cluster, 7.0).await;
    assert_eq!(conditions(&cluster, "a")[2], "Ready True");
    wait(&cluster, 7.0).await;
    let started: Vec<String> = events_since(&cluster, "a", bound)
        .into_iter()
        .filter(|line| line.contains("Started") || line.contains("Killing"))
        .collect();
    assert_eq!(
        started,
        [
            "0.3 Started: Started container one",
            "2.4 Started: Started container side",
            "5.5 Started: Started container two",
            "6.6 Started: Started container main",
            "11.6 Killing: Stopping container side",
        ]
    );
    assert_eq!(phase(&cluster, "a").as_deref(), Some("Succeeded"));
    let statuses = status_json(&cluster, "a")["initContainerStatuses"].clone();
    assert_eq!(statuses[1]["state"]["terminated"]["exitCode"], 143);
    assert_eq!(statuses[0]["ready"], true);
}

#[tokio::test(start_paused = true)]
async fn a_failed_init_container_fails_the_pod() {
    let cluster = cluster();
    ready_node(&cluster).await;
    bind(
        &cluster,
        "a",
        json!({"sim.aerostat.dev/exit-code.one": "7"}),
        json!({
            "restartPolicy": "Never",
            "initContainers": [{"name": "one", "image": "busybox:1.37", "command": ["make"]}],
            "containers": [{"name": "main", "image": "busybox:1.37"}],
        }),
    );
    wait(&cluster, 5.0).await;
    let status = status_json(&cluster, "a");
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 7);
    assert_eq!(state(&cluster, "a")["waiting"]["reason"], "PodInitializing");
}

#[tokio::test(start_paused = true)]
async fn readiness_waits_for_the_probe_and_the_annotation() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let annotations = json!({"sim.aerostat.dev/ready-delay": "8s"});
    let mut spec = container(json!(["nginx"]));
    spec["containers"][0]["readinessProbe"] =
        json!({"initialDelaySeconds": 5, "tcpSocket": {"port": 80}});
    bind(&cluster, "probe", json!({}), spec.clone());
    bind(&cluster, "slow", annotations, spec);
    let ready = |name| conditions(&cluster, name)[2] == "Ready True";
    // Two pulls one after the other, then 5 s and 8 s.
    wait(&cluster, 5.0).await;
    assert!(!ready("probe"));
    wait(&cluster, 1.5).await;
    assert!(ready("probe") && !ready("slow"));
    wait(&cluster, 3.0).await;
    assert!(ready("slow"));
}

#[tokio::test(start_paused = true)]
async fn deletion_ends_a_pod_within_its_grace() {
    let cluster = cluster();
    ready_node(&cluster).await;
    for (name, command, ends_after, code) in
        [("sleeper", "sleep", 30.0, 137), ("server", "nginx", 0.5, 143)]
    {
        bind(&cluster, name, json!({}), container(json!([command, "infinity"])));
        wait(&cluster, 5.0).await;
        let from = cluster.clock().now();
        let mut pods = cluster.informer::<Pod>();
        while pods.try_next().is_some() {}
        cluster.delete::<Pod>("default", name, &DeleteOptions::default()).unwrap();
        wait(&cluster, ends_after - 0.1).await;
        assert_eq!(phase(&cluster, name).as_deref(), Some("Running"));
        wait(&cluster, 0.2).await;
        assert!(cluster.get::<Pod>("default", name).is_none(), "{name}");
        assert!(
            events_since(&cluster, name, from)
                .contains(&"0.0 Killing: Stopping container c".to_owned())
        );
        let mut last = None;
        while let Some(change) = pods.try_next() {
            if let crate::Change::Deleted(pod) = change {
                last = Some(serde_json::to_value(&pod.status).unwrap());
            }
        }
        let last = last.unwrap();
        assert_eq!(last["phase"], "Failed");
        assert_eq!(last["containerStatuses"][0]["state"]["terminated"]["exitCode"], code);
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_without_grace_is_at_once_and_said() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let mut spec = container(json!(["sleep", "infinity"]));
    spec["terminationGracePeriodSeconds"] = 0.into();
    bind(&cluster, "balloon", json!({}), spec);
    wait(&cluster, 5.0).await;
    let from = cluster.clock().now();
    cluster.delete::<Pod>("default", "balloon", &DeleteOptions::default()).unwrap();
    assert!(cluster.get::<Pod>("default", "balloon").is_none());
    wait(&cluster, 60.0).await;
    assert_eq!(reasons(&cluster, "balloon", from).last().unwrap(), "0.0 Killing");
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_shortens_and_a_pod_that_never_ran_goes_at_once() {
    let cluster = cluster();
    ready_node(&cluster).await;
    bind(&cluster, "a", json!({}), container(json!(["sleep", "infinity"])));
    wait(&cluster, 5.0).await;
    cluster.delete::<Pod>("default", "a", &DeleteOptions::default()).unwrap();
    let shorter = DeleteOptions { grace_period: Some(2), ..DeleteOptions::default() };
    cluster.delete::<Pod>("default", "a", &shorter).unwrap();
    wait(&cluster, 2.1).await;
    assert!(cluster.get::<Pod>("default", "a").is_none());

    bind(&cluster, "b", json!({}), pi());
    wait(&cluster, 5.0).await;
    cluster.delete::<Pod>("default", "b", &DeleteOptions::default()).unwrap();
    wait(&cluster, 0.1).await;
    assert!(cluster.get::<Pod>("default", "b").is_none());
    bind(&cluster, "b", json!({}), pi());
    wait(&cluster, 20.0).await;
    assert_eq!(phase(&cluster, "b").as_deref(), Some("Succeeded"), "the pull had gone on");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_keeps_the_object_but_not_the_containers() {
    let cluster = cluster();
    ready_node(&cluster).await;
    bind(&cluster, "a", json!({}), container(json!(["nginx"])));
    cluster
        .modify::<Pod>("default", "a", |pod| {
            pod.metadata.finalizers = Some(vec!["batch.kubernetes.io/job-tracking".into()]);
        })
        .unwrap();
    wait(&cluster, 5.0).await;
    cluster.delete::<Pod>("default", "a", &DeleteOptions::default()).unwrap();
    wait(&cluster, 5.0).await;
    assert_eq!(phase(&cluster, "a").as_deref(), Some("Failed"));
    cluster.modify::<Pod>("default", "a", |pod| pod.metadata.finalizers = None).unwrap();
    assert!(cluster.get::<Pod>("default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_pod_ends_it() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let mut spec = container(json!(["nginx"]));
    spec["activeDeadlineSeconds"] = 10.into();
    bind(&cluster, "a", json!({}), spec);
    wait(&cluster, 11.0).await;
    let status = status_json(&cluster, "a");
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_may_not_be_pulled_blocks() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let mut spec = container(json!(["nginx"]));
    spec["containers"][0]["imagePullPolicy"] = "Never".into();
    bind(&cluster, "a", json!({}), spec);
    wait(&cluster, 60.0).await;
    assert_eq!(state(&cluster, "a")["waiting"]["reason"], "ErrImageNeverPull");
    assert_eq!(phase(&cluster, "a").as_deref(), Some("Pending"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_fit_is_refused() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let asks = |cpu: &str| {
        let mut spec = container(json!(["sleep", "5"]));
        spec["restartPolicy"] = "Never".into();
        spec["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        spec
    };
    bind(&cluster, "a", json!({}), asks("1500m"));
    bind(&cluster, "b", json!({}), asks("500m"));
    let mut elsewhere = asks("100m");
    elsewhere["nodeSelector"] = json!({"disk": "ssd"});
    bind(&cluster, "c", json!({}), elsewhere);
    wait(&cluster, 1.0).await;
    let outcome = |name: &str| {
        let status = status_json(&cluster, name);
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("phase"), text("reason"), text("message"))
    };
    let cpu = "Failed OutOfcpu Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 1500, capacity: 1930";
    assert_eq!(outcome("b"), cpu);
    let affinity = "Failed NodeAffinity Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    assert_eq!(outcome("c"), affinity);
    wait(&cluster, 10.0).await;
    assert_eq!(phase(&cluster, "a").as_deref(), Some("Succeeded"));
    bind(&cluster, "d", json!({}), asks("1900m"));
    wait(&cluster, 1.0).await;
    assert_eq!(phase(&cluster, "d").as_deref(), Some("Running"), "the room is free again");
}
