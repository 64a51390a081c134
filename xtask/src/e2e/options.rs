//! The options of `cargo xtask e2e`.

use anyhow::{Context, bail, ensure};

use super::plan::{self, FILES, Part};

/// Files that only run when they are named.
const ASKED_FOR: [&str; 2] = ["capacitybuffer", plan::PERFORMANCE];

/// What is asked for.
#[derive(Debug)]
pub struct Options {
    /// What runs.
    pub parts: Vec<Part>,
    /// A regular expression for the names of the specs that run.
    pub focus: Option<String>,
    /// The same for those that do not run.
    pub skip: Option<String>,
    /// Which share of the API's requests fails.
    pub api_faults: Option<String>,
    /// Whether `aerostat` is a release build.
    pub release: bool,
    /// How many clusters at once.
    pub jobs: usize,
    /// How often everything runs.
    pub runs: usize,
    /// Whether the document stays as it is.
    pub check: bool,
}

impl Options {
    /// Reads the words behind `e2e`.
    ///
    /// # Errors
    ///
    /// Says which word is not known, or what its value must be.
    pub fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self {
            parts: Vec::new(),
            focus: None,
            skip: None,
            api_faults: None,
            release: false,
            jobs: 1,
            runs: 1,
            check: false,
        };
        let (mut files, mut lines, mut quick) = (Vec::new(), Vec::new(), false);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().cloned().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--focus" => options.focus = Some(value()?),
                "--skip" => options.skip = Some(value()?),
                "--api-faults" => options.api_faults = Some(value()?),
                "--jobs" => options.jobs = value()?.parse().context("--jobs takes a number")?,
                "--runs" => options.runs = value()?.parse().context("--runs takes a number")?,
                "--quick" => quick = true,
                "--release" => options.release = true,
                "--check" => options.check = true,
                file => match file.split_once(':') {
                    None => files.push(known(file)?),
                    Some((file, at)) => lines.push(plan::lines(known(file)?, at)?),
                },
            }
        }
        ensure!(options.jobs > 0, "--jobs must be above 0");
        ensure!(options.runs > 0, "--runs must be above 0");
        let unnamed = files.is_empty() && lines.is_empty();
        ensure!(!quick || unnamed, "--quick has its own list: name no files");
        options.parts = match (quick, unnamed) {
            (true, _) => plan::quick(),
            // Nothing acts on CapacityBuffers yet: half of their specs would wait out 15 minutes.
            (false, true) => {
                let names = FILES.iter().map(|(name, _)| *name);
                let ready: Vec<_> = names.filter(|name| !ASKED_FOR.contains(name)).collect();
                plan::of(&ready, options.jobs > 1 && options.focus.is_none())
            }
            (false, false) => plan::of(&files, options.jobs > 1 && options.focus.is_none()),
        };
        options.parts.extend(lines);
        Ok(options)
    }
}

fn known(file: &str) -> anyhow::Result<&'static str> {
    let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
    match names.iter().find(|name| **name == file) {
        Some(name) => Ok(name),
        None => bail!("there is no file {file:?}: name some of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> anyhow::Result<Options> {
        Options::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_read() {
        let options = read("drift --jobs 3 --runs 2 --check").unwrap();
        assert_eq!((options.jobs, options.runs, options.check), (3, 2, true));
        assert_eq!(options.parts.len(), 3);
        assert_eq!(read("drift --focus Budgets --jobs 3").unwrap().parts.len(), 1);
        let lines = read("drift:66,119 drift:188").unwrap().parts;
        let lines: Vec<_> = lines.iter().map(|part| part.only.clone()).collect();
        assert_eq!(lines, [vec![66, 119], vec![188]]);
        assert!(read("").unwrap().parts.iter().all(|part| part.file != "capacitybuffer"));
        for (line, problem) in [
            ("drive", "there is no file \"drive\""),
            ("drift:1,x", "drift:1,x"),
            ("--jobs", "--jobs needs a value"),
            ("--jobs 0", "above 0"),
            ("--runs many", "--runs takes a number"),
            ("--quick drift", "name no files"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(problem), "{line}: {error}");
        }
    }
}
