//! The controllers die between any two of their writes, and start again knowing nothing: whatever
//! happened before, the end is the same, and nothing is ordered twice.
//!
//! A write is lost either before the API server has seen it, or its answer is. What the controllers
//! asked of the cloud meanwhile stands.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aerostat_api::NodeClaim;
use aerostat_clock::Clock;
use aerostat_cluster::registry::{DeleteOptions, Part, WriteOptions};
use aerostat_engine::snapshot::Settings;
use aerostat_provider::CloudProvider;
use aerostat_provider::catalog::{Catalog, File, Region};
use aerostat_sim::{World, WorldOptions, manifest};
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt;

const START: &str = "2025-01-06T08:00:00Z";

/// When the controllers die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    /// Instead of their n-th write.
    Before(usize),
    /// When it has been done, but before they hear of it.
    After(usize),
}

/// What is left in the end, and what happened on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// Claims that were ever created.
    ordered: usize,
    /// Machines, nodes, claims and running pods when the workload is up again after a drain.
    middle: [usize; 4],
    /// The same when the workload has gone.
    end: [usize; 4],
}

/// A client that dies at its n-th write.
fn dying(world: &World, crash: Option<Crash>, counts: &Counts) -> Client {
    let service = world.service.clone();
    let counts = counts.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let service = service.clone();
        let counts = counts.clone();
        async move {
            let events = request.uri().path().ends_with("/events");
            let is_write = request.method() != Method::GET && !events;
            let number = if is_write { counts.writes.fetch_add(1, Ordering::Relaxed) } else { 0 };
            let call = format!("{} {}", request.method(), request.uri().path());
            if is_write && crash == Some(Crash::Before(number)) {
                *counts.at.lock().unwrap() = call;
                counts.died.notify_one();
                return std::future::pending().await;
            }
            let answer = service.oneshot(request).await;
            if is_write && crash == Some(Crash::After(number)) {
                *counts.at.lock().unwrap() = call;
                counts.died.notify_one();
                return std::future::pending().await;
            }
            answer
        }
    });
    Client::new(service, "default")
}

#[derive(Clone, Debug, Default)]
struct Counts {
    writes: Arc<AtomicUsize>,
    died: Arc<Notify>,
    at: Arc<Mutex<String>>,
}

/// A cloud that sells little, so that planning is quick.
fn region() -> Arc<Region> {
    let offering = |price: f64| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
        ]})
    };
    let types: Vec<Value> = [2, 4, 8]
        .map(|cpu| {
            json!({
                "name": format!("m-{cpu}x-amd64-linux"),
                "offerings": [offering(f64::from(cpu) * 0.05)],
                "architecture": "amd64",
                "operatingSystems": ["linux"],
                "resources": {
                    "cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4),
                    "pods": "64", "ephemeral-storage": "20Gi",
                },
            })
        })
        .into();
    let text = serde_json::to_string(&types).unwrap();
    let catalog = Catalog::from_kwok_json(File { name: "types.json", text: &text }).unwrap();
    catalog.region("test-zone").unwrap()
}

