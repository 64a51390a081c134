//! Lines on the terminal: the story on stdout, everything else on stderr.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use aerostat_sim::manifest::Applied;
use aerostat_sim::story::{Kind, Line};
use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::json;

/// How to tell what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Sentences.
    Text,
    /// One JSON object a line.
    Json,
}

/// Prints what happens.
#[derive(Clone, Debug)]
pub struct Printer {
    output: Output,
    color: bool,
    /// A command owns stdout: the story goes to stderr.
    aside: bool,
    started: Timestamp,
}

/// What is told when the cluster is ready.
#[derive(Debug)]
pub struct Ready<'a> {
    /// Of the API server.
    pub url: &'a str,
    /// Its kubeconfig.
    pub kubeconfig: &'a Path,
    /// Its region.
    pub region: &'a str,
    /// Its seed.
    pub seed: u64,
    /// How long it took.
    pub took: Duration,
}

impl Printer {
    /// A printer for the terminal; `aside` if something else owns stdout.
    pub fn new(output: Output, aside: bool, started: Timestamp) -> Self {
        let terminal =
            if aside { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { output, color: terminal && !plain, aside, started }
    }

    fn put(&self, text: &str) {
        // A reader that is gone (`| head`) is no reason to end the cluster.
        let _ = if self.aside {
            writeln!(std::io::stderr().lock(), "{text}")
        } else {
            writeln!(std::io::stdout().lock(), "{text}")
        };
    }

    /// Something about the start that the user should know.
    pub fn notice(&self, notice: Option<&str>) {
        if let Some(notice) = notice {
            eprintln!("notice: {notice}");
        }
    }

    /// The cluster is ready.
    pub fn ready(&self, ready: &Ready<'_>) {
        let Ready { url, kubeconfig, region, seed, took } = ready;
        if self.output == Output::Json {
            let line = json!({
                "kind": "ready",
                "server": url,
                "kubeconfig": kubeconfig.display().to_string(),
                "region": region,
                "seed": seed,
            });
            self.put(&line.to_string());
            return;
        }
        self.put(&format!(
            "Aerostat {}: Kubernetes v1.36.3 (embedded) with Auto Mode, region {region}, seed {seed}",
            env!("CARGO_PKG_VERSION"),
        ));
        self.put(&format!(
            "{url} is ready after {:.2} s. For kubectl in another terminal:",
            took.as_secs_f64()
        ));
        self.put("");
        self.put(&format!("export KUBECONFIG={}", kubeconfig.display()));
        self.put("");
    }

    /// A manifest was applied.
    pub fn applied(&self, title: &str, applied: Applied) {
        match self.output {
            Output::Json => {
                let line =
                    json!({"kind": "applied", "object": title, "result": applied.to_string()});
                self.put(&line.to_string());
            }
            Output::Text => self.put(&format!("{title} {applied}")),
        }
    }

    /// Something happened.
    pub fn line(&self, line: &Line) {
        if self.output == Output::Json {
            match serde_json::to_string(line) {
                Ok(text) => self.put(&text),
                Err(error) => eprintln!("error: a line cannot be written as JSON: {error}"),
            }
            return;
        }
        let since = line.time.duration_since(self.started).as_secs_f64();
        let (sign, text) = (line.sign(), &line.text);
        match color(line.kind).filter(|_| self.color) {
            Some(color) => {
                self.put(&format!("\x1b[2m{since:>8.1}s\x1b[0m \x1b[{color}m{sign}\x1b[0m {text}"));
            }
            None => self.put(&format!("{since:>8.1}s {sign} {text}")),
        }
    }

    /// The cluster is about to end.
    pub fn ending(&self) {
        if self.output == Output::Text && !self.aside {
            eprintln!("ending; everything in the cluster is gone with it");
        }
    }
}

fn color(kind: Kind) -> Option<u8> {
    Some(match kind {
        Kind::PodWaits | Kind::PodPreempts | Kind::PodPreempted => 33,
        Kind::PodUnplaced | Kind::SandboxFailed | Kind::Notice => 31,
        Kind::NodeOrdered | Kind::NodeJoined | Kind::NodeReady => 36,
        Kind::PodRunning | Kind::PodEnded => 32,
        _ => 2,
    })
}
