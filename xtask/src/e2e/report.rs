//! What ginkgo says of a run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

/// One spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `passed`, `failed`, `timedout`, `interrupted`, `panicked`.
    pub state: String,
    /// How long it took, its cleanup included.
    pub seconds: f64,
    /// What it is called.
    pub text: String,
    /// Why it failed.
    pub failure: String,
}

impl Spec {
    /// Whether it passed.
    pub fn passed(&self) -> bool {
        self.state == "passed"
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Option<Vec<Report>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    #[serde(default)]
    leaf_node_text: String,
    leaf_node_type: String,
    leaf_node_location: Location,
    state: String,
    /// Nanoseconds.
    #[serde(default)]
    run_time: f64,
    #[serde(default)]
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Location {
    #[serde(default)]
    file_name: String,
    #[serde(default)]
    line_number: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

/// The specs that ran, by file and line: `drift:66`.
///
/// # Errors
///
/// If the file is not there or no report.
pub fn read(path: &Path) -> anyhow::Result<BTreeMap<String, Spec>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the suite left no report at {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is no report of ginkgo's", path.display()))
}

fn parse(text: &str) -> anyhow::Result<BTreeMap<String, Spec>> {
    let suites: Vec<Suite> = serde_json::from_str(text)?;
    let reports = suites.into_iter().flat_map(|suite| suite.spec_reports.unwrap_or_default());
    let ran = |report: &Report| {
        report.leaf_node_type == "It" && !matches!(report.state.as_str(), "skipped" | "pending")
    };
    let specs = reports.filter(ran).map(|report| {
        let file = report.leaf_node_location.file_name.rsplit('/').next().unwrap_or_default();
        let file = file.strip_suffix("_test.go").unwrap_or(file);
        let mut words = report.container_hierarchy_texts.unwrap_or_default();
        words.push(report.leaf_node_text);
        let failure = report.failure.map(|failure| failure.message).unwrap_or_default();
        let spec = Spec {
            state: report.state,
            seconds: report.run_time / 1e9,
            text: words.join(" / "),
            failure,
        };
        (format!("{file}:{}", report.leaf_node_location.line_number), spec)
    });
    Ok(specs.collect())
}

/// One spec's runs as one: the first that has not passed, or else the one in the middle by time.
pub fn sum(mut runs: Vec<Spec>) -> Option<Spec> {
    if let Some(failed) = runs.iter().position(|spec| !spec.passed()) {
        return Some(runs.swap_remove(failed));
    }
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let middle = runs.len() / 2;
    (middle < runs.len()).then(|| runs.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_a_failure() {
        let spec = |state: &str, seconds| Spec {
            state: state.to_owned(),
            seconds,
            text: String::new(),
            failure: String::new(),
        };
        let passed = || vec![spec("passed", 9.0), spec("passed", 1.0), spec("passed", 2.0)];
        assert_eq!(sum(passed()), Some(spec("passed", 2.0)));
        let mut flaky = passed();
        flaky.insert(1, spec("failed", 5.0));
        assert_eq!(sum(flaky), Some(spec("failed", 5.0)));
        assert_eq!(sum(Vec::new()), None);
    }

    #[test]
    fn specs_that_ran_are_read() {
        let text = r#"[{"SpecReports": [
            {"ContainerHierarchyTexts": null, "LeafNodeType": "BeforeSuite", "State": "passed",
             "LeafNodeLocation": {"FileName": "/x/suite_test.go", "LineNumber": 9}},
            {"ContainerHierarchyTexts": ["Drift", "Budgets"], "LeafNodeText": "respects them",
             "LeafNodeType": "It", "State": "failed", "RunTime": 1500000000,
             "LeafNodeLocation": {"FileName": "/x/drift_test.go", "LineNumber": 66},
             "Failure": {"Message": "too many"}},
            {"ContainerHierarchyTexts": ["Perf"], "LeafNodeText": "x", "LeafNodeType": "It",
             "State": "skipped", "LeafNodeLocation": {"FileName": "p_test.go", "LineNumber": 1}}
        ]}, {"SpecReports": null}]"#;
        let specs = parse(text).unwrap();
        assert_eq!(specs.len(), 1);
        let spec = &specs["drift:66"];
        assert_eq!((spec.text.as_str(), spec.seconds), ("Drift / Budgets / respects them", 1.5));
        assert!(!spec.passed() && spec.failure == "too many");
    }
}
