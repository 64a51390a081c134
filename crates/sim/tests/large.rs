//! A thousand nodes. Minutes in a debug build, so `cargo xtask soak` runs it.

use std::path::Path;

use aerostat_sim::simulate::{Options, simulate};

#[test]
#[ignore = "takes minutes: cargo xtask soak"]
fn a_thousand_nodes_keep_still_and_are_paid_for() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/large/fleet-month.yaml");
    let options = Options { until: Some("1h".parse().expect("a length")), ..Options::default() };
    let report = simulate(&path, &options, &mut |_| true).unwrap_or_else(|e| panic!("{e:#}"));
    let (nodes, pods) = (&report.nodes, &report.pods);
    assert_eq!((nodes.launched, nodes.peak), (1000, 1000));
    assert_eq!((pods.total, pods.running, report.moves.pods_moved), (1000, 1000, 0));
    // All were ordered at once, and answered after two seconds.
    assert!((nodes.hours - 1000.0 * 3598.0 / 3600.0).abs() < 1.0, "{}", nodes.hours);
    let paid: f64 = nodes.by_offer.iter().map(|b| b.node_seconds * b.price_per_hour / 3600.0).sum();
    assert!((paid - report.cost.total_usd).abs() < 0.005, "{paid}");
}
