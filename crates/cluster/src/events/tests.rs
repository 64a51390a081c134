use std::time::Duration;

use aerostat_clock::{Clock, Seeds};
use k8s_openapi::api::core::v1::{Event, ObjectReference};

use super::{EventType, record, run};
use crate::{Cluster, Options};

fn cluster() -> Cluster {
    let clock = Clock::simulated("2025-01-06T07:51:22Z".parse().unwrap());
    let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(1) });
    crate::bootstrap::run(&cluster, "CA").unwrap();
    cluster
}

fn pod() -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: Some("default".into()),
        name: Some("pi".into()),
        uid: Some("u1".into()),
        ..ObjectReference::default()
    }
}

fn say(cluster: &Cluster, message: &str) {
    record(cluster, "kubelet", Some("n1"), &pod(), EventType::Normal, "Pulling", message);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_counts_up() {
    let cluster = cluster();
    say(&cluster, "a");
    cluster.clock().sleep(Duration::from_secs(60)).await;
    say(&cluster, "a");
    say(&cluster, "b");
    let events = cluster.list::<Event>("default");
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].count, Some(2));
    assert_eq!(events[0].metadata.name.as_deref(), Some("pi.18180b1e81724400"));
    let spread = events[0].last_timestamp.as_ref().unwrap().0
        - events[0].first_timestamp.as_ref().unwrap().0;
    assert_eq!(spread.get_seconds(), 60);
    cluster.clock().sleep(Duration::from_secs(601)).await;
    say(&cluster, "a");
    assert_eq!(cluster.list::<Event>("default").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn many_messages_are_summed_up_and_limited() {
    let cluster = cluster();
    for i in 0..1000 {
        say(&cluster, &format!("image {i}"));
    }
    let events = cluster.list::<Event>("default");
    assert_eq!(events.len(), 10);
    assert_eq!(events[9].message.as_deref(), Some("(combined from similar events): image 24"));
    assert_eq!(events[9].count, Some(16));
    cluster.clock().sleep(Duration::from_secs(300)).await;
    say(&cluster, "image 1000");
    say(&cluster, "image 1001");
    let events = cluster.list::<Event>("default");
    assert_eq!(events[9].message.as_deref(), Some("(combined from similar events): image 1000"));
}

#[tokio::test(start_paused = true)]
async fn events_are_gone_after_an_hour() {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    say(&cluster, "a");
    cluster.clock().sleep(Duration::from_secs(60)).await;
    say(&cluster, "b");
    cluster.clock().sleep(Duration::from_secs(3559)).await;
    assert_eq!(cluster.list::<Event>("default").len(), 1);
    cluster.clock().sleep(Duration::from_secs(60)).await;
    assert!(cluster.list::<Event>("default").is_empty());
}
