//! What plans cost: real workloads on real catalogs, against a lower bound and against what
//! Karpenter's own scheduler makes of them.
//!
//! `catalogs.csv`: types as Karpenter's provider computes what they leave to pods, at on-demand
//! prices (aws/karpenter-provider-aws `pkg/providers/pricing`). `workloads.csv`: the shapes of
//! Karpenter's benchmarks (kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling` and
//! `test/suites/performance`), the Alibaba GPU trace of 2023 (alibaba/clusterdata), and synthetic
//! ones. `peers.csv`: the unmodified `Scheduler.Solve` of Karpenter on each pair, and the bound of
//! a market in which machines and pods may be bought in fractions, by the solver HiGHS.
//!
//! An unoptimized build looks at the small pairs only. `cargo test --release -p aerostat-engine
//! --test bill -- --nocapture` prints the table of all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod market;

use aerostat_engine::snapshot::PackingRule;
use market::Pair;

/// The pairs that this build has time for.
fn pairs() -> impl Iterator<Item = Pair> {
    let pairs = market::pairs().into_iter();
    pairs.filter(|pair| !cfg!(debug_assertions) || pair.is_small())
}

/// Pairs whose bill is above the goal, and how far above the bound it is at most.
const MISSED: [(&str, f64); 4] = [
    ("cmr-tokyo/generic-20000", 1.0075),
    ("cmr-tokyo/openb-cpu", 1.034),
    ("cmr/lognormal-500", 1.022),
    ("cmr-tokyo/lognormal-500", 1.017),
];

#[test]
fn bills_are_near_the_bound_and_below_karpenters() {
    for pair in pairs() {
        let name = format!("{}/{}", pair.catalog, pair.workload);
        let (plan, report) = aerostat_engine::plan(&pair.snapshot(), market::now());
        let placed: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
        assert_eq!(placed, pair.placed, "{name}");
        let cost: f64 = report.launches.iter().map(|choice| choice.price).sum();
        let certificate = &report.certificate;
        assert!((certificate.price_per_hour - cost).abs() < 1e-6, "{name}");
        // Both bounds are valid; prices in the table are rounded.
        let bound = certificate.lower_bound_per_hour.max(pair.fluid_bound - 0.01);
        let (ratio, karpenter) = (cost / bound, pair.karpenter / bound);
        let nodes = plan.launches.len();
        println!(
            "{name}: {nodes} nodes, ${cost:.3}, bound ${bound:.3}: {ratio:.4}, Karpenter {karpenter:.3}"
        );
        assert!(bound <= cost + 1e-6, "{name}: {bound} {cost}");
        assert!(
            certificate.lower_bound_per_hour > pair.fluid_bound * 0.997,
            "{name}: {certificate:?}"
        );
        let missed = MISSED.iter().find(|(missed, _)| *missed == name);
        let most = missed.map_or(pair.goal(), |(_, most)| *most);
        assert!(ratio <= most, "{name}: {ratio}");
        assert!(pair.karpenter == 0.0 || cost <= pair.karpenter + 0.01, "{name}: {cost}");
    }
}

#[test]
fn karpenters_rule_gives_karpenters_nodes() {
    for pair in pairs().filter(|pair| pair.karpenter > 0.0) {
        let name = format!("{}/{}", pair.catalog, pair.workload);
        let mut snapshot = pair.snapshot();
        snapshot.settings.packing = PackingRule::Karpenter;
        let (plan, report) = aerostat_engine::plan(&snapshot, market::now());
        // Karpenter's order of claims with equally many pods is left to an unstable sort: on this
        // pair it needs one machine less.
        let more = usize::from(name == "cmr-8/e2e-wide");
        assert_eq!(plan.launches.len(), pair.karpenter_nodes + more, "{name}");
        let cost = report.certificate.price_per_hour;
        assert!((cost / pair.karpenter - 1.0).abs() < 5e-3, "{name}: {cost} {}", pair.karpenter);
    }
}
