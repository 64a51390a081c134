//! An API that never has a good hour: a share of all requests fails all the time.

use std::path::Path;
use std::time::Duration;

use aerostat_clock::Seeds;
use aerostat_cluster::http::faults::Faults;
use aerostat_cluster::registry::{DeleteOptions, Part, WriteOptions};
use aerostat_provider::CloudProvider;
use aerostat_sim::manifest;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use tower::Layer;

use crate::world;

/// What is left undone with the faults of a seed, if anything.
fn play(share: &str, seed: u64) -> Option<String> {
    world::alone(async {
        let mut world = world::start();
        let faults = Faults::new(share.parse().unwrap(), &Seeds::new(seed));
        world.restart_controllers(Client::new(faults.layer(world.service.clone()), "default"));
        for manifest in manifest::read(Path::new("tests/manifests/one-replica.yaml")).unwrap() {
            manifest.apply(&world.cluster).unwrap();
        }
        let clock = world.cluster.clock();
        clock.sleep(Duration::from_secs(300)).await;
        let pods = world.cluster.list::<Pod>("default");
        let runs =
            |pod: &Pod| pod.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Running"));
        if pods.is_empty() || !pods.iter().all(|pod| runs(pod)) {
            return Some(format!("seed {seed}: the pod does not run after five minutes"));
        }
        let deployment = world.cluster.list::<Deployment>("default")[0].metadata.name.clone();
        let none = DeleteOptions::default();
        world.cluster.delete::<Deployment>("default", &deployment.unwrap(), &none).unwrap();
        clock.sleep(Duration::from_secs(600)).await;
        let nodes = world.cluster.list::<Node>("").len();
        let left = world.cloud.list().await.unwrap().len();
        (nodes + left > 0)
            .then(|| format!("seed {seed}: {nodes} nodes and {left} machines are left"))
    })
}

/// The same when only a pool's patience runs out: nothing else happens that could wake anybody.
fn play_patience(share: &str, seed: u64) -> Option<String> {
    world::alone(async {
        let mut world = world::start_kwok();
        let faults = Faults::new(share.parse().unwrap(), &Seeds::new(seed));
        world.restart_controllers(Client::new(faults.layer(world.service.clone()), "default"));
        let clock = world.cluster.clock();
        let pool = world.cluster.kind("karpenter.sh", "nodepools").unwrap();
        let patience = |after: &str| {
            let after = after.to_owned();
            let options = WriteOptions::default();
            let changed =
                world.cluster.update_object(&pool, "", "default", Part::Main, options, |old| {
                    let mut value = old.value.clone();
                    value["spec"]["disruption"]["consolidateAfter"] = after.clone().into();
                    Ok(value)
                });
            changed.unwrap();
        };
        for manifest in manifest::read(Path::new("tests/manifests/kwok-pool.yaml")).unwrap() {
            manifest.apply(&world.cluster).unwrap();
        }
        patience("10s");
        for manifest in manifest::read(Path::new("tests/manifests/one-replica.yaml")).unwrap() {
            manifest.apply(&world.cluster).unwrap();
        }
        let mut waited = 0;
        while world.cluster.list::<Pod>("default").iter().all(|pod| {
            pod.status.as_ref().is_none_or(|status| status.phase.as_deref() != Some("Running"))
        }) {
            clock.sleep(Duration::from_millis(100)).await;
            waited += 1;
            if waited > 3000 {
                return Some(format!("seed {seed}: the pod does not run after five minutes"));
            }
        }
        let none = DeleteOptions::default();
        clock.sleep(Duration::from_secs(1)).await;
        world.cluster.delete::<Deployment>("default", "web", &none).unwrap();
        clock.sleep(Duration::from_millis(10_000 + 20 * (seed % 20))).await;
        patience("0s");
        clock.sleep(Duration::from_secs(120)).await;
        let nodes = world.cluster.list::<Node>("").len();
        (nodes > 0).then(|| format!("seed {seed}: {nodes} nodes are left"))
    })
}

#[test]
fn a_pools_patience_runs_out() {
    let undone: Vec<String> = (0..20).filter_map(|seed| play_patience("5%", seed)).collect();
    assert!(undone.is_empty(), "{undone:#?}");
}

#[test]
fn work_is_done_all_the_same() {
    for (share, seeds) in [("5%", 0..20), ("30%", 60..80)] {
        let undone: Vec<String> = seeds.filter_map(|seed| play(share, seed)).collect();
        assert!(undone.is_empty(), "{undone:#?}");
    }
}
