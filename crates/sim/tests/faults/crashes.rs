//! The controllers die between any two of their writes, and start again knowing nothing: whatever
//! happened before, the end is the same, and nothing is ordered twice.
//!
//! A write is lost either before the API server has seen it, or its answer is. What the controllers
//! asked of the cloud meanwhile stands.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aerostat_api::NodeClaim;
use aerostat_cluster::registry::{DeleteOptions, Part, WriteOptions};
use aerostat_provider::CloudProvider;
use aerostat_sim::{World, manifest};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::client::{Counts, Crash, dying};
use crate::world;

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

/// Two guarded pods come, their nodes are deleted, they go; the controllers die once on the way.
/// Also returns the number of writes, and which of them they died at.
async fn play(crash: Option<Crash>) -> (Outcome, usize, String) {
    let mut world = world::start();
    let clock = world.cluster.clock();
    let epoch = clock.now();
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
fn watch_claims(world: &World) -> Arc<Mutex<BTreeSet<String>>> {
    let uids: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (seen, api) = (uids.clone(), kube::Api::<NodeClaim>::all(world.client.clone()));
    tokio::spawn(async move {
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

/// Lets the controllers die at each `step`-th write.
fn check(step: usize) {
    let (wanted, writes, _) = world::alone(play(None));
    assert_eq!(wanted.middle, [1, 1, 1, 2], "the workload is up on one node");
    assert_eq!(wanted.end, [0, 0, 0, 0], "everything has gone");
    assert_eq!(wanted.ordered, 2);
    assert!(writes > 20, "{writes} writes");
    let crashes = (0..writes).flat_map(|number| [Crash::Before(number), Crash::After(number)]);
    let mut failures = Vec::new();
    for crash in crashes.step_by(step) {
        let (outcome, _, at) = world::alone(play(Some(crash)));
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
#[ignore = "takes minutes: cargo xtask soak"]
fn a_crash_at_any_write_leads_to_the_same_end() {
    check(1);
}
