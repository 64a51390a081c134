//! `aerostat explain` against a running `aerostat up`.

#![expect(clippy::disallowed_methods, reason = "a test runs in the machine's time")]

mod running;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

use running::Up;
use serde_json::Value;
use tempfile::TempDir;

/// Two pods: one that gets a node, one that no type holds.
const PODS: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1000'}}}]}
";

struct Asked(Up);

impl Asked {
    fn start() -> Self {
        let up = Up::start(PODS);
        // By then both pods have been planned for.
        up.wait("nodeJoined");
        Self(up)
    }

    fn explain(&self, arguments: &[&str]) -> Output {
        explain(self.0.folder.path().into(), &[arguments, &["--kubeconfig", "k"]].concat())
    }
}

fn explain(folder: PathBuf, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .arg("explain")
        .args(arguments)
        .env("HOME", &folder)
        .env_remove("KUBECONFIG")
        .current_dir(folder)
        .output()
        .expect("aerostat runs")
}

fn told(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_running_aerostat_tells_where_a_pod_goes_and_why_another_does_not() {
    let up = Asked::start();
    let (text, errors) = told(&up.explain(&["pod/small"]));
    assert!(
        text.starts_with("pod default/small brought a c5a.large (on-demand, "),
        "{text}{errors}"
    );
    // One pod pays for all of its machine.
    assert!(
        text.contains("$0.0960/h of the $0.0960/h that it costs with this pod alone"),
        "{text}"
    );
    assert!(text.contains("its NodeClaim is general-purpose-"), "{text}");

    let (text, errors) = told(&up.explain(&["pods/huge"]));
    assert!(text.starts_with("pod default/huge has no place: "), "{text}{errors}");
    assert!(text.contains("\n  general-purpose: "), "{text}");
    assert!(text.contains("none has 1000 vCPU; closest: "), "{text}");
    assert!(text.contains("taints that the pod does not tolerate: CriticalAddonsOnly"), "{text}");
    let (json, _) = told(&up.explain(&["pod/huge", "-o", "json"]));
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(document["outcome"], "unplaced");
    assert!(document["reasons"][0].as_str().unwrap().starts_with("general-purpose: "), "{json}");

    // The same cluster can be planned for: a pod that waits there is part of the plan.
    let output = Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .args(["plan", "--kubeconfig", "k", "-o", "json"])
        .current_dir(up.0.folder.path())
        .output()
        .expect("aerostat runs");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(plan["unschedulable"][0]["pod"], "default/huge", "{plan}");

    let output = up.explain(&["pod/nobody", "-n", "shop"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).1.contains("no pod nobody in namespace shop"), "{:?}", told(&output));
}

#[test]
fn who_cannot_be_asked_is_named() {
    let folder = TempDir::new().expect("a folder");
    let fails = |arguments: &[&str], word: &str| {
        let output = explain(folder.path().into(), arguments);
        let (text, errors) = told(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(errors.contains(word), "{arguments:?} does not say {word:?}: {errors}");
    };
    fails(&["pod/a"], "--kubeconfig");
    fails(&["deployment/a"], "pod/NAME");
    fails(&["pod/a", "--kubeconfig", "missing"], "missing cannot be read");
    // A server that is no Aerostat.
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let _ = lines.find(String::is_empty);
            drop(lines);
            let page = "404 page not found\n";
            let head = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n", page.len());
            let _ = stream.write_all((head + page).as_bytes());
        }
    });
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \
         'http://127.0.0.1:{port}'}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, \
         context: {{cluster: c, user: u}}}}]\n"
    );
    std::fs::write(folder.path().join("other"), config).expect("it can be written");
    fails(&["pod/a", "--kubeconfig", "other"], "no Aerostat does");
}
