//! `aerostat up` as a command: what it says of bad input, and how it ends.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Runs `aerostat up` with a kubeconfig in `folder` until it ends.
fn up(folder: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .arg("up")
        .args(arguments)
        .env("HOME", folder.path())
        .current_dir(folder.path())
        .output()
        .expect("aerostat runs")
}

/// Asserts that it fails, says each of `words` on stderr, and leaves nothing behind.
fn refuses(arguments: &[&str], files: &[(&str, &str)], words: &[&str]) {
    let folder = TempDir::new().expect("a folder for the files");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("the folder can be written");
    }
    let output = up(&folder, arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?} was taken");
    for word in words {
        assert!(told.contains(word), "{arguments:?} does not say {word:?}:\n{told}");
    }
    assert!(!folder.path().join(".aerostat/kubeconfig").exists(), "a kubeconfig was left behind");
}

#[test]
fn manifests_with_a_fault_are_named_with_file_and_line() {
    refuses(&["missing.yaml"], &[], &["missing.yaml", "cannot be read"]);
    refuses(&["a.yaml"], &[("a.yaml", "kind: Pod\n  bad: [\n")], &["a.yaml", "line"]);
    let unknown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n---\napiVersion: v1\n\
                   kind: Pod\nmetadata: {name: p}\nspec: {bogus: 1, containers: []}\n";
    refuses(&["a.yaml"], &[("a.yaml", unknown)], &["a.yaml:5", "unknown field \"spec.bogus\""]);
    let quantity = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    \
                    image: i\n    resources: {requests: {cpu: 500mm}}\n";
    refuses(&["a.yaml"], &[("a.yaml", quantity)], &["a.yaml:1", "500mm"]);
    let kind = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n";
    refuses(&["a.yaml"], &[("a.yaml", kind)], &["a.yaml:1", "Gadget"]);
    let negative = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    \
                    image: i\n    resources: {requests: {cpu: -1}}\n";
    let words = ["a.yaml:1", "must be greater than or equal to 0"];
    refuses(&["--port", "0", "a.yaml"], &[("a.yaml", negative)], &words);
}

#[test]
fn options_with_a_fault_say_what_would_be_right() {
    refuses(&["--region", "mars-north-1"], &[], &["mars-north-1", "ap-northeast-1"]);
    refuses(&["--speed", "0"], &[], &["--speed", "10x"]);
    refuses(&["--catalog", "c.json"], &[("c.json", "[{\"name\": \"a\"}]")], &["c.json"]);
    refuses(&["--config", "c.yaml"], &[("c.yaml", "clout: {}\n")], &["c.yaml", "clout"]);
    let unwritable = "/proc/aerostat/kubeconfig";
    refuses(&["--port", "0", "--kubeconfig", unwritable], &[], &[unwritable]);
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    refuses(&["--port", &port], &[], &[&port, "in use", "--port"]);
}

#[test]
fn a_command_gets_the_kubeconfig_and_its_exit_code_is_ours() {
    let folder = TempDir::new().unwrap();
    let script = "grep -q current-context: \"$KUBECONFIG\" && exit 7";
    let output = up(&folder, &["--port", "0", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty(), "stdout is the command's own");
    let output = up(&folder, &["--port", "0", "--", "no-such-program"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("no-such-program"), "{told}");
}

#[test]
fn an_own_kubeconfig_is_merged_into_only_when_asked_and_nothing_is_lost() {
    let folder = TempDir::new().unwrap();
    let own = folder.path().join(".kube/config");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: work\ncontexts:\n- name: work\n  \
                context: {cluster: work, user: me}\nclusters: []\nusers: []\n";
    std::fs::write(&own, text).unwrap();
    up(&folder, &["--port", "0", "--", "true"]);
    assert_eq!(std::fs::read_to_string(&own).unwrap(), text, "untouched");
    up(&folder, &["--port", "0", "--merge-kubeconfig", "--", "true"]);
    let merged = std::fs::read_to_string(&own).unwrap();
    assert!(merged.contains("name: work") && merged.contains("aerostat"), "{merged}");
}

#[test]
fn json_is_one_object_a_line_and_an_interrupt_ends_it_cleanly() {
    let folder = TempDir::new().unwrap();
    let pod = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pi-job.yaml");
    let mut process = Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .args(["up", "--port", "0", "--speed", "60x", "-o", "json"])
        .arg(pod)
        .env("HOME", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kinds = Vec::new();
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).expect(&line);
        let kind = value["kind"].as_str().expect("each line has a kind").to_owned();
        if kind == "nodeOrdered" {
            let decision = &value["decision"];
            assert_eq!(decision["instance_type"], "c5a.large", "{decision}");
            assert!((decision["price"].as_f64().unwrap() - 0.096).abs() < 1e-9, "{decision}");
            assert!((decision["fee"].as_f64().unwrap() - 0.01152).abs() < 1e-9, "{decision}");
        }
        let last = kind == "podEnded";
        kinds.push(kind);
        if last {
            break;
        }
    }
    for kind in ["ready", "applied", "podWaits", "nodeOrdered", "nodeJoined", "podRunning"] {
        assert!(kinds.iter().any(|known| known == kind), "no {kind} in {kinds:?}");
    }
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let status = process.wait().unwrap();
    assert_eq!(status.code(), Some(0), "an interrupt is a way to end it");
    assert!(!folder.path().join(".aerostat").join("kubeconfig").exists());
}
