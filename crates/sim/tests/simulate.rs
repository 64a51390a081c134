//! The scenarios that ship, simulated: each twice with the same bytes, and with the figures that
//! its `.golden` says. `BLESS=1` accepts what it tells now.

#[path = "../../cli/tests/plan/schema.rs"]
mod schema;

use std::path::Path;

use aerostat_sim::report::{self, Report};
use aerostat_sim::simulate::{Options, simulate};
use serde_json::Value;

fn run(path: &Path) -> datatest_stable::Result<()> {
    let written: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
    schema::check(&read_schema("scenario"), &written, "scenario");
    let one = || simulate(path, &Options::default(), &mut |_| true);
    let report = one().map_err(|error| format!("{error:#}"))?;
    let again = one().map_err(|error| format!("{error:#}"))?;
    let json = serde_json::to_string(&report)?;
    if json != serde_json::to_string(&again)? {
        return Err("the same seed gave another report".into());
    }
    schema::check(&read_schema("simulate-report"), &serde_json::from_str(&json)?, "report");
    reconcile(&report);
    let told = report::table(&report);
    let golden = path.with_extension("golden");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, &told)?;
        return Ok(());
    }
    let wanted = std::fs::read_to_string(&golden).unwrap_or_default();
    if told != wanted {
        let shown = golden.display();
        let message = format!("{shown} differs (BLESS=1 accepts it):\n{wanted}\nis now\n{told}");
        return Err(message.into());
    }
    Ok(())
}

fn read_schema(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{name}.schema.json"));
    let text = std::fs::read_to_string(file).expect("there is a schema");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// The bill is the sum of its parts, however it is parted, and of what the meter saw over time; no
/// pod is lost; nothing costs less than it must.
fn reconcile(report: &Report) {
    let total = report.cost.total_usd;
    let near = |sum: f64, what: &str| {
        assert!((sum - total).abs() < 0.005, "{what}: {sum} is not the bill of {total}");
    };
    let bills = &report.nodes.by_offer;
    near(bills.iter().map(|bill| bill.node_seconds * bill.price_per_hour / 3600.0).sum(), "hours");
    near(bills.iter().map(|bill| bill.usd).sum(), "offers");
    for (name, sums) in [
        ("pools", &report.cost.by_node_pool),
        ("types", &report.cost.by_instance_type),
        ("zones", &report.cost.by_zone),
        ("capacity types", &report.cost.by_capacity_type),
        ("namespaces", &report.cost.by_namespace),
    ] {
        near(sums.values().sum(), name);
    }
    let step = report.series.step_seconds;
    let last = report.scenario.seconds - step * (report.series.nodes.len() - 1) as f64;
    let over_time = |values: &[f64]| -> f64 {
        let (end, whole) = values.split_last().expect("a run has steps");
        whole.iter().sum::<f64>() * step + end * last
    };
    near(over_time(&report.series.usd_per_hour) / 3600.0, "time");
    let seconds: f64 = bills.iter().map(|bill| bill.node_seconds).sum();
    assert!((over_time(&report.series.nodes) - seconds).abs() < 1.0);
    assert_eq!(bills.iter().map(|bill| bill.launched).sum::<u64>(), report.nodes.launched);
    assert!(report.cost.lower_bound_usd <= total + 1e-6);

    let pods = &report.pods;
    let known = pods.finished + pods.running + pods.pending + pods.failed + pods.left_out;
    assert_eq!(known, pods.total, "{pods:?}");
    let split = &report.wait_seconds.split;
    let parts = [&split.queue, &split.node, &split.network, &split.image, &split.start];
    let sum: f64 = parts.iter().filter_map(|part| part.mean).sum();
    assert!((sum - report.wait_seconds.mean.unwrap_or(0.0)).abs() < 1e-3);
}

datatest_stable::harness! {
    { test = run, root = "../../scenarios", pattern = r"^[^/]+\.yaml$" },
}
