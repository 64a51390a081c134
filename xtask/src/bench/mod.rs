//! `cargo xtask bench`: the benchmark tables.
//!
//! | module | does |
//! |---|---|
//! | `options` | reads the command line |
//! | `engine` | runs the planner's measurements |
//! | `peers` | runs Karpenter's own benchmark, for the ratio |
//! | `bill` | what plans cost on real catalogs |
//! | `table` | rows, in Markdown |
//! | `document` | `docs/benchmarks.md` |
//! | `instructions` | counts instructions and compares them with those kept |

mod bill;
mod document;
mod engine;
mod instructions;
mod options;
mod peers;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use options::Options;
use table::Row;

/// Builds for release and prints the tables.
///
/// # Errors
///
/// If an option is unknown, or the build or a benchmark fails.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    if let Some(bless) = options.instructions {
        return instructions::keep(bless);
    }
    let mut rows = if options.engine { Vec::new() } else { command()? };
    let binary = build("engine")?;
    let records = engine::time(&binary)?;
    let peers = match &options.peers {
        Some(sizes) => peers::measure(&records, sizes)?,
        None => {
            eprintln!("left out: what Karpenter takes for the same (`--peers`)");
            Vec::new()
        }
    };
    rows.extend(engine::rows(&records, &peers));
    let table = table::render(&rows);
    println!("{table}");
    let bills = bill::measure(&binary)?;
    let bill = bill::render(&bills);
    println!("{bill}");
    if options.write {
        document::write(&table, &bill, &document::figures(&records, &peers, &bills))?;
    }
    Ok(())
}

/// The rows about the binary and the cluster.
fn command() -> anyhow::Result<Vec<Row>> {
    let clients = crate::test::kubectl()?;
    let output = Command::new(env!("CARGO"))
        .args(["bench", "--package", "aerostat", "--bench", "table"])
        .env("AEROSTAT_KUBECTL", std::env::join_paths(clients)?)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be run")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("the benchmarks failed ({}):\n{text}", output.status);
    }
    // Behind the head and the line below it.
    Ok(text.lines().filter(|line| line.starts_with('|')).skip(2).map(Row::rendered).collect())
}

/// Builds the bench target `name` of the planner and tells where it is.
fn build(name: &str) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["bench", "--package", "aerostat-engine", "--bench", name, "--no-run"]);
    let output = cargo
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be run")?;
    if !output.status.success() {
        bail!("the build failed ({})", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let built = messages.filter(|message: &serde_json::Value| message["target"]["name"] == name);
    let mut path = built.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    path.next().with_context(|| format!("cargo built no {name}"))
}

/// The root of the repository.
fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder)
}
