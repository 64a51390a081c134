//! From an account to a report.

use std::collections::BTreeMap;

use super::{
    Blockers, Cost, Disruptions, Facts, Held, LeftOut, Moves, NoPlace, Nodes, OfferBill, Part,
    Pods, Report, Series, Split, Waits,
};
use crate::measure::Ledger;
use crate::measure::gauges::{Gauge, Gauges};
use crate::measure::pods::Wait;

/// Why a pod that was preempted had to go, by its condition.
const PREEMPTED: &str = "PreemptionByScheduler";

impl Report {
    /// The report of an account that is closed.
    pub(crate) fn new(scenario: Facts, ledger: &Ledger, left_out: Vec<LeftOut>) -> Self {
        let gauges = &ledger.gauges;
        let by_reason = ledger.pods.moved.clone();
        let preempted = by_reason.get(PREEMPTED).copied().unwrap_or(0);
        let moved = by_reason.values().sum::<u64>() - preempted;
        let disrupted = ledger.machines.disrupted.clone();
        Self {
            scenario,
            cost: cost(ledger),
            wait_seconds: waits(&ledger.pods.waits),
            nodes: nodes(ledger),
            pods: pods(ledger, &left_out),
            moves: Moves { pods_moved: moved, pods_preempted: preempted, by_reason },
            disruptions: Disruptions { nodes: disrupted.values().sum(), by_reason: disrupted },
            blockers: blockers(ledger),
            left_out,
            series: series(gauges, &ledger.pods.waits),
        }
    }
}

/// Millionths: what is below is noise of the arithmetic.
fn round(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    // No negative zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| round(part / whole))
}

fn cost(ledger: &Ledger) -> Cost {
    let bills = &ledger.machines.bills;
    let total: f64 = bills.values().map(|bill| bill.usd()).sum();
    let fee: f64 = bills.values().map(|bill| bill.fee_usd()).sum();
    let floor = ledger.gauges.total(Gauge::Floor) / 3600.0;
    let by = |key: fn(&crate::measure::machines::Offer) -> &String| {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for (offer, bill) in bills {
            *sums.entry(key(offer).clone()).or_default() += bill.usd();
        }
        rounded(&sums)
    };
    Cost {
        total_usd: round(total),
        fee_usd: round(fee),
        total_with_fee_usd: round(total + fee),
        lower_bound_usd: round(floor),
        gap: ratio(total - floor, floor),
        by_node_pool: by(|offer| &offer.pool),
        by_instance_type: by(|offer| &offer.instance_type),
        by_zone: by(|offer| &offer.zone),
        by_capacity_type: by(|offer| &offer.capacity_type),
        by_namespace: rounded(&ledger.machines.by_namespace),
    }
}

fn rounded(sums: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    sums.iter().map(|(name, sum)| (name.clone(), round(*sum))).collect()
}

fn waits(waits: &[Wait]) -> Waits {
    let of = |part: fn(&Wait) -> i64| {
        let mut all: Vec<i64> = waits.iter().map(part).collect();
        all.sort_unstable();
        all
    };
    let part = |part: fn(&Wait) -> i64| {
        let all = of(part);
        Part { mean: mean(&all), p95: quantile(&all, 95) }
    };
    let all = of(Wait::total);
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Waits {
        count: count(all.len()),
        warm: count(waits.iter().filter(|wait| wait.node == 0).count()),
        mean: mean(&all),
        p50: quantile(&all, 50),
        p90: quantile(&all, 90),
        p95: quantile(&all, 95),
        p99: quantile(&all, 99),
        max: quantile(&all, 100),
        split: Split {
            queue: part(|wait| wait.queue),
            node: part(|wait| wait.node),
            network: part(|wait| wait.network),
            image: part(|wait| wait.image),
            start: part(|wait| wait.start),
        },
    }
}

fn mean(millis: &[i64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "sums of milliseconds fit 53 bits")]
    ratio(millis.iter().sum::<i64>() as f64 / 1000.0, millis.len() as f64)
}