/// Two guarded pods come, their nodes are deleted, they go; the controllers die once on the way.
/// Also returns the number of writes, and which of them they died at.
async fn play(crash: Option<Crash>) -> (Outcome, usize, String) {
    let epoch: Timestamp = START.parse().unwrap();
    let clock = Clock::simulated(epoch);
    let options = WorldOptions {
        clock,
        seed: 1,
        region: region(),
        config: aerostat_sim::Config::default(),
        ca: String::new(),
        settings: Settings::default(),
    };
    let mut world = World::start(options).unwrap();
    let counts = Counts::default();
    world.restart_controllers(dying(&world, crash, &counts));
    let created = watch_claims(&world);
    let mut seen = Vec::new();
    for (at, step) in [(1, "apply"), (60, "drain"), (200, "look"), (200, "scale"), (400, "look")] {
        let when = epoch.checked_add(Duration::from_secs(at)).unwrap();
        loop {
            tokio::select! {
                biased;
                why = world.failed() => panic!("{why}"),
                () = counts.died.notified() => {
                    let client = dying(&world, None, &Counts::default());
                    world.restart_controllers(client);
                }
                () = clock.sleep_until(when) => break,
            }
        }
        match step {
            "apply" => {
                let file = Path::new("tests/manifests/guarded.yaml");
                for manifest in manifest::read(file).unwrap() {
                    manifest.apply(&world.cluster).unwrap();
                }
            }
            "drain" => {
                let kind = world.cluster.kind("", "nodes").unwrap();
                for node in world.cluster.list::<Node>("") {
                    let name = node.metadata.name.as_deref().unwrap();
                    let options = DeleteOptions::default();
                    world.cluster.delete_object(&kind, "", name, &options).unwrap();
                }
            }
            "scale" => {
                let kind = world.cluster.kind("apps", "deployments").unwrap();
                let options = WriteOptions::default();
                let none = |old: &aerostat_cluster::store::Object| {
                    let mut value = old.value.clone();
                    value["spec"]["replicas"] = 0.into();
                    Ok(value)
                };
                world
                    .cluster
                    .update_object(&kind, "default", "guarded", Part::Main, options, none)
                    .unwrap();
            }
            _ => seen.push(count(&world).await),
        }
    }
    let outcome = Outcome { ordered: created.lock().unwrap().len(), middle: seen[0], end: seen[1] };
    let at = counts.at.lock().unwrap().clone();
    (outcome, counts.writes.load(Ordering::Relaxed), at)
}

/// Machines, nodes, claims and running pods.
async fn count(world: &World) -> [usize; 4] {
    let pods = world.cluster.list::<Pod>("default");
    let runs = |pod: &Arc<Pod>| {
        pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
    };
    [
        world.cloud.list().await.unwrap().len(),
        world.cluster.list::<Node>("").len(),
        claims(world).len(),
        pods.iter().filter(|pod| runs(pod)).count(),
    ]
}

fn claims(world: &World) -> Vec<NodeClaim> {
    let kind = world.cluster.kind("karpenter.sh", "nodeclaims").unwrap();
    let (objects, _) = world.cluster.store().list(&kind.resource(), "");
    let read = |object: &Arc<aerostat_cluster::store::Object>| {
        serde_json::from_value(object.value.clone()).unwrap()
    };
    objects.iter().map(read).collect()
}

/// The UIDs of all claims that there ever were.
fn watch_claims(world: &World) -> Arc<Mutex<std::collections::BTreeSet<String>>> {
    let uids: Arc<Mutex<std::collections::BTreeSet<String>>> = Arc::default();
    let (seen, api) = (uids.clone(), kube::Api::<NodeClaim>::all(world.client.clone()));
    tokio::spawn(async move {
        use futures::StreamExt;
        let config = kube::runtime::watcher::Config::default();
        let mut events = std::pin::pin!(kube::runtime::watcher(api, config));
        while let Some(event) = events.next().await {
            if let Ok(kube::runtime::watcher::Event::Apply(claim)) = event {
                seen.lock().unwrap().extend(claim.metadata.uid);
            }
        }
    });
    uids
}

/// Plays it in a runtime of its own.
fn play_alone(crash: Option<Crash>) -> (Outcome, usize, String) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play(crash))
}

/// Lets the controllers die at each `step`-th write.
fn check(step: usize) {
    let (wanted, writes, _) = play_alone(None);
    assert_eq!(wanted.middle, [1, 1, 1, 2], "the workload is up on one node");
    assert_eq!(wanted.end, [0, 0, 0, 0], "everything has gone");
    assert_eq!(wanted.ordered, 2);
    assert!(writes > 20, "{writes} writes");
    let crashes = (0..writes).flat_map(|number| [Crash::Before(number), Crash::After(number)]);
    let mut failures = Vec::new();
    for crash in crashes.step_by(step) {
        let (outcome, _, at) = play_alone(Some(crash));
        assert!(!at.is_empty(), "{crash:?} of {writes} never came");
        if outcome != wanted {
            failures.push(format!("{crash:?} ({at}): {outcome:?}"));
        }
    }
    assert!(failures.is_empty(), "{} went wrong:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_crash_leads_to_the_same_end() {
    check(9);
}

#[test]
#[ignore = "takes minutes"]
fn a_crash_at_any_write_leads_to_the_same_end() {
    check(1);
}
