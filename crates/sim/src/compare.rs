//! Several scenarios, each with the same seeds, side by side.
//!
//! A seed gives all of them the same arrivals, so that what differs is due to the scenarios: the
//! differences are taken seed by seed, and their mean is told with its 95 % interval (Student's t).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::report::Report;
use crate::simulate::{Options, simulate};

/// One of the scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// What it is called.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Fields of the scenario that are changed: `arrivals.0.poisson.perHour`, and to what.
    pub set: Vec<(String, Value)>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The scenarios, in order.
    pub variants: Vec<Outcome>,
    /// How the others differ from the first.
    pub differences: Vec<Difference>,
}

/// The runs of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// What it is called.
    pub name: String,
    /// The mean of each figure over the seeds; null if one of them has none.
    pub means: BTreeMap<String, Option<f64>>,
    /// One report a seed.
    pub reports: Vec<Report>,
}

/// How far a figure of a scenario is from that of the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The scenario.
    pub name: String,
    /// The figure: `cost.totalUsd`.
    pub figure: String,
    /// The mean difference.
    pub mean: f64,
    /// Half the width of its 95 % interval; null with one seed only.
    pub within: Option<f64>,
}

/// The figures that are compared, as in the JSON of a report.
const FIGURES: [&str; 10] = [
    "cost.totalUsd",
    "cost.totalWithFeeUsd",
    "cost.lowerBoundUsd",
    "waitSeconds.p50",
    "waitSeconds.p95",
    "waitSeconds.max",
    "nodes.peak",
    "nodes.launched",
    "moves.podsMoved",
    "pods.pending",
];

/// 97.5 % quantiles of Student's t with 1, 2, … degrees of freedom.
const STUDENT: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];

/// Runs every variant with every seed, on all cores. `progress` is told how far all of it is, as a
/// part of 1, and says whether to go on.
///
/// # Errors
///
/// What is wrong with the first scenario that cannot be run.
pub fn compare(
    variants: &[Variant],
    seeds: &[u64],
    options: &Options,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> anyhow::Result<Comparison> {
    let jobs: Vec<(usize, u64)> = (0..variants.len())
        .flat_map(|variant| seeds.iter().map(move |seed| (variant, *seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let parts = Mutex::new(vec![0.0_f64; jobs.len()]);
    let results: Mutex<BTreeMap<usize, anyhow::Result<Report>>> = Mutex::default();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((variant, seed)) = jobs.get(at) else { return };
            let variant = &variants[*variant];
            let mut options = options.clone();
            options.seed = Some(*seed);
            options.set.extend(variant.set.iter().cloned());
            let mut tell = |part: f64| {
                let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                parts[at] = part;
                let sum: f64 = parts.iter().sum();
                #[expect(clippy::cast_precision_loss, reason = "a few runs")]
                progress(sum / parts.len() as f64)
            };
            let result = simulate(&variant.path, &options, &mut tell);
            tell(1.0);
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, result);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut reports = results.into_values().collect::<anyhow::Result<Vec<Report>>>()?.into_iter();
    let mut outcomes = Vec::new();
    for variant in variants {
        let reports: Vec<Report> = reports.by_ref().take(seeds.len()).collect();
        let means = FIGURES.iter().map(|figure| {
            let values: Option<Vec<f64>> =
                reports.iter().map(|report| value(report, figure)).collect();
            ((*figure).to_owned(), values.map(|values| mean(&values)))
        });
        outcomes.push(Outcome { name: variant.name.clone(), means: means.collect(), reports });
    }
    let differences = differences(&outcomes);
    Ok(Comparison { variants: outcomes, differences })
}

fn differences(outcomes: &[Outcome]) -> Vec<Difference> {
    let Some((first, others)) = outcomes.split_first() else { return Vec::new() };
    let mut differences = Vec::new();
    for other in others {
        for figure in FIGURES {
            let pairs = first.reports.iter().zip(&other.reports);
            let each: Option<Vec<f64>> =
                pairs.map(|(a, b)| Some(value(b, figure)? - value(a, figure)?)).collect();
            let Some(each) = each.filter(|each| !each.is_empty()) else { continue };
            let (name, figure) = (other.name.clone(), figure.to_owned());
            let (mean, within) = (mean(&each), within(&each));
            differences.push(Difference { name, figure, mean, within });
        }
    }
    differences
}

/// One figure of a report.
fn value(report: &Report, figure: &str) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "counts fit 53 bits")]
    match figure {
        "cost.totalUsd" => Some(report.cost.total_usd),
        "cost.totalWithFeeUsd" => Some(report.cost.total_with_fee_usd),
        "cost.lowerBoundUsd" => Some(report.cost.lower_bound_usd),
        "waitSeconds.p50" => report.wait_seconds.p50,
        "waitSeconds.p95" => report.wait_seconds.p95,
        "waitSeconds.max" => report.wait_seconds.max,
        "nodes.peak" => Some(report.nodes.peak as f64),
        "nodes.launched" => Some(report.nodes.launched as f64),
        "moves.podsMoved" => Some(report.moves.pods_moved as f64),
        "pods.pending" => Some(report.pods.pending as f64),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few runs")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Half the width of the mean's 95 % interval.
#[expect(clippy::cast_precision_loss, reason = "a few runs")]
fn within(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let student = STUDENT.get(freedom - 1).copied().unwrap_or(1.96);
    Some(student * (squares / freedom as f64 / values.len() as f64).sqrt())
}

/// The comparison as text: a line a figure, a column a scenario.
#[must_use]
pub fn table(comparison: &Comparison) -> String {
    let mut rows = vec![vec![String::new()]];
    for outcome in &comparison.variants {
        rows[0].push(outcome.name.clone());
    }
    let several = comparison.variants.iter().any(|outcome| outcome.reports.len() > 1);
    for figure in FIGURES {
        let mut row = vec![figure.to_owned()];
        for outcome in &comparison.variants {
            let number = |value: f64| format!("{value:.2}");
            let mean = outcome.means.get(figure).copied().flatten();
            let mut cell = mean.map_or("-".to_owned(), number);
            let differs = |d: &&Difference| d.name == outcome.name && d.figure == figure;
            if let Some(difference) = comparison.differences.iter().find(differs) {
                // Writing into a String cannot fail.
                let _ = write!(cell, " ({:+.2}", difference.mean);
                if let Some(within) = difference.within {
                    let _ = write!(cell, " ± {within:.2}");
                }
                cell.push(')');
            }
            row.push(cell);
        }
        rows.push(row);
    }
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let seeds = comparison.variants.first().map_or(0, |outcome| outcome.reports.len());
    let _ = match several {
        true => writeln!(text, "means of {seeds} seeds (difference to the first ± 95 % interval)"),
        false => writeln!(text, "one seed: --seeds 5 tells how far the differences are chance"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students() {
        // Mean 2, standard deviation 1, of three values: 4.303 / sqrt(3).
        assert!((within(&[1.0, 2.0, 3.0]).unwrap() - 2.484).abs() < 0.001);
        assert_eq!(within(&[1.0]), None);
        assert_eq!(within(&[5.0, 5.0]), Some(0.0));
    }
}
