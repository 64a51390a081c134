//! The planner's measurements.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::peers::Peer;
use super::table::{Goal, Row, number};

/// What is known of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// `diverse-1000`, for example.
    pub case: String,
    title: String,
    at_most_millis: Option<f64>,
    at_most_mib: Option<f64>,
    /// Whether its instructions are counted.
    pub counted: bool,
    /// Karpenter's benchmark of the same.
    pub peer: Option<String>,
    /// By what factor that should take longer.
    peer_factor: Option<f64>,
}

/// A case, measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What it is.
    #[serde(flatten)]
    pub case: Case,
    /// The best of the runs.
    pub millis: f64,
    runs: usize,
    pods: usize,
    placed: usize,
    /// New nodes.
    pub nodes: usize,
    faults: usize,
    snapshot_mib: Option<f64>,
    peak_mib: Option<f64>,
}

impl Record {
    /// What is wrong with the plan.
    fn wrong(&self) -> Option<String> {
        if self.placed < self.pods {
            return Some(format!("{} of {} pods placed", self.placed, self.pods));
        }
        (self.faults > 0).then(|| format!("the checker finds {} faults", self.faults))
    }
}

/// All cases.
pub fn cases(binary: &Path) -> anyhow::Result<Vec<Case>> {
    lines(binary, &["cases"])
}

/// Measures all cases, each in a process of its own.
pub fn time(binary: &Path) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    for case in cases(binary)? {
        eprintln!("measuring: {}", case.title);
        records.extend(lines::<Record>(binary, &["time", &case.case])?);
    }
    Ok(records)
}

/// Runs the binary and reads a JSON object a line.
pub fn lines<T: for<'de> Deserialize<'de>>(
    binary: &Path,
    arguments: &[&str],
) -> anyhow::Result<Vec<T>> {
    let output = Command::new(binary)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| binary.display().to_string())?;
    if !output.status.success() {
        bail!("{} {arguments:?} failed ({})", binary.display(), output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| serde_json::from_str(line).context("a line is no record")).collect()
}

/// The rows of the table.
pub fn rows(records: &[Record], peers: &[Peer]) -> Vec<Row> {
    let mut rows = Vec::new();
    for record in records {
        let Case { title, at_most_millis, at_most_mib, .. } = &record.case;
        let goal = at_most_millis.map_or(Goal::None, Goal::AtMost);
        let nodes = match record.nodes {
            1 => "1 new node".to_owned(),
            nodes => format!("{} new nodes", number(nodes as f64)),
        };
        let note = format!("{nodes}; best of {}", record.runs);
        let metric = format!("plan: {title}");
        rows.push(Row::new(&metric, record.millis, "ms", goal, &note, record.wrong()));
        if let (Some(limit), Some(peak)) = (at_most_mib, record.peak_mib) {
            let before = record.snapshot_mib.unwrap_or_default();
            let note = format!("{before:.0} MiB before the plan: the snapshot");
            let metric = format!("plan: {title}: memory of the process");
            rows.push(Row::new(&metric, peak, "MiB", Goal::AtMost(*limit), &note, None));
        }
        for peer in peers.iter().filter(|peer| Some(&peer.benchmark) == record.case.peer.as_ref()) {
            let goal = record.case.peer_factor.map_or(Goal::None, Goal::AtLeast);
            let note = format!(
                "{} ms, {} nodes: {} of {}, in the same run",
                number(peer.millis),
                number(peer.nodes),
                peer.benchmark,
                peer.version
            );
            let metric = format!("Karpenter's time for it / ours: {title}");
            let factor = peer.millis / record.millis;
            rows.push(Row::new(&metric, factor, "×", goal, &note, record.wrong()));
        }
    }
    rows.extend(growth(records));
    rows
}

/// How the cost of a pod grows from 1,000 pods to 20,000.
fn growth(records: &[Record]) -> Option<Row> {
    let of = |name: &str| {
        let record = records.iter().find(|record| record.case.case == name)?;
        Some(record.millis / record.pods as f64)
    };
    let (small, large) = (of("diverse-1000")?, of("diverse-20000")?);
    let note = format!("{:.2} µs of {:.2} µs", large * 1e3, small * 1e3);
    let metric = "plan: time of a pod among 20,000 diverse ones / among 1,000";
    Some(Row::new(metric, large / small, "×", Goal::AtMost(2.0), &note, None))
}
