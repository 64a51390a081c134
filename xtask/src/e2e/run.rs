//! A part of the suite against a cluster of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::binary;
use super::plan::Part;
use super::report::{self, Spec};

/// What all parts of a run have in common.
pub struct Setting<'a> {
    /// `aerostat`.
    pub aerostat: &'a Path,
    /// Where the parts have their folders.
    pub folder: &'a Path,
    /// A regular expression for the names of the specs that run.
    pub focus: Option<&'a str>,
    /// The same for those that do not run.
    pub skip: Option<&'a str>,
    /// Which share of the API's requests fails, `5%`.
    pub api_faults: Option<&'a str>,
}

/// How often to look whether the suite has ended.
const POLL: Duration = Duration::from_millis(200);
/// How long a cluster may take to start.
const START: Duration = Duration::from_secs(60);
/// How long the suite may take to clean up once its time is over.
const GRACE: Duration = Duration::from_secs(90);

/// A process that does not outlive its handle.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a cluster, runs the specs, and returns what came of each.
///
/// # Errors
///
/// If the cluster does not start, the suite does not end in time, or leaves no report.
pub fn part(setting: &Setting<'_>, part: &Part) -> anyhow::Result<BTreeMap<String, Spec>> {
    let folder = setting.folder.join(&part.name);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let kubeconfig = folder.join("kubeconfig");
    let _cluster = start(setting, &folder, &kubeconfig)?;
    let json = folder.join("report.json");
    let log = folder.join("suite.log");
    let limit = part.limit;
    let suite = binary::program(part.suite)?.context("the suite is no longer there")?;
    let mut command = Command::new(suite);
    command.current_dir(&folder).env("KUBECONFIG", &kubeconfig).env("OUTPUT_DIR", &folder);
    // What the performance suite measures is one process with the whole cluster.
    command.envs([("KARPENTER_MEMORY_OVERHEAD_MB", "1024"), ("KARPENTER_CPU_OVERHEAD_CORES", "1")]);
    command.args(["-test.v", "--ginkgo.vv", "--ginkgo.no-color", "--ginkgo.grace-period=1m"]);
    command.arg(format!("-test.timeout={}s", (limit + GRACE).as_secs()));
    command.arg(format!("--ginkgo.timeout={}s", limit.as_secs()));
    command.arg(format!("--ginkgo.json-report={}", json.display()));
    command.arg(format!("--ginkgo.focus-file={}", place(part.file, &part.only)));
    if !part.without.is_empty() {
        command.arg(format!("--ginkgo.skip-file={}", place(part.file, &part.without)));
    }
    command.args(setting.focus.map(|focus| format!("--ginkgo.focus={focus}")));
    command.args(setting.skip.map(|skip| format!("--ginkgo.skip={skip}")));
    let output = File::create(&log)?;
    command.stdout(output.try_clone()?).stderr(output).stdin(Stdio::null());
    let mut child = Owned(command.spawn().context("the suite cannot be run")?);
    let status = wait(&mut child.0, limit + GRACE + GRACE)?;
    let specs = report::read(&json).with_context(|| {
        format!("the suite has ended with {status} and says why in {}", log.display())
    })?;
    let mut text = String::new();
    for (name, spec) in &specs {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{:>9} {:>7.1} s  {name} {}", spec.state, spec.seconds, spec.text);
        if !spec.passed() {
            let _ = writeln!(text, "{}            {}", indent(&spec.failure), log.display());
        }
    }
    print!("{text}");
    Ok(specs)
}

/// As ginkgo takes it: `drift_test.go:66,119`.
fn place(file: &str, lines: &[u32]) -> String {
    let lines: Vec<String> = lines.iter().map(u32::to_string).collect();
    let colon = if lines.is_empty() { "" } else { ":" };
    format!("{file}_test.go{colon}{}", lines.join(","))
}

/// Starts a cluster; its story goes to a file beside the suite's.
fn start(setting: &Setting<'_>, folder: &Path, kubeconfig: &Path) -> anyhow::Result<Owned> {
    let story: PathBuf = folder.join("story.log");
    let errors = folder.join("up.log");
    let mut command = Command::new(setting.aerostat);
    command.args(["up", "--provider", "kwok", "-o", "json", "--kubeconfig"]).arg(kubeconfig);
    command.args(setting.api_faults.map(|share| format!("--api-faults={share}")));
    command.stdin(Stdio::null()).stdout(File::create(&story)?).stderr(File::create(&errors)?);
    let mut child = Owned(command.spawn().context("aerostat cannot be run")?);
    let mut left = START;
    while left > Duration::ZERO && child.0.try_wait()?.is_none() {
        let told = std::fs::read_to_string(&story)?;
        let ready = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_default();
        if told.lines().next().is_some_and(|line| ready(line)["kind"] == "ready") {
            return Ok(child);
        }
        pause();
        left = left.saturating_sub(POLL);
    }
    bail!("aerostat has not started: {}", std::fs::read_to_string(errors)?);
}

#[expect(clippy::disallowed_methods, reason = "real programs take real time")]
fn pause() {
    std::thread::sleep(POLL);
}

/// Waits for a process to end.
fn wait(child: &mut Child, limit: Duration) -> anyhow::Result<ExitStatus> {
    let mut left = limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if left.is_zero() {
            bail!("the suite has not ended within {} s", limit.as_secs());
        }
        pause();
        left = left.saturating_sub(POLL);
    }
}

fn indent(text: &str) -> String {
    text.lines().take(12).map(|line| format!("            {line}\n")).collect()
}
