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

/// How the planner is built, and what of it is counted. An unoptimized build checks each plan,
/// which is not the planner's work.
struct Build {
    name: &'static str,
    command: &'static str,
    function: &'static str,
}

const RELEASE: Build =
    Build { name: "release", command: "bench", function: "aerostat_engine::plan::plan" };
const DEBUG: Build =
    Build { name: "debug", command: "build", function: "aerostat_engine::provisioning::provision" };

/// Counts all cases in both builds, and compares; `bless` writes the counts down instead.
///
/// # Errors
///
/// Names the cases that got slower; if something cannot be run.
pub fn keep(bless: bool) -> anyhow::Result<()> {
    if !is_there() {
        bail!("valgrind is not there");
    }
    let mut counts = count(&RELEASE, |_| true)?;
    counts.extend(count(&DEBUG, is_small)?);
    if !bless {
        return compare(&counts);
    }
    let mut text = format!(
        "# Instructions of one plan, by valgrind's callgrind: build, case, count.\n\
         # Written by `cargo xtask bench --instructions --bless`.\n\
         toolchain {}\n",
        toolchain()?
    );
    for ((build, case), count) in &counts {
        text += &format!("{build} {case} {count}\n");
    }
    std::fs::write(root().join(FILE), text)?;
    println!("{FILE} is written");
    Ok(())
}

/// Counts a few small cases in a build that the tests need anyway.
///
/// # Errors
///
/// As [`keep`].
pub fn check() -> anyhow::Result<()> {
    if !is_there() {
        println!("skipped: instructions of a plan cannot be counted without valgrind");
        return Ok(());
    }
    compare(&count(&DEBUG, is_small)?)
}

/// Whether an unoptimized build has time for it.
fn is_small(case: &str) -> bool {
    matches!(case, "diverse-50" | "diverse-500")
}

fn is_there() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success())
}

type Counts = BTreeMap<(String, String), u64>;

fn count(how: &Build, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Counts> {
    let binary = build(how.command, "engine")?;
    let mut counts = Counts::new();
    for case in engine::cases(&binary)?.into_iter().filter(|c| c.counted && wanted(&c.case)) {
        eprintln!("counting: {} ({})", case.case, how.name);
        let count = callgrind(&binary, &case.case, how.function)?;
        counts.insert((how.name.to_owned(), case.case), count);
    }
    Ok(counts)
}

/// The instructions inside of `function` while one plan is made.
fn callgrind(binary: &Path, case: &str, function: &str) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={function}"))
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
        bail!("{case}: nothing was counted: {function} is not called by its name");
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
            [build, case, count] => {
                let count = count.parse().with_context(|| format!("{FILE}: {line:?}"))?;
                kept.insert(((*build).to_owned(), (*case).to_owned()), count);
            }
            _ => bail!("{FILE}: {line:?} is not `build case count`"),
        }
    }
    let mut slower = Vec::new();
    for ((build, case), count) in counts {
        let Some(before) = kept.get(&(build.clone(), case.clone())) else {
            println!("{case} ({build}): {} instructions, none kept", number(*count as f64));
            continue;
        };
        let change = *count as f64 / *before as f64 - 1.0;
        let line = format!(
            "{case} ({build}): {} instructions, {:+.1} %",
            number(*count as f64),
            change * 100.0
        );
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
