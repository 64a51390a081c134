//! Objects as tables, the way kubectl prints them.

use std::fmt::Write as _;

use aerostat_cluster::{Cluster, table};
use anyhow::Context;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

/// Shows `pods`, `nodes`, `nodeclaims.karpenter.sh` and so on as a table, their conditions as
/// `conditions nodes`, or the events of objects whose `kind/namespace/name` starts like `events
/// pod/default/pi-`.
///
/// # Errors
///
/// If there is no such kind.
pub fn show(cluster: &Cluster, what: &str) -> anyhow::Result<String> {
    if let Some(about) = what.strip_prefix("events ") {
        return Ok(events(cluster, about));
    }
    if let Some(resource) = what.strip_prefix("conditions ") {
        return conditions(cluster, resource);
    }
    let (plural, group) = what.split_once('.').unwrap_or((what, ""));
    let kind = cluster.kind(group, plural).with_context(|| format!("there are no {what}"))?;
    let (objects, _) = cluster.store().list(&kind.resource(), "");
    let columns = table::columns(&kind);
    // Columns of lower priority are for `-o wide`.
    let wide: Vec<bool> = columns.iter().map(|column| column.priority > 0).collect();
    let narrow = |row: Vec<String>| -> Vec<String> {
        row.into_iter().zip(&wide).filter(|(_, wide)| !**wide).map(|(cell, _)| cell).collect()
    };
    let mut rows = vec![narrow(columns.iter().map(|c| c.name.to_uppercase()).collect())];
    for object in &objects {
        let cells = table::cells(&kind, &object.value, cluster.clock().now());
        rows.push(narrow(cells.iter().map(cell).collect()));
    }
    Ok(align(&rows))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Name, type, status, reason and message of each condition of all objects of a kind.
fn conditions(cluster: &Cluster, resource: &str) -> anyhow::Result<String> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let kind = cluster.kind(group, plural).with_context(|| format!("there are no {resource}"))?;
    let mut rows = Vec::new();
    for object in cluster.store().list(&kind.resource(), "").0 {
        let conditions = object.value["status"]["conditions"].as_array();
        for condition in conditions.into_iter().flatten() {
            let text = |field: &str| cell(&condition[field]);
            let fields = ["type", "status", "reason", "message"].map(text);
            rows.push([object.name().to_owned()].into_iter().chain(fields).collect());
        }
    }
    Ok(align(&rows))
}

/// Type, reason, source and message of each event about an object, oldest first.
fn events(cluster: &Cluster, about: &str) -> String {
    let mut rows = Vec::new();
    for event in cluster.list::<Event>("") {
        let object = &event.involved_object;
        let name = format!(
            "{}/{}/{}",
            object.kind.as_deref().unwrap_or_default().to_lowercase(),
            object.namespace.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default(),
        );
        if !name.starts_with(about) {
            continue;
        }
        // As kubectl sorts them: by whole seconds, then by name, which counts the nanoseconds.
        let time = event.last_timestamp.as_ref().map(|time| time.0.as_second());
        let source = event.source.as_ref().and_then(|source| source.component.clone());
        let source = source.or(event.reporting_component.clone()).unwrap_or_default();
        let count = event.series.as_ref().and_then(|series| series.count).or(event.count);
        let row = vec![
            event.type_.clone().unwrap_or_default(),
            event.reason.clone().unwrap_or_default(),
            count.map_or_else(String::new, |n| if n > 1 { format!("x{n}") } else { String::new() }),
            source,
            event.message.clone().unwrap_or_default(),
        ];
        rows.push((time, event.metadata.name.clone(), row));
    }
    rows.sort();
    let rows: Vec<_> = rows.into_iter().map(|(_, _, row)| row).collect();
    align(&rows)
}

fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            // Writing into a String cannot fail.
            let _ = write!(line, " {cell:width$} ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
