//! A cluster for one script.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running `aerostat up`, with a folder that has `kubectl` on its PATH.
pub struct Cluster {
    process: Child,
    folder: TempDir,
}

/// What a command printed, stdout and stderr together, and how it ended.
pub struct Told {
    pub text: String,
    pub code: i32,
}

impl Cluster {
    /// Starts one, twenty times as fast as real time, and waits until it says that it is ready.
    pub fn start(kubectl: &Path) -> std::io::Result<Self> {
        let folder = TempDir::new()?;
        std::os::unix::fs::symlink(kubectl, folder.path().join("kubectl"))?;
        let mut process = Command::new(env!("CARGO_BIN_EXE_aerostat"))
            .args(["up", "--port", "0", "--seed", "7", "--speed", "20x", "-o", "json"])
            .arg("--kubeconfig")
            .arg(folder.path().join("kubeconfig"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = process.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout);
        let mut first = String::new();
        lines.read_line(&mut first)?;
        assert!(first.contains("\"ready\""), "not ready: {first}");
        // Someone must read on, or the cluster would wait for it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(Self { process, folder })
    }

    /// Runs a shell command with the cluster's kubeconfig, in the folder of the repository.
    pub fn run(&self, command: &str) -> std::io::Result<Told> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders =
            std::iter::once(self.folder.path().to_owned()).chain(std::env::split_paths(&path));
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("exec 2>&1; {command}"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .env("PATH", std::env::join_paths(folders).expect("PATH has no colon inside"))
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HOME", self.folder.path())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Told { text, code: output.status.code().unwrap_or(-1) })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have ended by itself; then the script has failed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
