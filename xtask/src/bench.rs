//! `cargo xtask bench`: the benchmark table.

use std::process::Command;

use anyhow::{Context, bail};

/// Builds for release and prints the table.
///
/// # Errors
///
/// If the build or a benchmark fails.
pub fn run() -> anyhow::Result<()> {
    let clients = crate::test::kubectl()?;
    let status = Command::new(env!("CARGO"))
        .args(["bench", "--package", "aerostat", "--bench", "table"])
        .env("AEROSTAT_KUBECTL", std::env::join_paths(clients)?)
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("the benchmarks failed ({status})");
    }
    Ok(())
}
