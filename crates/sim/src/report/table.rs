//! A report for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Part, Report};

/// How many lines a breakdown has at most.
const LINES: usize = 8;

/// The report as text of at most 100 columns.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    let Report { scenario, cost, wait_seconds: waits, nodes, pods, moves, .. } = report;
    let mut line = |name: &str, says: String| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name:<10} {}", says.trim_end());
    };
    let ended = if scenario.interrupted { ", ended early" } else { "" };
    let policy = match scenario.policy.as_str() {
        "aerostat" => String::new(),
        other => format!(", policy {other}"),
    };
    line(
        "scenario",
        format!(
            "{}: {} from {}, region {}, seed {}{policy}{ended}",
            scenario.name,
            length(scenario.seconds),
            scenario.start,
            scenario.region,
            scenario.seed
        ),
    );
    line(
        "cost",
        format!(
            "{}, with Auto Mode's fee {}; at least {}{}",
            usd(cost.total_usd),
            usd(cost.total_with_fee_usd),
            usd(cost.lower_bound_usd),
            cost.gap.map_or_else(String::new, |gap| format!(" (gap {:.1} %)", gap * 100.0))
        ),
    );
    for (name, sums) in [
        ("  pool", &cost.by_node_pool),
        ("  type", &cost.by_instance_type),
        ("  zone", &cost.by_zone),
        ("  bought", &cost.by_capacity_type),
        ("  used by", &cost.by_namespace),
    ] {
        line(name, parts(sums));
    }
    let seconds = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    line(
        "wait",
        format!("{} pods ran, {} of them on a node that was there", waits.count, waits.warm),
    );
    line(
        "  seconds",
        format!(
            "p50 {}, p90 {}, p95 {}, p99 {}, max {}",
            seconds(waits.p50),
            seconds(waits.p90),
            seconds(waits.p95),
            seconds(waits.p99),
            seconds(waits.max)
        ),
    );
    let split = &waits.split;
    let part = |name: &str, part: &Part| format!("{name} {}", seconds(part.mean));
    line(
        "  mean for",
        [
            part("queue", &split.queue),
            part("node", &split.node),
            part("network", &split.network),
            part("image", &split.image),
            part("start", &split.start),
        ]
        .join(", "),
    );
    let percent =
        |part: Option<f64>| part.map_or("-".to_owned(), |part| format!("{:.0} %", part * 100.0));
    line(
        "nodes",
        format!(
            "{} launched, {} at most at a time, {:.1} h together; asked for: {} of the cpu, {} of \
             the memory",
            nodes.launched,
            nodes.peak,
            nodes.hours,
            percent(nodes.cpu_utilization),
            percent(nodes.memory_utilization)
        ),
    );
    line(
        "pods",
        format!(
            "{}: {} finished ({} of them removed), {} running, {} pending, {} failed, {} left out",
            pods.total,
            pods.finished,
            pods.removed,
            pods.running,
            pods.pending,
            pods.failed,
            pods.left_out
        ),
    );
    line("moved", format!("{} pods, {} preempted", moves.pods_moved, moves.pods_preempted));
    line("given back", counts(&report.disruptions.by_reason));
    let tells = |hours: f64| hours > 0.01 * nodes.hours;
    for held in report.blockers.nodes.iter().filter(|held| tells(held.hours)).take(LINES) {
        let (hours, usd) = (held.hours, usd(held.usd));
        line("stayed", format!("{} for {hours:.2} node hours, {usd}: {}", held.kind, held.example));
    }
    for pods in &report.blockers.pods {
        line("no place", format!("{} pods ({}): {}", pods.pods, pods.example, pods.why));
    }
    for left in &report.left_out {
        let pods = if left.pods > 0 { format!(" ({} pods)", left.pods) } else { String::new() };
        line("left out", format!("{}{pods}: {}", left.what, left.why));
    }
    text
}

/// Cents, or parts of them where a cent is much.
fn usd(sum: f64) -> String {
    if sum < 1.0 { format!("${sum:.4}") } else { format!("${sum:.2}") }
}

/// The largest first: `general-purpose $12.30, system $0.40`.
fn parts(sums: &BTreeMap<String, f64>) -> String {
    let mut sorted: Vec<(&String, &f64)> = sums.iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(b.0)));
    let shown: Vec<String> =
        sorted.iter().take(LINES).map(|(name, sum)| format!("{name} {}", usd(**sum))).collect();
    let rest: f64 = sorted.iter().skip(LINES).map(|(_, usd)| **usd).sum();
    let mut text = shown.join(", ");
    if sorted.len() > LINES {
        let _ = write!(text, ", {} more {}", sorted.len() - LINES, usd(rest));
    }
    if text.is_empty() { "-".to_owned() } else { text }
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// `30 d`, `5.5 h`, `90 s`.
fn length(seconds: f64) -> String {
    if seconds >= 2.0 * 86_400.0 {
        format!("{:.1} d", seconds / 86_400.0)
    } else if seconds >= 2.0 * 3600.0 {
        format!("{:.1} h", seconds / 3600.0)
    } else {
        format!("{seconds:.0} s")
    }
}
