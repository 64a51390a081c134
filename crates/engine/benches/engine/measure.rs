//! One case: how long its plan takes, and whether the plan is right.

use std::hint::black_box;
use std::time::Duration;

use aerostat_engine::check::check;
use aerostat_engine::plan::Plan;
use aerostat_engine::report::Report;
use aerostat_engine::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::cases::Case;
use crate::{memory, pods};

/// A case is measured this long, and this often at most.
const ENOUGH: (Duration, usize) = (Duration::from_secs(2), 20);
const AT_LEAST: usize = 3;
/// What takes longer than this is not measured again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The best of a few runs.
pub fn time(case: &Case) -> Value {
    let snapshot = (case.snapshot)();
    let before = memory::now();
    memory::forget_peak();
    let mut times = Vec::new();
    let ((mut plan, report), first) = timed(&snapshot);
    let usd: f64 = report.launches.iter().map(|launch| launch.price).sum();
    let peak = memory::peak();
    times.push(first);
    let spent = |times: &[Duration]| times.iter().sum::<Duration>();
    while (times.len() < AT_LEAST && spent(&times) < PATIENCE)
        || (times.len() < ENOUGH.1 && spent(&times) < ENOUGH.0)
    {
        let (again, took) = timed(&snapshot);
        plan = again.0;
        times.push(took);
    }
    let best = times.iter().min().copied().unwrap_or_default();
    let faults = check(&snapshot, &plan, pods::now());
    faults.iter().take(3).for_each(|fault| eprintln!("{}: {fault}", case.name));
    let waiting = snapshot.pods.iter().filter(|pod| pod.node.is_none()).count();
    let launched: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    let mut record = case.describe();
    record["millis"] = (best.as_secs_f64() * 1e3).into();
    record["runs"] = times.len().into();
    record["pods"] = waiting.into();
    record["placed"] = (launched + plan.nominations.len()).into();
    record["nodes"] = plan.launches.len().into();
    record["usdPerHour"] = usd.into();
    record["faults"] = faults.len().into();
    record["snapshotMib"] = json!(before);
    record["peakMib"] = json!(peak);
    record
}

/// Makes the plan, and that is all.
pub fn once(case: &Case) {
    let snapshot = (case.snapshot)();
    let _ = black_box(aerostat_engine::plan(&snapshot, pods::now()));
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it is the machine's time that is measured"
)]
pub fn timed(snapshot: &Snapshot) -> ((Plan, Report), Duration) {
    let begun = std::time::Instant::now();
    let plan = black_box(aerostat_engine::plan(black_box(snapshot), pods::now()));
    (plan, begun.elapsed())
}
