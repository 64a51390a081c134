//! `aerostat node` against a running `aerostat up`.

#![expect(clippy::disallowed_methods, reason = "a test runs in the machine's time")]

mod running;

use std::path::Path;
use std::process::{Command, Output};

use running::Up;
use serde_json::Value;

/// One pod, and another whenever that one has gone.
const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}
";

fn aerostat(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .args(arguments)
        .args(["--kubeconfig", "k"])
        .env("HOME", folder)
        .current_dir(folder)
        .output()
        .expect("aerostat runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the pod runs; its node.
fn node(up: &Up) -> String {
    let line: Value = serde_json::from_str(&up.wait("podRunning")).expect("JSON");
    line["node"].as_str().expect("it runs on one").to_owned()
}

#[test]
fn a_node_is_replaced_before_it_goes_and_repaired_at_once() {
    let up = Up::start(DEPLOYMENT);
    let folder = up.folder.path();
    let first = node(&up);
    let output = aerostat(folder, &["node", "replace", &first]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    let steps =
        ["is to be replaced", "ordered ", " is up: node ", "it is being drained", "it has gone"];
    let at: Vec<Option<usize>> = steps.iter().map(|step| told.find(step)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{told}");
    let second = node(&up);
    assert_ne!(first, second);

    let output = aerostat(folder, &["node", "repair", &second]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    assert!(told.contains("is to be repaired") && told.ends_with("it has gone\n"), "{told}");
    assert_ne!(node(&up), second, "the pod has come again elsewhere");

    let output = aerostat(folder, &["node", "replace", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("no node nobody, and no NodeClaim of that name"), "{errors}");
}
