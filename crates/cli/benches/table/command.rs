//! The binary: how soon it answers, what it costs to do nothing, how large it is.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aerostat_clock::Clock;
use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::report::{Goal, Row, Table};

const BINARY: &str = env!("CARGO_BIN_EXE_aerostat");

/// A running `aerostat up` with a home of its own.
pub struct Up {
    process: Child,
    home: TempDir,
}

impl Up {
    /// Starts it, and waits until it says that it is ready.
    pub fn start() -> anyhow::Result<Self> {
        let home = TempDir::new()?;
        let mut process = Command::new(BINARY)
            .args(["up", "--port", "0", "--seed", "1", "-o", "json", "--kubeconfig"])
            .arg(home.path().join("kubeconfig"))
            .env("HOME", home.path())
            .stdout(Stdio::piped())
            .spawn()
            .context(BINARY)?;
        let mut lines = BufReader::new(process.stdout.take().context("stdout is piped")?);
        let up = Self { process, home };
        let mut line = String::new();
        lines.read_line(&mut line)?;
        if !line.contains("ready") {
            bail!("aerostat up did not start: {line}");
        }
        // Someone has to read on; it ends with the process.
        std::thread::Builder::new()
            .spawn(move || std::io::copy(&mut lines, &mut std::io::sink()))?;
        Ok(up)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// CPU time used so far by all its threads.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.process.id()));
        let mut nanos = 0;
        for task in std::fs::read_dir(&tasks).context("CPU time is read from /proc")? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let first = text.split_whitespace().next().context("schedstat is empty")?;
            nanos += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Resident memory in MiB.
    pub fn resident(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))
            .context("memory is read from /proc")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
        Ok(kib.parse::<f64>()? / 1024.0)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// From `aerostat up` to the first answer of `kubectl get nodes`.
pub fn first_answer(table: &mut Table) -> anyhow::Result<()> {
    let Some(kubectl) = kubectl() else {
        eprintln!("skipped: up (AEROSTAT_KUBECTL names no kubectl)");
        return Ok(());
    };
    let version = || run(&kubectl, &["version", "--client"], Path::new("/nonexistent"));
    version()?;
    let alone = version()?;
    let begun = Instant::now();
    let up = Up::start()?;
    let ready = begun.elapsed();
    run(&kubectl, &["get", "nodes"], &up.kubeconfig())?;
    let took = begun.elapsed();
    let note = format!(
        "says ready after {:.0} ms; `kubectl version --client` alone takes {:.0} ms",
        ready.as_secs_f64() * 1e3,
        alone.as_secs_f64() * 1e3
    );
    let metric = "`aerostat up` → first `kubectl get nodes`";
    table.add(Row::time(metric, took, Goal::AtMost(1000.0)).note(note));
    Ok(())
}

/// The first of the clients to test with.
fn kubectl() -> Option<PathBuf> {
    let named = std::env::var_os("AEROSTAT_KUBECTL")?;
    std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).last()
}

fn run(kubectl: &Path, arguments: &[&str], kubeconfig: &Path) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let home = kubeconfig.parent().unwrap_or(kubeconfig);
    let output = Command::new(kubectl)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home)
        .output()
        .with_context(|| kubectl.display().to_string())?;
    if !output.status.success() {
        bail!("kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(begun.elapsed())
}

/// Twenty seconds of an `aerostat up` that nobody talks to.
pub fn idle(table: &mut Table) -> anyhow::Result<()> {
    const WATCHED: Duration = Duration::from_secs(20);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let clock = Clock::real();
    let up = Up::start()?;
    runtime.block_on(clock.sleep(Duration::from_secs(2)));
    let before = up.cpu()?;
    runtime.block_on(clock.sleep(WATCHED));
    let used = up.cpu()?.saturating_sub(before);
    let percent = used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
    let note = format!("{:.1} ms of CPU time in 20 s", used.as_secs_f64() * 1e3);
    table.add(Row::new("idle `up`: CPU", percent, "% of a core", Goal::AtMost(1.0)).note(note));
    table.add(Row::new("idle `up`: RSS", up.resident()?, "MiB", Goal::AtMost(60.0)));
    let size = std::fs::metadata(BINARY)?.len() as f64 / 1e6;
    table.add(Row::new("binary", size, "MB", Goal::AtMost(40.0)));
    Ok(())
}
