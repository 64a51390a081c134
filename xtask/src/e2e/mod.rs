//! `cargo xtask e2e`: Karpenter's own end-to-end suite against `aerostat up --provider kwok`.
//!
//! ```text
//! go test -c ──> cache ──┐
//! cargo build ───────────┴─> one cluster and one run a file ──> JSON report ──> docs/conformance.md
//! ```
//!
//! Nothing of the suite is copied: `tests/karpenter-e2e` is a Go module that requires it.

mod binary;
mod document;
mod report;
mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use document::Document;
use report::Spec;

/// The suite's files, and how long one may take.
const FILES: &[(&str, Duration)] = &[
    ("capacitybuffer", minutes(60)),
    ("chaos", minutes(20)),
    ("drift", minutes(60)),
    ("expiration", minutes(20)),
    ("integration", minutes(40)),
    ("nodeclaim", minutes(40)),
    ("perf", minutes(30)),
    ("staticcapacity", minutes(40)),
    ("termination", minutes(40)),
];

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// What is asked for.
struct Options {
    files: Vec<(&'static str, Duration)>,
    focus: Option<String>,
    skip: Option<String>,
    release: bool,
    jobs: usize,
    check: bool,
}

/// Runs the specs of some files, or all, and writes what came of them into the document.
///
/// # Errors
///
/// If a spec fails that the document lists as passing, or something cannot be built or started.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = read(arguments)?;
    let suite = binary::suite()?.context("Go is not installed: it builds Karpenter's suite")?;
    let aerostat = build(options.release)?;
    let mut document = Document::read()?;
    let found = Mutex::new(BTreeMap::new());
    let problems = Mutex::new(Vec::new());
    let waiting = Mutex::new(options.files.iter());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let next = lock(&waiting).next().copied();
                    let Some((file, limit)) = next else { return };
                    let filter = run::Filter {
                        file,
                        focus: options.focus.as_deref(),
                        skip: options.skip.as_deref(),
                    };
                    match run::file(&suite, &aerostat, &filter, limit) {
                        Ok(specs) => lock(&found).extend(specs),
                        Err(error) => lock(&problems).push(format!("{file}: {error:#}")),
                    }
                }
            });
        }
    });
    let found: BTreeMap<String, Spec> = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut problems = problems.into_inner().unwrap_or_else(PoisonError::into_inner);
    problems.extend(document.broken_by(&found));
    let passed = found.values().filter(|spec| spec.passed()).count();
    println!("{passed} of {} specs passed", found.len());
    if !options.check {
        document.take_in(&found);
        document.write()?;
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options {
        files: Vec::new(),
        focus: None,
        skip: None,
        release: false,
        jobs: 1,
        check: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--focus" => options.focus = Some(value()?),
            "--skip" => options.skip = Some(value()?),
            "--jobs" => options.jobs = value()?.parse().context("--jobs takes a number")?,
            "--release" => options.release = true,
            "--check" => options.check = true,
            file => {
                let known = FILES.iter().find(|(name, _)| *name == file);
                let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
                match known {
                    Some(known) => options.files.push(*known),
                    None => bail!("there is no file {file:?}: name some of {}", names.join(", ")),
                }
            }
        }
    }
    if options.files.is_empty() {
        // Nothing acts on CapacityBuffers yet: each of their specs would wait out its 15 minutes.
        let ready = |(name, _): &&(&str, Duration)| *name != "capacitybuffer";
        options.files = FILES.iter().filter(ready).copied().collect();
    }
    ensure!(options.jobs > 0, "--jobs must be above 0");
    Ok(options)
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
