//! What plans cost on real catalogs, against a lower bound and against Karpenter.

use std::path::Path;

use serde::Deserialize;

use super::engine;
use super::table::number;

/// A workload on a catalog.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bill {
    catalog: String,
    workload: String,
    /// Those that fit some type.
    pods: usize,
    placed: usize,
    nodes: usize,
    usd: f64,
    bound: f64,
    goal: f64,
    karpenter_nodes: usize,
    /// 0 if it was not measured.
    karpenter_usd: f64,
    /// Of the first plan, before it is made cheaper.
    first_usd: f64,
    millis: f64,
}

impl Bill {
    /// What is paid for each dollar that is needed at least.
    pub fn ratio(&self) -> f64 {
        self.usd / self.bound
    }
}

/// Plans for all pairs.
pub fn measure(binary: &Path) -> anyhow::Result<Vec<Bill>> {
    eprintln!("measuring: bills");
    engine::lines(binary, &["bills"])
}

/// As a table.
pub fn render(bills: &[Bill]) -> String {
    let mut table = "\
| catalog | workload | pods | nodes | $/h | at least | ratio | goal | ms | first plan | Karpenter: nodes | $/h | ratio |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"
    .to_owned();
    for bill in bills {
        let missed =
            if bill.ratio() <= bill.goal && bill.placed == bill.pods { "" } else { "**missed** " };
        let placed = match bill.placed {
            placed if placed == bill.pods => number(placed as f64),
            placed => format!("{placed} of {}", bill.pods),
        };
        let (karpenter_nodes, karpenter_usd, karpenter) = if bill.karpenter_usd > 0.0 {
            (
                bill.karpenter_nodes.to_string(),
                format!("{:.2}", bill.karpenter_usd),
                format!("{:.3}", bill.karpenter_usd / bill.bound),
            )
        } else {
            Default::default()
        };
        table += &format!(
            "| {} | {} | {placed} | {} | {:.2} | {:.2} | {missed}{:.4} | {} | {} | {:.4} | {karpenter_nodes} | {karpenter_usd} | {karpenter} |\n",
            bill.catalog,
            bill.workload,
            bill.nodes,
            bill.usd,
            bill.bound,
            bill.ratio(),
            bill.goal,
            number(bill.millis),
            bill.first_usd / bill.bound,
        );
    }
    table
}

/// The ratios of all pairs in one: their geometric mean, and the worst.
pub fn summary(bills: &[Bill]) -> (f64, f64) {
    let logs: f64 = bills.iter().map(|bill| bill.ratio().ln()).sum();
    let worst = bills.iter().map(Bill::ratio).fold(0.0, f64::max);
    ((logs / bills.len().max(1) as f64).exp(), worst)
}
