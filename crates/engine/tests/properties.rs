//! What holds for every cluster: plans are right, the same for the same cluster, and asked for
//! again they order nothing. Small ones cost what the best plan costs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "properties/optimum.rs"]
mod optimum;
mod wild;
mod world;

use aerostat_engine::check::check;
use aerostat_engine::plan::Launch;
use aerostat_engine::pod::PodKey;
use aerostat_engine::snapshot::Snapshot;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use wild::{Bytes, Kinds, NOW};
use world::World;

fn world(snapshot: Snapshot) -> World {
    let mut world = World::new(snapshot.pools[0].types.clone());
    world.snapshot = snapshot;
    world
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(count)
    }
}

fn data(length: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..length)
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn every_plan_is_right_and_tells_of_every_pod(data in data(200)) {
        let snapshot = wild::snapshot(&mut Bytes::new(&data), wild::ALL);
        let (plan, report) = aerostat_engine::plan(&snapshot, NOW);
        prop_assert_eq!(check(&snapshot, &plan, NOW), []);
        wild::assert_told(&snapshot, &plan, &report);
    }

    #[test]
    fn what_is_ordered_is_not_ordered_again(data in data(200)) {
        let snapshot = wild::snapshot(&mut Bytes::new(&data), wild::ALL);
        let mut world = world(snapshot);
        let (plan, report) = world.plan(NOW);
        world.carry_out(&plan, NOW);
        let (again, report_again) = world.plan(NOW);
        // An empty node that goes may leave room under a limit for pods that had none.
        let waited = |pod: &PodKey| report.unplaced.iter().any(|unplaced| unplaced.pod == *pod);
        let is_new = |launch: &Launch| launch.promised == 0 && launch.pods.iter().all(waited);
        prop_assert!(again.launches.iter().all(is_new), "{:?}", again.launches);
        prop_assert!(report_again.unplaced.len() <= report.unplaced.len(), "{:?}", report_again);
    }

    #[test]
    fn damage_is_survived(data in data(240)) {
        wild::survive(&data);
    }
}

#[test]
fn few_pods_with_constraints_cost_what_the_best_plan_costs() {
    let kinds = Kinds { pods: 6, nodes: false, pool_rules: false, company: false };
    let (mut equal, mut all) = (0, 0);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..60 {
        let data = data(160).new_tree(&mut runner).unwrap().current();
        let snapshot = wild::snapshot(&mut Bytes::new(&data), kinds);
        let ours = optimum::price_of_plan(&snapshot, NOW);
        let best = optimum::best(&snapshot, NOW, &ours);
        assert!(
            ours.unplaced == best.unplaced,
            "{} pods left out, {} at best: {:#?}",
            ours.unplaced,
            best.unplaced,
            snapshot.pods
        );
        assert!(ours.price <= best.price * 1.10 + 1e-9, "{ours:?} {best:?} {snapshot:#?}");
        all += 1;
        equal += usize::from(ours.price <= best.price + 1e-9);
    }
    assert!(equal * 100 >= all * 95, "{equal} of {all} plans are the cheapest");
}
