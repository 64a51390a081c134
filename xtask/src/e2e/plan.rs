//! Which specs run together on one cluster.

use std::time::Duration;

use anyhow::Context;

use super::binary::Program;

/// Some specs of one file, run on a cluster of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What its folder is called.
    pub name: String,
    /// `drift` for `drift_test.go`.
    pub file: &'static str,
    /// The suite that has it.
    pub suite: Program,
    /// The lines of the specs that run; empty for all.
    pub only: Vec<u32>,
    /// The lines of those that do not.
    pub without: Vec<u32>,
    /// How long they may take.
    pub limit: Duration,
}

/// The one file of the performance suite that is run, and only when it is named: its times say
/// nothing of a debug build.
pub const PERFORMANCE: &str = "basic";

/// The suites' files, and how long one may take.
pub const FILES: &[(&str, Duration)] = &[
    (PERFORMANCE, minutes(40)),
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

/// Specs that wait for minutes: each has a cluster of its own, and begins first.
const LONG: &[(&str, u32)] = &[
    ("nodeclaim", 199),
    ("drift", 423),
    ("drift", 473),
    ("staticcapacity", 111),
    ("chaos", 50),
    ("staticcapacity", 437),
    ("termination", 225),
    ("integration", 530),
];

/// What `cargo xtask test` runs: some specs of each kind that do not wait for minutes.
const QUICK: &[(&str, &[u32])] = &[
    ("drift", &[66, 119, 188, 350, 365, 374]),
    ("staticcapacity", &[51, 69, 141, 157, 267, 363]),
    (
        "integration",
        &[
            82, 113, 144, 248, 263, 300, 306, 312, 318, 324, 332, 340, 348, 356, 364, 372, 380,
            385, 390, 399, 408, 417, 470, 475, 481,
        ],
    ),
    ("nodeclaim", &[56, 73, 96, 161, 180, 231, 246, 280]),
    ("termination", &[104, 134, 202]),
    ("perf", &[39, 92]),
    ("expiration", &[52]),
];

/// How long a part of [`QUICK`] may take.
const QUICK_LIMIT: Duration = minutes(8);

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

impl Part {
    /// Whether no second part like it may run at the same time: the chaos specs serve metrics of their
    /// own at a port that they do not choose.
    pub fn is_alone(&self) -> bool {
        self.file == "chaos"
    }

    /// A whole file.
    fn file(file: &'static str, limit: Duration) -> Self {
        let suite = match file {
            PERFORMANCE => Program::Performance,
            _ => Program::Regression,
        };
        let (only, without) = (Vec::new(), Vec::new());
        Self { name: file.to_owned(), file, suite, only, without, limit }
    }
}

/// The parts of whole files; with `split` the specs that wait for minutes apart and first, so that
/// several clusters at once are done sooner.
pub fn of(files: &[&'static str], split: bool) -> Vec<Part> {
    let limit = |file: &str| FILES.iter().find(|(name, _)| *name == file).map(|(_, limit)| *limit);
    let asked = files.iter().filter_map(|file| Some((*file, limit(file)?)));
    let mut rest: Vec<Part> = asked.map(|(file, limit)| Part::file(file, limit)).collect();
    let mut parts = Vec::new();
    for (file, line) in LONG.iter().filter(|_| split) {
        let Some(whole) = rest.iter_mut().find(|part| part.file == *file) else { continue };
        whole.without.push(*line);
        let name = format!("{file}-{line}");
        parts.push(Part { name, only: vec![*line], without: Vec::new(), ..whole.clone() });
    }
    parts.append(&mut rest);
    parts
}

/// Some specs of a file, by their lines: `66,119`.
///
/// # Errors
///
/// If `at` are no lines.
pub fn lines(file: &'static str, at: &str) -> anyhow::Result<Part> {
    let only: Result<Vec<u32>, _> = at.split(',').map(str::parse).collect();
    let only = only.with_context(|| format!("{file}:{at}: write lines, like {file}:66,119"))?;
    let limit =
        FILES.iter().find(|(name, _)| *name == file).map_or(QUICK_LIMIT, |(_, limit)| *limit);
    Ok(Part { name: format!("{file}-{}", at.replace(',', "-")), only, ..Part::file(file, limit) })
}

/// The quick specs.
pub fn quick() -> Vec<Part> {
    let part = |(file, lines): &(&'static str, &[u32])| Part {
        only: lines.to_vec(),
        ..Part::file(file, QUICK_LIMIT)
    };
    QUICK.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spec_of_a_split_file_runs_once() {
        let parts = of(&["drift", "chaos", "perf"], true);
        let alone: Vec<&str> =
            parts.iter().filter(|part| part.is_alone()).map(|part| &*part.name).collect();
        assert_eq!(alone, ["chaos-50", "chaos"]);
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["drift-423", "drift-473", "chaos-50", "drift", "chaos", "perf"]);
        assert_eq!((parts[0].only.as_slice(), parts[0].without.as_slice()), (&[423][..], &[][..]));
        assert_eq!(
            (parts[3].only.as_slice(), parts[3].without.as_slice()),
            (&[][..], &[423, 473][..])
        );
        assert_eq!(of(&["drift"], false), [Part::file("drift", minutes(60))]);
    }
}
