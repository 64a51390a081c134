//! `cargo xtask e2e`: Karpenter's own end-to-end suite against `aerostat up --provider kwok`.
//!
//! ```text
//! go test -c ──> cache ──┐
//! cargo build ───────────┴─> one cluster and one run a part ──> JSON report ──> docs/conformance.md
//! ```
//!
//! Nothing of the suite is copied: `tests/karpenter-e2e` is a Go module that requires it.

mod binary;
mod document;
mod options;
mod plan;
mod report;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};

pub use binary::{Program, program};
use document::Document;
use options::Options;
use plan::Part;
use report::Spec;

/// What came of each spec, once for each run.
type Found = BTreeMap<String, Vec<Spec>>;

/// Runs the specs of some files, or all, and writes what came of them into the document.
///
/// # Errors
///
/// If a spec fails that the document lists as passing, or something cannot be built or started.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    for part in &options.parts {
        let suite = program(part.suite)?;
        suite.context("without Go and its modules Karpenter's suites cannot be built")?;
    }
    judge(&options)
}

/// Runs the specs of the quick list against the tests' own build. Says which are skipped where the
/// suite cannot be built.
///
/// # Errors
///
/// If a spec fails that the document lists as passing, or something cannot be built or started.
pub fn quick() -> anyhow::Result<()> {
    let words: Vec<String> = ["--quick", "--check", "--jobs", "8"].map(str::to_owned).to_vec();
    let options = Options::read(&words)?;
    if program(Program::Regression)?.is_none() {
        println!("skipped, as Karpenter's suite needs Go and its modules to be built:");
        for part in &options.parts {
            let lines: Vec<String> = part.only.iter().map(u32::to_string).collect();
            println!("  {}:{}", part.file, lines.join(","));
        }
        return Ok(());
    }
    judge(&options)
}

fn judge(options: &Options) -> anyhow::Result<()> {
    let aerostat = build(options.release)?;
    let mut document = Document::read()?;
    // Several runs may go on at once, and a later build must not change what runs.
    let folder = binary::folder()?.join(format!("run-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let program = folder.join("aerostat");
    std::fs::copy(&aerostat, &program)
        .with_context(|| format!("{} cannot be copied", aerostat.display()))?;
    println!("logs of what fails stay in {}", folder.display());

    let found = Mutex::new(Found::new());
    let problems = Mutex::new(Vec::new());
    let queue: Vec<(usize, &Part)> = (0..options.runs)
        .flat_map(|number| options.parts.iter().map(move |part| (number, part)))
        .collect();
    let waiting = Mutex::new(queue.into_iter());
    let alone = Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let next = lock(&waiting).next();
                    let Some((number, part)) = next else { return };
                    let setting = run::Setting {
                        aerostat: &program,
                        folder: &folder.join(number.to_string()),
                        focus: options.focus.as_deref(),
                        skip: options.skip.as_deref(),
                        api_faults: options.api_faults.as_deref(),
                    };
                    let _alone = part.is_alone().then(|| lock(&alone));
                    match run::part(&setting, part) {
                        Ok(specs) => {
                            let mut found = lock(&found);
                            for (name, spec) in specs {
                                found.entry(name).or_default().push(spec);
                            }
                        }
                        Err(error) => lock(&problems).push(format!("{}: {error:#}", part.name)),
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ran: usize = found.values().map(Vec::len).sum();
    let passed = found.values().flatten().filter(|spec| spec.passed()).count();
    println!("{passed} of {ran} passed");
    let found: BTreeMap<String, Spec> =
        found.into_iter().filter_map(|(name, runs)| Some((name, report::sum(runs)?))).collect();
    let mut problems = problems.into_inner().unwrap_or_else(PoisonError::into_inner);
    problems.extend(document.broken_by(&found));
    if !options.check {
        document.take_in(&found);
        document.write()?;
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    if found.values().all(Spec::passed) {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds `aerostat`; returns where it is.
fn build(release: bool) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    // The whole workspace, so that features, and with them what is compiled, are the tests' own.
    command.args(["build", "--workspace", "--quiet"]).args(release.then_some("--release"));
    let status = command.status().context("cargo cannot be run")?;
    ensure!(status.success(), "aerostat cannot be built ({status})");
    let profile = if release { "release" } else { "debug" };
    // xtask itself is built into the same folder.
    let own = std::env::current_exe().context("there is no path to this program")?;
    let target = own.parent().and_then(Path::parent).context("xtask is not in a target folder")?;
    Ok(target.join(profile).join("aerostat"))
}