/// Seconds: the smallest value that `percent` of all do not exceed (nearest rank).
fn quantile(sorted: &[i64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of two years fit 53 bits")]
    sorted.get(rank - 1).map(|millis| *millis as f64 / 1000.0)
}

fn nodes(ledger: &Ledger) -> Nodes {
    let gauges = &ledger.gauges;
    let bills = ledger.machines.bills.iter().map(|(offer, bill)| OfferBill {
        node_pool: offer.pool.clone(),
        instance_type: offer.instance_type.clone(),
        zone: offer.zone.clone(),
        capacity_type: offer.capacity_type.clone(),
        price_per_hour: bill.price,
        fee_per_hour: round(bill.fee),
        launched: bill.launched,
        node_seconds: round(bill.seconds),
        usd: round(bill.usd()),
    });
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let peak = gauges.most(Gauge::Nodes) as u64;
    Nodes {
        peak,
        launched: ledger.machines.launched,
        hours: round(gauges.total(Gauge::Nodes) / 3600.0),
        cpu_utilization: ratio(gauges.total(Gauge::CpuAsked), gauges.total(Gauge::CpuRoom)),
        memory_utilization: ratio(
            gauges.total(Gauge::MemoryAsked),
            gauges.total(Gauge::MemoryRoom),
        ),
        by_offer: bills.collect(),
    }
}

fn pods(ledger: &Ledger, left_out: &[LeftOut]) -> Pods {
    let counts = ledger.pods.counts();
    let left_out: u64 = left_out.iter().map(|what| what.pods).sum();
    Pods {
        total: counts.total + left_out,
        finished: counts.finished,
        removed: counts.removed,
        running: counts.running,
        pending: counts.pending,
        failed: counts.failed,
        left_out,
    }
}

fn blockers(ledger: &Ledger) -> Blockers {
    let held = ledger.blockers.machines.iter().map(|(kind, held)| Held {
        kind: (*kind).to_owned(),
        hours: round(held.seconds / 3600.0),
        usd: round(held.usd),
        example: held.example.clone(),
    });
    let mut nodes: Vec<Held> = held.filter(|held| held.hours > 0.0).collect();
    nodes.sort_by(|a, b| b.usd.total_cmp(&a.usd).then(a.kind.cmp(&b.kind)));
    let pods = ledger.blockers.unplaced.iter().map(|(why, pods)| NoPlace {
        why: why.clone(),
        pods: u64::try_from(pods.len()).unwrap_or(u64::MAX),
        example: pods.first().map_or_else(String::new, |pod| format!("{}/{}", pod.0, pod.1)),
    });
    Blockers { nodes, pods: pods.collect() }
}

fn series(gauges: &Gauges, waits: &[Wait]) -> Series {
    let means = |gauge: Gauge| -> Vec<f64> {
        let steps = gauges.steps(gauge).zip(gauges.lengths());
        steps.map(|(sum, length)| ratio(sum, length).unwrap_or(0.0)).collect()
    };
    let parts = |part: Gauge, whole: Gauge| -> Vec<f64> {
        let steps = gauges.steps(part).zip(gauges.steps(whole));
        steps.map(|(part, whole)| ratio(part, whole).unwrap_or(0.0)).collect()
    };
    Series {
        step_seconds: gauges.step().as_secs_f64(),
        nodes: means(Gauge::Nodes),
        usd_per_hour: means(Gauge::Rate),
        lower_bound_usd_per_hour: means(Gauge::Floor),
        cpu_utilization: parts(Gauge::CpuAsked, Gauge::CpuRoom),
        memory_utilization: parts(Gauge::MemoryAsked, Gauge::MemoryRoom),
        pending_pods: means(Gauge::Pending),
        wait_p95_seconds: waits_over_time(gauges, waits),
    }
}

fn waits_over_time(gauges: &Gauges, waits: &[Wait]) -> Vec<Option<f64>> {
    let mut steps: Vec<Vec<i64>> = vec![Vec::new(); gauges.lengths().count()];
    let last = steps.len().saturating_sub(1);
    for wait in waits {
        if let Some(step) = steps.get_mut(gauges.index(wait.ended).min(last)) {
            step.push(wait.total());
        }
    }
    let p95 = |mut step: Vec<i64>| {
        step.sort_unstable();
        quantile(&step, 95)
    };
    steps.into_iter().map(p95).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_there() {
        let sorted: Vec<i64> = (1..=20).map(|n| n * 1000).collect();
        let at = |percent| quantile(&sorted, percent).unwrap();
        assert_eq!((at(50), at(90), at(95), at(99), at(100)), (10.0, 18.0, 19.0, 20.0, 20.0));
        assert_eq!(quantile(&[7], 50), Some(0.007));
        assert_eq!(quantile(&[], 50), None);
    }
}
