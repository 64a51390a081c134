//! A cluster in which nothing happens is left alone.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aerostat_sim::manifest;

use crate::client::{Counts, dying};
use crate::world;

#[test]
fn the_controllers_of_a_steady_cluster_write_nothing_for_a_day() {
    let (before, after) = world::alone(async {
        let mut world = world::start();
        let counts = Counts::default();
        world.restart_controllers(dying(&world, None, &counts));
        for manifest in manifest::read(Path::new("tests/manifests/guarded.yaml")).unwrap() {
            manifest.apply(&world.cluster).unwrap();
        }
        let clock = world.cluster.clock();
        let writes = || counts.writes.load(Ordering::Relaxed);
        clock.sleep(Duration::from_secs(600)).await;
        let before = writes();
        clock.sleep(Duration::from_secs(86_400)).await;
        (before, writes())
    });
    assert!(before > 0, "it came up");
    assert_eq!(after, before);
}

#[test]
fn controllers_that_start_again_in_a_steady_cluster_write_nothing() {
    let writes = world::alone(async {
        let mut world = world::start();
        for manifest in manifest::read(Path::new("tests/manifests/guarded.yaml")).unwrap() {
            manifest.apply(&world.cluster).unwrap();
        }
        let clock = world.cluster.clock();
        clock.sleep(Duration::from_secs(600)).await;
        let counts = Counts::default();
        world.restart_controllers(dying(&world, None, &counts));
        clock.sleep(Duration::from_secs(600)).await;
        counts.writes.load(Ordering::Relaxed)
    });
    assert_eq!(writes, 0);
}
