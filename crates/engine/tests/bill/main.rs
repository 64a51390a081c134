//! What plans cost: real catalogs and workloads, against a lower bound and against Karpenter.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod market;

use market::{Pair, pairs};

#[test]
fn table() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut bad = 0;
    for pair in pairs() {
        let name = format!("{}/{}", pair.catalog, pair.workload);
        if !name.contains(&only) {
            continue;
        }
        let mut snapshot = pair.snapshot();
        if let Ok(refine) = std::env::var("REFINE") {
            snapshot.settings.refine = refine.parse().unwrap();
        }
        #[expect(clippy::disallowed_methods, clippy::disallowed_types)]
        let start = std::time::Instant::now();
        let (plan, report) = aerostat_engine::plan(&snapshot, market::now());
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let cost: f64 = report.launches.iter().map(|l| l.price).sum();
        let placed: usize = plan.launches.iter().map(|l| l.pods.len()).sum();
        let bound = pair.fluid_bound.max(report.certificate.lower_bound_per_hour);
        if std::env::var("PARITY").is_ok() {
            snapshot.settings.packing = aerostat_engine::snapshot::PackingRule::Karpenter;
            let (_, r) = aerostat_engine::plan(&snapshot, market::now());
            println!(
                "parity nodes {} of {} cost {:.2} of {:.2}",
                r.launches.len(),
                pair.karpenter_nodes,
                r.certificate.price_per_hour,
                pair.karpenter
            );
        }
        let goal = pair.goal();
        let ok = cost / bound <= goal;
        bad += u32::from(!ok);
        println!(
            "{name:28} placed {placed:6}/{:6} nodes {:4} cost {cost:9.3} bound {bound:9.2} ratio {:.4} goal {goal} karp {:.3} {ms:8.1} ms {}",
            pair.placed,
            plan.launches.len(),
            cost / bound,
            pair.karpenter / bound,
            if ok { "" } else { "<<<" }
        );
        assert_eq!(placed, pair.placed);
    }
    println!("bad {bad}");
}
