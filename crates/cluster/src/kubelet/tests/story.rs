//! What the article's `kubectl describe pod` shows, from the binding on.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_job_on_a_new_node() {
    let cluster = cluster();
    boot(&cluster, "n1", "10.0.101.4");
    wait(&cluster, 1.0).await;
    let bound = cluster.clock().now();
    bind(&cluster, "pi-89m47", json!({}), pi());
    wait(&cluster, 0.5).await;
    let early = status_json(&cluster, "pi-89m47");
    assert_eq!(early["phase"], "Pending");
    assert_eq!(early["hostIP"], "10.0.101.4");
    assert_eq!(early["podIP"], Value::Null);
    assert_eq!(
        early["containerStatuses"][0]["state"],
        json!({"waiting": {"reason": "ContainerCreating"}})
    );
    assert_eq!(
        conditions(&cluster, "pi-89m47"),
        [
            "PodReadyToStartContainers False",
            "Initialized True",
            "Ready False ContainersNotReady",
            "ContainersReady False ContainersNotReady",
            "PodScheduled True",
        ]
    );

    wait(&cluster, 28.0).await;
    assert_eq!(phase(&cluster, "pi-89m47").as_deref(), Some("Running"));
    assert_eq!(status(&cluster, "pi-89m47").pod_ip.as_deref(), Some("10.0.101.64"));
    assert!(conditions(&cluster, "pi-89m47").contains(&"Ready True".to_owned()));

    wait(&cluster, 4.0).await;
    let events = events_since(&cluster, "pi-89m47", bound);
    let sandbox = "0.0 FailedCreatePodSandBox: Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"";
    assert!(events[0].starts_with(sandbox), "{events:?}");
    assert!(events[0].ends_with("connect: connection refused\""), "{events:?}");
    assert_eq!(
        events[1..],
        [
            "13.2 Pulling: Pulling image \"perl:5.34.0\"",
            "27.1 Pulled: Successfully pulled image \"perl:5.34.0\" in 13.9s (13.9s including waiting). Image size: 336374010 bytes.",
            "27.1 Created: Created container pi",
            "27.2 Started: Started container pi",
        ]
    );
    assert_eq!(phase(&cluster, "pi-89m47").as_deref(), Some("Succeeded"));
    assert_eq!(
        conditions(&cluster, "pi-89m47"),
        [
            "PodReadyToStartContainers False",
            "Initialized True PodCompleted",
            "Ready False PodCompleted",
            "ContainersReady False PodCompleted",
            "PodScheduled True",
        ]
    );
    let end = status_json(&cluster, "pi-89m47");
    let container = &end["containerStatuses"][0];
    let ended = &container["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(0), &json!("Completed")));
    let time = |field: &str| ended[field].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(time("finishedAt").duration_since(time("startedAt")).as_secs(), 4);
    assert_eq!(
        container["imageID"],
        "docker.io/library/perl@sha256:2584f46a92d1042b25320131219e5832c5b3e75086dfaaff33e4fda7a9f47d99"
    );
    let id = container["containerID"].as_str().unwrap();
    assert_eq!(id.strip_prefix("containerd://").unwrap().len(), 64);
    assert_eq!(ended["containerID"], container["containerID"]);
    assert_eq!(end["startTime"], "2025-01-06T07:51:23Z");
}

#[tokio::test(start_paused = true)]
async fn a_job_on_a_warm_node_pulls_at_once_and_the_next_finds_the_image() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let bound = cluster.clock().now();
    bind(&cluster, "first", json!({}), pi());
    wait(&cluster, 30.0).await;
    assert!(events_since(&cluster, "first", bound)[0].starts_with("0.2 Pulling:"));
    let bound = cluster.clock().now();
    bind(&cluster, "second", json!({}), pi());
    wait(&cluster, 3.0).await;
    assert_eq!(
        events_since(&cluster, "second", bound),
        [
            "0.2 Pulled: Container image \"perl:5.34.0\" already present on machine and can be accessed by the pod",
            "0.2 Created: Created container pi",
            "0.3 Started: Started container pi",
        ]
    );
    let mut always = pi();
    always["containers"][0]["imagePullPolicy"] = "Always".into();
    let bound = cluster.clock().now();
    bind(&cluster, "third", json!({}), always);
    wait(&cluster, 3.0).await;
    assert_eq!(
        events_since(&cluster, "third", bound)[1],
        "0.7 Pulled: Successfully pulled image \"perl:5.34.0\" in 500ms (500ms including waiting). Image size: 336374010 bytes."
    );
}

#[tokio::test(start_paused = true)]
async fn pulls_of_one_node_wait_for_each_other() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let bound = cluster.clock().now();
    bind(&cluster, "a", json!({}), pi());
    bind(
        &cluster,
        "b",
        json!({"sim.aerostat.dev/image-size.app": "48399138"}),
        json!({
            "containers": [{"name": "app", "image": "example.com/app:1"}],
        }),
    );
    bind(&cluster, "c", json!({}), pi());
    wait(&cluster, 30.0).await;
    assert!(events_since(&cluster, "a", bound)[1].contains("in 13.9s (13.9s including waiting)"));
    assert_eq!(
        events_since(&cluster, "b", bound)[..2],
        [
            "0.2 Pulling: Pulling image \"example.com/app:1\"",
            "16.1 Pulled: Successfully pulled image \"example.com/app:1\" in 2s (15.9s including waiting). Image size: 48399138 bytes.",
        ]
    );
    assert!(events_since(&cluster, "c", bound)[1].contains("in 500ms (16.4s including waiting)"));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_bytes() {
    async fn once() -> String {
        let cluster = cluster();
        boot(&cluster, "n1", "10.0.101.4");
        bind(&cluster, "pi", json!({}), pi());
        wait(&cluster, 60.0).await;
        let objects = ["events", "pods", "nodes"].map(|plural| {
            let kind = cluster.kind("", plural).unwrap();
            let (objects, _) = cluster.store().list(&kind.resource(), "");
            objects.iter().map(|object| object.value.to_string()).collect::<String>()
        });
        objects.concat()
    }
    assert_eq!(once().await, once().await);
}
