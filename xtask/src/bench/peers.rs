//! Karpenter's own benchmark, run by `go test` from the module in `peers/`.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::engine::Record;
use super::root;

const PACKAGE: &str = "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling";
const MODULE: &str = "sigs.k8s.io/karpenter";

/// One benchmark, run once.
#[derive(Clone, Debug)]
pub struct Peer {
    /// `BenchmarkScheduling1000`, for example.
    pub benchmark: String,
    /// How long it took.
    pub millis: f64,
    /// How many machines it asked for.
    pub nodes: f64,
    /// `Karpenter v1.14.1, go1.26.6`, for example.
    pub version: String,
}

/// Runs the benchmarks that belong to `records`: those of the grid for the sizes asked for, and
/// the others. Without Go it says what it leaves out.
///
/// # Errors
///
/// If a benchmark fails, or prints no result.
pub fn measure(records: &[Record], sizes: &[u32]) -> anyhow::Result<Vec<Peer>> {
    let wanted = |name: &&String| match name.strip_prefix("BenchmarkScheduling") {
        Some(size) => sizes.iter().any(|wanted| *size == wanted.to_string()),
        None => true,
    };
    let names = records.iter().filter_map(|record| record.case.peer.as_ref()).filter(wanted);
    let Some(go) = go() else {
        names.for_each(|name| eprintln!("left out: {name} (there is no `go`)"));
        return Ok(Vec::new());
    };
    let version = format!("Karpenter {}, {go}", version()?);
    names.map(|name| run(name, &version)).collect()
}

/// The version of Go, if there is one.
pub fn go() -> Option<String> {
    let output = Command::new("go").args(["env", "GOVERSION"]).current_dir(root()).output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| version.trim().to_owned())
}

/// The version of Karpenter that is measured.
fn version() -> anyhow::Result<String> {
    let text = std::fs::read_to_string(root().join("peers/go.mod")).context("peers/go.mod")?;
    let mut words = text.split_whitespace().skip_while(|word| *word != MODULE).skip(1);
    words.next().map(str::to_owned).context("peers/go.mod does not require Karpenter")
}

/// Set-up is not counted by the benchmark; a second iteration would find its scheduler full.
fn run(name: &str, version: &str) -> anyhow::Result<Peer> {
    eprintln!("measuring: {name}");
    let output = Command::new("go")
        .args(["test", "-tags=test_performance", "-run=XXX", "-benchtime=1x", "-timeout=60m"])
        .args([&format!("-bench=^{name}$"), PACKAGE])
        .current_dir(root().join("peers"))
        .stderr(Stdio::inherit())
        .output()
        .context("go cannot be run")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{name} failed ({}):\n{text}", output.status);
    }
    let line = text.lines().find(|line| line.starts_with(name));
    let words: Vec<&str> = line.context("no result")?.split_whitespace().collect();
    let before = |unit: &str| {
        let at = words.iter().position(|word| *word == unit)?;
        words.get(at.checked_sub(1)?)?.parse::<f64>().ok()
    };
    let told = |unit: &str| before(unit).with_context(|| format!("{name}: no {unit} in {words:?}"));
    Ok(Peer {
        benchmark: name.to_owned(),
        millis: told("ns/op")? / 1e6,
        nodes: told("nodes")?,
        version: version.to_owned(),
    })
}
