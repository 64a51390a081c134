//! What plans cost on real catalogs, against a lower bound and against Karpenter.

use serde_json::json;

use crate::market::{self, Pair};
use crate::measure::timed;

/// What may be paid for each dollar that is needed at least.
fn goal(pair: &Pair) -> f64 {
    match pair.placed {
        _ if pair.catalog.starts_with("gpu") => 1.05,
        20_000.. => 1.005,
        1000.. => 1.02,
        _ => 1.05,
    }
}

/// Prints a line for each pair of a workload and a catalog.
pub fn print() {
    for pair in market::pairs() {
        let mut snapshot = pair.snapshot();
        let refine = snapshot.settings.refine;
        snapshot.settings.refine = 0;
        let ((_, first), _) = timed(&snapshot);
        snapshot.settings.refine = refine;
        let ((plan, report), took) = timed(&snapshot);
        let placed: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
        let usd: f64 = report.launches.iter().map(|choice| choice.price).sum();
        // Both bounds are valid; the one of the table is rounded to cents.
        let own = report.certificate.lower_bound_per_hour;
        let line = json!({
            "catalog": pair.catalog, "workload": pair.workload, "pods": pair.placed,
            "placed": placed, "nodes": plan.launches.len(), "usd": usd,
            "bound": own.max(pair.fluid_bound - 0.005), "goal": goal(&pair),
            "karpenterNodes": pair.karpenter_nodes, "karpenterUsd": pair.karpenter,
            "firstUsd": first.certificate.price_per_hour, "millis": took.as_secs_f64() * 1e3,
        });
        println!("{line}");
    }
}
