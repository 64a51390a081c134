//! `docs/conformance.md`: spec by spec, beside the real Karpenter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::binary;
use super::report::Spec;

const BEGIN: &str = "<!-- specs -->\n";
const END: &str = "<!-- end -->\n";

/// The document, and the table in it.
pub struct Document {
    before: String,
    after: String,
    /// By file and line.
    rows: BTreeMap<Place, Row>,
}

/// A file of the suite and a line of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(String, u32);

#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    text: String,
    result: String,
    seconds: String,
    /// The real Karpenter's result and seconds.
    real: (String, String),
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (file, line) = text.split_once(':')?;
        Some(Self(file.to_owned(), line.parse().ok()?))
    }

    fn name(&self) -> String {
        format!("{}:{}", self.0, self.1)
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md")
}

impl Document {
    /// Reads it, and how the real Karpenter fared.
    ///
    /// # Errors
    ///
    /// If one of the files is not there or not in its form.
    pub fn read() -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path()).context("docs/conformance.md is not there")?;
        let real = binary::module().join("real-karpenter.csv");
        let real = std::fs::read_to_string(&real)
            .with_context(|| format!("{} is not there", real.display()))?;
        Self::parse(&text, &real)
    }

    fn parse(text: &str, real: &str) -> anyhow::Result<Self> {
        let marks = "docs/conformance.md has lost the marks around its table";
        let (before, rest) = text.split_once(BEGIN).context(marks)?;
        let (table, after) = rest.split_once(END).context(marks)?;
        let mut rows: BTreeMap<Place, Row> = BTreeMap::new();
        for line in real.lines().skip(1) {
            let fields: Vec<&str> = line.splitn(3, ',').collect();
            ensure!(fields.len() == 3, "real-karpenter.csv: {line:?} is not spec,result,seconds");
            let place = Place::parse(fields[0])
                .with_context(|| format!("real-karpenter.csv: {:?} is no spec", fields[0]))?;
            rows.entry(place).or_default().real = (fields[1].to_owned(), fields[2].to_owned());
        }
        for line in table.lines().skip(2) {
            let fields: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, result, seconds, _, _] = fields.as_slice() else { continue };
            let (place, text) = name.split_once(' ').unwrap_or((name, ""));
            let Some(place) = Place::parse(place) else { continue };
            let row = rows.entry(place).or_default();
            row.text = text.to_owned();
            row.result = (*result).to_owned();
            row.seconds = (*seconds).to_owned();
        }
        Ok(Self { before: before.to_owned(), after: after.to_owned(), rows })
    }

    /// What fails now of what is listed as passing.
    pub fn broken_by(&self, found: &BTreeMap<String, Spec>) -> Vec<String> {
        let listed = |name: &str| {
            Place::parse(name)
                .and_then(|place| self.rows.get(&place))
                .is_some_and(|row| row.result == "passed")
        };
        let broken = found.iter().filter(|(name, spec)| !spec.passed() && listed(name));
        broken.map(|(name, spec)| format!("{name} is listed as passing: {}", spec.state)).collect()
    }

    /// Takes in what came of some specs; others stay as they are.
    pub fn take_in(&mut self, found: &BTreeMap<String, Spec>) {
        for (name, spec) in found {
            let Some(place) = Place::parse(name) else { continue };
            let row = self.rows.entry(place).or_default();
            row.text = spec.text.replace('|', "\\|");
            row.result = spec.state.clone();
            row.seconds = format!("{:.0}", spec.seconds.max(1.0));
        }
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        std::fs::write(path(), self.text()).context("docs/conformance.md cannot be written")
    }

    fn text(&self) -> String {
        let mut text = format!("{}{BEGIN}", self.before);
        text.push_str("| spec | Aerostat | s | Karpenter | s |\n| --- | --- | --- | --- | --- |\n");
        for (place, row) in &self.rows {
            let Row { text: title, result, seconds, real } = row;
            let result = if result.is_empty() { "not run" } else { result };
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "| {} {title} | {result} | {seconds} | {} | {} |",
                place.name(),
                real.0,
                real.1
            );
        }
        text.push_str(END);
        text.push_str(&self.after);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = "spec,result,seconds\ndrift:9,passed,19\ndrift:66,failed,33\n";

    fn document(table: &str) -> Document {
        Document::parse(&format!("# T\n{BEGIN}{table}{END}rest\n"), REAL).unwrap()
    }

    fn spec(state: &str) -> Spec {
        Spec {
            state: state.to_owned(),
            seconds: 2.4,
            text: "Drift / x".to_owned(),
            failure: String::new(),
        }
    }

    #[test]
    fn what_did_not_run_stays_as_it_was() {
        let mut document = document(
            "| spec | Aerostat | s | Karpenter | s |\n|---|\n| drift:9 Drift / y | passed | 7 | passed | 19 |\n",
        );
        let found = BTreeMap::from([("drift:66".to_owned(), spec("passed"))]);
        assert!(document.broken_by(&found).is_empty());
        document.take_in(&found);
        let text = document.text();
        assert!(text.contains("\n| drift:9 Drift / y | passed | 7 | passed | 19 |\n"), "{text}");
        assert!(text.contains("\n| drift:66 Drift / x | passed | 2 | failed | 33 |\n"), "{text}");
        assert!(text.starts_with("# T\n") && text.ends_with("rest\n"));
        let again = Document::parse(&text, REAL).unwrap();
        assert_eq!(again.rows, document.rows);
    }

    #[test]
    fn a_listed_spec_that_fails_is_told() {
        let document =
            document("| spec |\n|---|\n| drift:9 Drift / y | passed | 7 | passed | 19 |\n");
        let broken = document.broken_by(&BTreeMap::from([
            ("drift:9".to_owned(), spec("failed")),
            ("drift:66".to_owned(), spec("failed")),
        ]));
        assert_eq!(broken, ["drift:9 is listed as passing: failed"]);
    }
}
