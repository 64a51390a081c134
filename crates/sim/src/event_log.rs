//! A run's story as a file: a line of JSON with the run's facts, then one for each event.
//!
//! The same seed writes the same bytes. `aerostat replay` shows one again.

use std::fs::File;
use std::io::{BufRead, BufReader, LineWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::report::Facts;
use crate::story::Line;

/// What the first line says of the format.
const FORMAT: &str = "aerostat-event-log/1";

/// Writes a log.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: LineWriter<File>,
    failed: bool,
}

impl EventLog {
    /// A new log; what the file held is gone.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("the log {} cannot be written", path.display()))?;
        Ok(Self { path: path.to_owned(), file: LineWriter::new(file), failed: false })
    }

    /// Writes what run it is.
    pub(crate) fn begin(&mut self, facts: &Facts) -> anyhow::Result<()> {
        let Facts { name, start, seed, region, policy, .. } = facts;
        let header = json!({"format": FORMAT, "name": name, "start": start, "seed": seed,
            "region": region, "policy": policy});
        writeln!(self.file, "{header}")
            .with_context(|| format!("the log {} cannot be written", self.path.display()))
    }

    /// Writes an event.
    pub(crate) fn line(&mut self, line: &Line) {
        if self.failed {
            return;
        }
        let written = serde_json::to_string(line)
            .map_err(std::io::Error::other)
            .and_then(|text| writeln!(self.file, "{text}"));
        if let Err(error) = written {
            // A log that ends early is no reason to end the simulation.
            eprintln!("notice: the log {} ends early: {error}", self.path.display());
            self.failed = true;
        }
    }
}

/// What a log says of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    format: String,
    /// The scenario's name.
    pub name: String,
    /// When it starts.
    pub start: Timestamp,
    /// Its seed.
    pub seed: u64,
    /// Whose instance types and prices.
    pub region: String,
    /// By whose rules nodes were bought.
    pub policy: String,
}

/// A log that is read, line by line.
#[derive(Debug)]
pub struct Recording {
    /// What run it is of.
    pub header: Header,
    path: PathBuf,
    lines: std::iter::Enumerate<std::io::Lines<BufReader<File>>>,
}

impl Recording {
    /// Opens a log.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is none.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("the log {shown} cannot be read"))?;
        let mut lines = BufReader::new(file).lines().enumerate();
        let first = match lines.next() {
            Some((_, line)) => line.with_context(|| format!("the log {shown} cannot be read"))?,
            None => bail!("{shown}: it is empty: simulate --log writes one"),
        };
        let header: Header = serde_json::from_str(&first)
            .with_context(|| format!("{shown}:1: this is no log of simulate --log"))?;
        if header.format != FORMAT {
            bail!("{shown}:1: its format is {:?}; {FORMAT:?} is known", header.format);
        }
        Ok(Self { header, path: path.to_owned(), lines })
    }
}

impl Iterator for Recording {
    type Item = anyhow::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let (at, line) = self.lines.next()?;
        let read = line.map_err(anyhow::Error::from);
        let line = read.and_then(|text| Ok(serde_json::from_str(&text)?));
        Some(line.with_context(|| format!("{}:{}", self.path.display(), at + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> anyhow::Result<Vec<Line>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        std::fs::write(&path, text).unwrap();
        Recording::open(&path)?.collect()
    }

    const HEADER: &str = r#"{"format": "aerostat-event-log/1", "name": "a", "seed": 1,
        "start": "2026-01-05T00:00:00Z", "region": "r", "policy": "aerostat"}"#;

    #[test]
    fn a_log_is_read_back_and_mistakes_are_named_by_line() {
        let header = HEADER.replace('\n', " ");
        let line =
            r#"{"time": "2026-01-05T00:00:01Z", "kind": "nodeJoined", "text": "b", "node": "c"}"#;
        let lines = open(&format!("{header}\n{line}\n")).unwrap();
        assert_eq!(lines[0].facts["node"], "c");
        assert_eq!(lines[0].sign(), "+");
        let error = |text: &str| format!("{:#}", open(text).unwrap_err());
        assert!(error("").contains("it is empty"));
        assert!(error("kind: Pod\n").contains("run.log:1: this is no log"));
        let other = header.replace("log/1", "log/9");
        assert!(error(&other).contains("\"aerostat-event-log/1\" is known"));
        assert!(error(&format!("{header}\n{}", &line[..20])).contains("run.log:2"));
    }
}
