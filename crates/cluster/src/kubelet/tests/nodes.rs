//! Readiness, heartbeats, machines that go.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_becomes_ready_and_says_so() {
    let cluster = cluster();
    let from = cluster.clock().now();
    boot(&cluster, "n1", "10.0.101.4");
    wait(&cluster, 0.5).await;
    let condition = |name: &str| {
        let node = cluster.get::<Node>("", "n1").unwrap();
        let conditions = node.status.clone().unwrap().conditions.unwrap();
        let found = conditions.into_iter().find(|condition| condition.type_ == name).unwrap();
        format!("{} {} {}", found.status, found.reason.unwrap(), found.message.unwrap())
    };
    assert!(condition("Ready").starts_with("False KubeletNotReady"));
    let memory = "False KubeletHasSufficientMemory kubelet has sufficient memory available";
    assert_eq!(condition("MemoryPressure"), memory);
    wait(&cluster, 2.0).await;
    assert_eq!(condition("Ready"), "True KubeletReady kubelet is posting ready status");
    assert_eq!(
        events_since(&cluster, "n1", from),
        [
            "0.0 Starting: Starting kubelet.",
            "0.0 NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory",
            "0.0 NodeHasNoDiskPressure: Node n1 status is now: NodeHasNoDiskPressure",
            "0.0 NodeHasSufficientPID: Node n1 status is now: NodeHasSufficientPID",
            "0.0 NodeAllocatableEnforced: Updated Node Allocatable limit across pods",
            "2.0 NodeReady: Node n1 status is now: NodeReady",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_writes_a_lease_in_ten_seconds_and_a_status_in_five_minutes() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let renewed = || {
        let lease = cluster.get::<Lease>("kube-node-lease", "n1").unwrap();
        lease.spec.clone().unwrap().renew_time.unwrap().0
    };
    let mut nodes = cluster.informer::<Node>();
    let mut drain = || std::iter::from_fn(|| nodes.try_next()).count();
    drain();
    let before = renewed();
    wait(&cluster, 300.0).await;
    assert_eq!(drain(), 1);
    assert_eq!(renewed().duration_since(before).as_secs(), 300);
    wait(&cluster, 9.9).await;
    assert_eq!(renewed().duration_since(before).as_secs() % 10, 0);
    let revision = cluster.store().revision();
    wait(&cluster, 120.0).await;
    assert_eq!(cluster.store().revision(), revision, "nobody looks");
    assert!(cluster.clock().now().duration_since(renewed()).as_secs() < 10);
    let lease = cluster.get::<Lease>("kube-node-lease", "n1").unwrap().spec.clone().unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some("n1"));
    assert_eq!(lease.lease_duration_seconds, Some(40));

    cluster.delete::<Node>("", "n1", &DeleteOptions::default()).unwrap();
    wait(&cluster, 1.0).await;
    drain();
    let revision = cluster.store().revision();
    wait(&cluster, 3600.0).await;
    assert_eq!(cluster.store().revision(), revision, "without nodes nothing is written");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_comes_back_at_the_next_beat_and_a_dead_node_renews_none() {
    let cluster = cluster();
    ready_node(&cluster).await;
    let renewed = || {
        let lease = cluster.get::<Lease>("kube-node-lease", "n1")?;
        Some(lease.spec.clone()?.renew_time?.0)
    };
    let options = DeleteOptions::default();
    cluster.delete::<Lease>("kube-node-lease", "n1", &options).unwrap();
    wait(&cluster, 0.1).await;
    assert_eq!(renewed(), None);
    wait(&cluster, 10.0).await;
    let first = renewed().unwrap();
    wait(&cluster, 20.0).await;
    assert_eq!(renewed().unwrap().duration_since(first).as_secs(), 20);
    let unmark = |node: &mut Node| node.metadata.annotations = None;
    cluster.modify::<Node>("", "n1", unmark).unwrap();
    wait(&cluster, 0.1).await;
    let last = renewed();
    wait(&cluster, 60.0).await;
    assert_eq!(renewed(), last);
}

#[tokio::test(start_paused = true)]
async fn pulled_images_appear_in_the_status() {
    let cluster = cluster();
    ready_node(&cluster).await;
    bind(&cluster, "pi", json!({}), pi());
    wait(&cluster, 30.0).await;
    let node = cluster.get::<Node>("", "n1").unwrap();
    let images = node.status.clone().unwrap().images.unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].size_bytes, Some(336_374_010));
    assert_eq!(images[0].names.as_ref().unwrap()[1], "docker.io/library/perl:5.34.0");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_takes_its_pods_along() {
    let cluster = cluster();
    ready_node(&cluster).await;
    bind(&cluster, "pi", json!({}), pi());
    wait(&cluster, 16.0).await;
    assert_eq!(phase(&cluster, "pi").as_deref(), Some("Running"));
    cluster.delete::<Node>("", "n1", &DeleteOptions::default()).unwrap();
    wait(&cluster, 60.0).await;
    assert_eq!(phase(&cluster, "pi").as_deref(), Some("Running"), "nobody is there to report");
}

#[tokio::test(start_paused = true)]
async fn nodes_without_the_marker_are_left_alone() {
    let cluster = cluster();
    boot(&cluster, "n1", "10.0.101.4");
    let mark = |value: &'static str| {
        let mark = ("sim.aerostat.dev/kubelet".to_owned(), value.to_owned());
        let change = |node: &mut Node| {
            node.metadata.annotations.get_or_insert_default().extend([mark.clone()]);
        };
        cluster.modify::<Node>("", "n1", change).unwrap();
    };
    mark("false");
    bind(&cluster, "pi", json!({}), pi());
    wait(&cluster, 0.1).await;
    let revision = cluster.store().revision();
    wait(&cluster, 60.0).await;
    assert_eq!(cluster.store().revision(), revision);
    // The machine comes later than its pod.
    mark("true");
    wait(&cluster, 60.0).await;
    assert_eq!(phase(&cluster, "pi").as_deref(), Some("Succeeded"));
}
