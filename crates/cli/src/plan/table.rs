//! The plan as tables for people.

use std::collections::BTreeMap;

use aerostat_engine::report::LeftOut;

use super::outcome::{Node, Outcome};

/// How many pods with the same reasons are named.
const NAMED: usize = 3;

/// Nodes by kind, pods on existing nodes, what it costs, and what has no place.
pub fn render(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    if !outcome.nodes.is_empty() {
        parts.push(nodes(&outcome.nodes));
    }
    if !outcome.existing_nodes.is_empty() {
        let mut rows = vec![vec!["EXISTING NODE".to_owned(), "NEW PODS".to_owned()]];
        let row = |name: &str, pods: usize| vec![name.to_owned(), pods.to_string()];
        rows.extend(outcome.existing_nodes.iter().map(|node| row(&node.name, node.pods.len())));
        parts.push(align(&rows));
    }
    parts.push(price(outcome));
    if !outcome.unschedulable.is_empty() {
        parts.push(unschedulable(outcome));
    }
    if !outcome.left_out.is_empty() {
        let line = |left: &LeftOut| format!("  {}: {}\n", left.what, left.why);
        let lines: String = outcome.left_out.iter().map(line).collect();
        parts.push(format!("left out:\n{lines}"));
    }
    parts.join("\n")
}

/// Pool, type, zone, capacity type and price; the price as bits, since it has no order of its own.
type Kind<'a> = (&'a str, &'a str, &'a str, &'a str, u64);

fn nodes(nodes: &[Node]) -> String {
    let mut kinds: BTreeMap<Kind<'_>, (usize, usize)> = BTreeMap::new();
    for node in nodes {
        let key = (
            node.node_pool.as_str(),
            node.instance_type.as_str(),
            node.zone.as_str(),
            node.capacity_type.as_str(),
            node.price_per_hour.to_bits(),
        );
        let (count, pods) = kinds.entry(key).or_default();
        *count += 1;
        *pods += node.pods.len();
    }
    let header = ["NODES", "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "$/H EACH", "$/H", "PODS"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for ((pool, kind, zone, capacity, price), (count, pods)) in kinds {
        let each = f64::from_bits(price);
        let all = each * f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let cells = [count.to_string(), pool.to_owned(), kind.to_owned(), zone.to_owned()];
        let more = [capacity.to_owned(), usd(each), usd(all), pods.to_string()];
        rows.push(cells.into_iter().chain(more).collect());
    }
    align(&rows)
}

fn price(outcome: &Outcome) -> String {
    let (nodes, pods) = (outcome.nodes.len(), outcome.nodes.iter().map(|n| n.pods.len()).sum());
    let mut text = format!(
        "${}/h for {} with {}",
        usd(outcome.total_price_per_hour),
        plural(nodes, "new node"),
        plural(pods, "pod")
    );
    if let (Some(bound), Some(gap)) = (outcome.lower_bound_per_hour, outcome.gap) {
        text += &format!("; no plan costs less than ${}/h (gap {:.1} %)", usd(bound), gap * 100.0);
    }
    text.push('\n');
    if !outcome.bound_ignores.is_empty() {
        text += &format!("bound ignores: {}\n", outcome.bound_ignores.join(", "));
    }
    text
}

fn unschedulable(outcome: &Outcome) -> String {
    let mut alike: BTreeMap<&[String], Vec<&str>> = BTreeMap::new();
    for pod in &outcome.unschedulable {
        alike.entry(&pod.reasons).or_default().push(&pod.pod);
    }
    let mut text = format!("{} unschedulable:\n", plural(outcome.unschedulable.len(), "pod"));
    for (reasons, pods) in alike {
        let named = pods.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = pods.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text += &format!("  {named}{more}\n");
        for reason in reasons {
            text += &format!("    {reason}\n");
        }
    }
    text
}

/// At least four digits behind the point, more for the very cheap.
fn usd(usd: f64) -> String {
    let digits = if usd > 0.0 && usd < 0.01 { 6 } else { 4 };
    format!("{usd:.digits$}")
}

fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_says_what_it_ignores_and_one_of_nothing_has_no_gap() {
        let mut outcome = Outcome {
            nodes: Vec::new(),
            existing_nodes: Vec::new(),
            total_price_per_hour: 0.5,
            lower_bound_per_hour: Some(0.0),
            gap: None,
            bound_ignores: vec!["limits".to_owned(), "spread".to_owned()],
            unschedulable: Vec::new(),
            left_out: Vec::new(),
        };
        let told = "$0.5000/h for 0 new nodes with 0 pods\n";
        assert_eq!(render(&outcome), format!("{told}bound ignores: limits, spread\n"));
        outcome.bound_ignores.clear();
        assert_eq!(render(&outcome), told);
    }
}
