//! `docs/benchmarks.md`: tables between marks; the history grows by a line a run.

use std::process::Command;

use anyhow::Context;

use super::bill::{self, Bill};
use super::engine::Record;
use super::peers::{Peer, go};
use super::root;
use super::table::number;

const FILE: &str = "docs/benchmarks.md";

/// The figures of the history.
pub fn figures(records: &[Record], peers: &[Peer], bills: &[Bill]) -> Vec<String> {
    let record = |name: &str| records.iter().find(|record| record.case.case == name);
    let millis = |name: &str| record(name).map_or(String::new(), |r| number(r.millis));
    let factor = |name: &str| {
        let record = record(name)?;
        let peer = peers.iter().find(|peer| Some(&peer.benchmark) == record.case.peer.as_ref())?;
        Some(number(peer.millis / record.millis))
    };
    let (mean, worst) = bill::summary(bills);
    vec![
        millis("diverse-1000"),
        factor("diverse-1000").unwrap_or_default(),
        millis("diverse-20000"),
        factor("diverse-20000").unwrap_or_default(),
        millis("fleet"),
        format!("{mean:.4}"),
        format!("{worst:.4}"),
    ]
}

/// Writes the tables, and a line of the history.
///
/// # Errors
///
/// If the file is not there or its marks are not.
pub fn write(table: &str, bill: &str, figures: &[String]) -> anyhow::Result<()> {
    let path = root().join(FILE);
    let mut text = std::fs::read_to_string(&path).context(FILE)?;
    text = between(&text, "machine", |_| machine())?;
    text = between(&text, "table", |_| table.to_owned())?;
    text = between(&text, "bill", |_| bill.to_owned())?;
    let version = format!(
        "{} ({})",
        env!("CARGO_PKG_VERSION"),
        told("git", &["rev-parse", "--short", "HEAD"])
    );
    let line = format!("| {} | {version} | {} |\n", today(), figures.join(" | "));
    text = between(&text, "history", |old| old.to_owned() + &line)?;
    std::fs::write(&path, text)?;
    eprintln!("{FILE} is written");
    Ok(())
}

/// Replaces what stands between the marks called `name`.
fn between(text: &str, name: &str, make: impl Fn(&str) -> String) -> anyhow::Result<String> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let marks = text.split_once(&open).and_then(|(head, rest)| {
        let (old, tail) = rest.split_once(&close)?;
        Some(format!("{head}{open}{}{close}{tail}", make(old)))
    });
    marks.with_context(|| format!("{FILE}: the marks of {name} are not there"))
}

/// Where and when it was measured.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown CPU", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let load = read("/proc/loadavg");
    let load = load.split_whitespace().next().unwrap_or("unknown");
    let go = go().unwrap_or_else(|| "no Go".to_owned());
    let rust = told("rustc", &["--version"]);
    format!(
        "Measured {} on {cores} cores of {model}, load at the end {load}; {rust}; {go}.\n",
        today()
    )
}

fn today() -> String {
    told("date", &["-u", "+%Y-%m-%d"])
}

/// What a command prints; empty if it cannot be run.
fn told(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).current_dir(root()).output();
    output.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}
