//! A pod that something keeps off every machine must not bring machines without end.
//!
//! The same as Karpenter's end-to-end spec "Runaway Scale-Up", in virtual time: somebody taints each
//! node as it joins, and no plan can know it before.

use std::collections::BTreeSet;

use aerostat_clock::Clock;
use aerostat_cluster::Change;
use aerostat_engine::snapshot::Settings;
use aerostat_provider::catalog::{Catalog, Flavor};
use aerostat_sim::{Config, World, WorldOptions, manifest};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use std::path::Path;
use std::time::Duration;

const START: Timestamp = Timestamp::constant(1_767_571_200, 0);

/// Taints nodes once they have joined; tells how many there were.
async fn taint_all(world: &World) -> BTreeSet<String> {
    let mut nodes = world.cluster.informer::<Node>();
    let mut seen = BTreeSet::new();
    let end = START + Duration::from_secs(300);
    let clock = world.cluster.clock();
    loop {
        let change = tokio::select! {
            biased;
            change = nodes.next() => change,
            () = clock.sleep_until(end) => return seen,
        };
        let Some(Change::Applied { new, .. }) = change else { continue };
        let name = new.metadata.name.clone().expect("nodes have names");
        if !seen.insert(name.clone()) {
            continue;
        }
        let taint = Taint {
            key: "test".to_owned(),
            value: Some("true".to_owned()),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        };
        let tainted = world.cluster.modify::<Node>("", &name, |node| {
            let spec = node.spec.get_or_insert_default();
            spec.taints.get_or_insert_default().push(taint.clone());
        });
        tainted.expect("the node is there");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_for_a_pod_that_runs_on_none_come_ever_more_slowly() {
    let clock = Clock::simulated(START);
    let region = Catalog::kwok(None).unwrap().region("test-zone").unwrap();
    let world = World::start(WorldOptions {
        clock,
        seed: 3,
        region,
        config: Config::of(Flavor::Kwok),
        ca: String::new(),
        settings: Settings::default(),
    })
    .unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests");
    for file in ["kwok-pool.yaml", "one-replica.yaml"] {
        for manifest in manifest::read(&folder.join(file)).unwrap() {
            manifest.apply(&world.cluster).unwrap();
        }
    }
    let nodes = taint_all(&world).await;
    // At 0 s, at once, and then after 10, 20, 40, 80 and 160 s.
    assert!((3..=8).contains(&nodes.len()), "{} nodes in 5 minutes", nodes.len());
}
