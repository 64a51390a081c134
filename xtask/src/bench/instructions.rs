//! Instructions of a plan, by valgrind: unlike time they are the same on every machine, so they
//! can be kept and compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::table::number;
use super::{build, engine, root};

const FILE: &str = "crates/engine/benches/instructions.txt";
/// How much more than the count that is kept is too much.
const TOLERANCE: f64 = 0.05;

/// What is counted.
const FUNCTION: &str = "aerostat_engine::plan::plan";

/// Counts all cases and compares; `bless` writes the counts down instead.
///
/// # Errors
///
/// Names the cases that got slower; if something cannot be run.
pub fn keep(bless: bool) -> anyhow::Result<()> {
    if !is_there() {
        bail!("valgrind is not there");
    }
    let counts = count()?;
    if !bless {
        return compare(&counts);
    }
    let mut text = format!(
        "# Instructions of one plan, by valgrind's callgrind: case, count.\n\
         # Written by `cargo xtask bench --instructions --bless`.\n\
         toolchain {}\n",
        toolchain()?
    );
    for (case, count) in &counts {
        text += &format!("{case} {count}\n");
    }
    std::fs::write(root().join(FILE), text)?;
    println!("{FILE} is written");
    Ok(())
}

fn is_there() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success())
}

type Counts = BTreeMap<String, u64>;

fn count() -> anyhow::Result<Counts> {
    let binary = build("engine")?;
    let mut counts = Counts::new();
    for case in engine::cases(&binary)?.into_iter().filter(|case| case.counted) {
        eprintln!("counting: {}", case.case);
        let count = callgrind(&binary, &case.case)?;
        counts.insert(case.case, count);
    }
    Ok(counts)
}

/// The instructions inside of the planner while one plan is made.
fn callgrind(binary: &Path, case: &str) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={FUNCTION}"))
        .arg(binary)
        .args(["once", case])
        .output()
        .context("valgrind cannot be run")?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{case}: valgrind failed ({}):\n{told}", output.status);
    }
    let count = told.lines().find_map(|line| line.split_once("Collected : "));
    let count = count.and_then(|(_, count)| count.trim().parse().ok());
    let count = count.with_context(|| format!("{case}: valgrind told no count:\n{told}"))?;
    if count == 0 {
        bail!("{case}: nothing was counted: {FUNCTION} is not called by its name");
    }
    Ok(count)
}

/// Compares with what is kept.
fn compare(counts: &Counts) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(root().join(FILE)).context(FILE)?;
    let mut kept = Counts::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["toolchain", rest @ ..] => {
                let (ours, kept) = (toolchain()?, rest.join(" "));
                if ours != kept {
                    println!("skipped: counts are of {kept}, this is {ours}");
                    return Ok(());
                }
            }
            [case, count] => {
                let count = count.parse().with_context(|| format!("{FILE}: {line:?}"))?;
                kept.insert((*case).to_owned(), count);
            }
            _ => bail!("{FILE}: {line:?} is not `case count`"),
        }
    }
    let mut slower = Vec::new();
    for (case, count) in counts {
        let Some(before) = kept.get(case) else {
            println!("{case}: {} instructions, none kept", number(*count as f64));
            continue;
        };
        let change = *count as f64 / *before as f64 - 1.0;
        let line =
            format!("{case}: {} instructions, {:+.1} %", number(*count as f64), change * 100.0);
        println!("{line}");
        if change > TOLERANCE {
            slower.push(line);
        }
    }
    if !slower.is_empty() {
        bail!(
            "the planner got slower:\n{}\n`cargo xtask bench --instructions --bless` accepts it",
            slower.join("\n")
        );
    }
    Ok(())
}

/// Which compiler and which machine: another one makes other instructions.
fn toolchain() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc cannot be run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let (release, host) = (of("release: "), of("host: "));
    Ok(format!("{} {}", release.unwrap_or("unknown"), host.unwrap_or("unknown")))
}
