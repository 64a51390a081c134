//! Every command of the README, run in its order as a reader would run them: `up` in one terminal,
//! kubectl in another. Only faster (`--speed 20x`), on a free port, and with `cargo run --release`
//! replaced by the binary that was built for the tests.

#![expect(clippy::disallowed_methods, reason = "a test runs in the machine's time")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

/// How long a reader would wait, at most, for something that takes a minute at real speed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `aerostat up`, and what it prints.
struct Up {
    process: Child,
    lines: Receiver<String>,
}

impl Up {
    fn start(arguments: &[&str], kubeconfig: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_aerostat"))
            .current_dir(repository())
            .args(arguments)
            .args(["--port", "0", "--kubeconfig"])
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .expect("aerostat runs");
        let stdout = process.stdout.take().expect("stdout is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let up = Self { process, lines };
        up.wait_for("export KUBECONFIG=", 1);
        up
    }

    /// Waits for `count` lines that hold `text`.
    fn wait_for(&self, text: &str, count: usize) {
        let mut seen = String::new();
        let mut left = count;
        while left > 0 {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    left -= usize::from(line.contains(text));
                    seen.push_str(&line);
                    seen.push('\n');
                }
                Err(error) => panic!("{error}: no {text:?} in\n{seen}"),
            }
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of the README's `sh` blocks, without comments.
fn commands() -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("README.md")).expect("there is a README");
    let mut inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            _ if inside => {
                let command = line.split(" #").next().unwrap_or_default().trim();
                commands.push(command.to_owned());
            }
            _ => {}
        }
    }
    commands
}

#[test]
fn every_command_of_the_readme_works() {
    let folder = TempDir::new().expect("a folder for the kubeconfig");
    let kubeconfig = folder.path().join("kubeconfig");
    let named = std::env::var_os("AEROSTAT_KUBECTL").unwrap_or_default();
    let client = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).last();
    if let Some(client) = &client {
        std::os::unix::fs::symlink(client, folder.path().join("kubectl")).expect("a link");
    } else {
        println!("skipped: the README's kubectl commands (AEROSTAT_KUBECTL names no kubectl)");
    }
    let mut up: Option<Up> = None;
    let (mut ran, mut jobs) = (0, 0);
    for command in commands() {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["cargo", "run", "--release", "--", "up", "--help"] => {
                succeed(Command::new(env!("CARGO_BIN_EXE_aerostat")).args(["up", "--help"]));
            }
            ["cargo", "run", "--release", "--", "up", "--", rest @ ..] => {
                if client.is_none() {
                    continue;
                }
                let mut command = with_path(&folder, env!("CARGO_BIN_EXE_aerostat"));
                command.args(["up", "--port", "0", "--kubeconfig"]).arg(&kubeconfig);
                succeed(command.arg("--").args(rest));
            }
            ["cargo", "run", "--release", "--", "up", rest @ ..] => {
                drop(up.take());
                let mut arguments = vec!["up"];
                arguments.extend(rest);
                if !rest.contains(&"--speed") {
                    arguments.extend(["--speed", "20x"]);
                }
                let started = Up::start(&arguments, &kubeconfig);
                if rest.contains(&"examples/pi-job.yaml") {
                    started.wait_for("has completed (exit code 0)", 1);
                }
                if rest.contains(&"examples/balloon.yaml") {
                    started.wait_for(" runs, ", 3);
                }
                up = Some(started);
            }
            ["cargo", "run", "--release", "--", verb @ ("plan" | "simulate"), rest @ ..] => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_aerostat"));
                succeed(command.arg(verb).args(rest).current_dir(repository()));
            }
            ["kubectl", rest @ ..] => {
                let Some(started) = up.as_ref().filter(|_| client.is_some()) else { continue };
                if rest.contains(&"-w") {
                    // Such a command has no end: a reader looks for a while.
                    let mut command = with_path(&folder, "timeout");
                    command.args(["2", "kubectl"]).args(rest).env("KUBECONFIG", &kubeconfig);
                    let status = command.current_dir(repository()).status().expect("it runs");
                    assert_eq!(status.code(), Some(124), "{command:?} ended by itself");
                    continue;
                }
                let mut command = with_path(&folder, "kubectl");
                command.env("KUBECONFIG", &kubeconfig).current_dir(repository());
                succeed(command.args(rest));
                if rest.starts_with(&["apply"]) {
                    started.wait_for("make room", 1);
                    jobs += 1;
                }
                if rest.starts_with(&["delete"]) {
                    started.wait_for(" is gone after ", 1);
                }
            }
            ["cargo", "xtask", "test"] => {
                let script = std::fs::read_to_string(repository().join(".ci/run"));
                let script = script.expect("there is a script for CI");
                assert!(script.lines().any(|line| line == command), "CI runs {command:?}");
            }
            _ => panic!("the README has a command that this test does not know: {command:?}"),
        }
        ran += 1;
    }
    assert!(ran >= 5, "the README has its commands");
    assert!(client.is_none() || jobs == 1, "the warm story was lived through");
}

/// A command that finds the kubectl under test first.
fn with_path(folder: &TempDir, program: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.path().to_owned()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).expect("PATH has no colon inside");
    let mut command = Command::new(program);
    command.env("PATH", path).env("HOME", folder.path()).current_dir(repository());
    command
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{told}\n{errors}");
}
