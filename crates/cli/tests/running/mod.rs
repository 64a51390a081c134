//! An `aerostat up` that runs while a test does.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use tempfile::TempDir;

/// A running cluster; its kubeconfig is `k` in its folder.
pub struct Up {
    process: Child,
    pub folder: TempDir,
    lines: Receiver<String>,
}

impl Up {
    /// Starts with some manifests.
    pub fn start(manifests: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("pods.yaml"), manifests).expect("it can be written");
        let arguments = ["up", "--port", "0", "--speed", "20x", "-o", "json", "--kubeconfig", "k"];
        let mut process = Command::new(env!("CARGO_BIN_EXE_aerostat"))
            .args(arguments)
            .arg("pods.yaml")
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("aerostat runs");
        let stdout = process.stdout.take().expect("it is piped");
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut read = BufReader::new(stdout).lines().map_while(Result::ok);
            // Until nobody listens.
            read.all(|line| sender.send(line).is_ok());
            read.for_each(drop);
        });
        Self { process, folder, lines }
    }

    /// Waits for the next line of the story with `word`.
    pub fn wait(&self, word: &str) -> String {
        let line = self.lines.iter().find(|line| line.contains(word));
        line.unwrap_or_else(|| panic!("the story has no {word}"))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
