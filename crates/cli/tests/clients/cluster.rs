//! A cluster for one script.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use tempfile::TempDir;

/// How long a command may hang: far more than any needs, so that a run always comes to its end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `aerostat up`, with a folder that has `kubectl` on its PATH.
pub struct Cluster {
    process: Child,
    folder: TempDir,
    log: Arc<Mutex<Vec<String>>>,
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
            .stderr(std::fs::File::create(folder.path().join("stderr"))?)
            .spawn()?;
        let stdout = process.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout);
        let mut first = String::new();
        lines.read_line(&mut first)?;
        assert!(first.contains("\"ready\""), "not ready: {first}");
        let log = Arc::<Mutex<Vec<String>>>::default();
        let written = Arc::clone(&log);
        // Someone must read on, or the cluster would wait for it.
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                written.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Ok(Self { process, folder, log })
    }

    /// Runs a shell command with the cluster's kubeconfig, in the folder of the repository.
    pub fn run(&self, command: &str) -> std::io::Result<Told> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders =
            std::iter::once(self.folder.path().to_owned()).chain(std::env::split_paths(&path));
        let mut command = Command::new("sh")
            .arg("-c")
            .arg(format!("exec 2>&1; {command}"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .env("PATH", std::env::join_paths(folders).expect("PATH has no colon inside"))
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let mut stdout = command.stdout.take().expect("stdout is piped");
        let (send, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // What could not be read is missing in the transcript, which then tells.
            let _ = stdout.read_to_end(&mut text);
            let _ = send.send(String::from_utf8_lossy(&text).into_owned());
        });
        let in_time = told.recv_timeout(PATIENCE);
        let hung = in_time.is_err();
        if hung {
            // The shell and all that it has started.
            let group = format!("-{}", command.id());
            Command::new("kill").args(["-9", "--", &group]).status()?;
        }
        let mut text = in_time.or_else(|_| told.recv()).unwrap_or_default();
        let code = command.wait()?.code().unwrap_or(-1);
        if hung {
            text.push_str(&format!("\nhas hung for {PATIENCE:?}; what the cluster told last:\n"));
            text.push_str(&self.last_words());
        }
        Ok(Told { text, code })
    }

    /// The last lines that the cluster has printed, and what it has complained of.
    fn last_words(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let told = log[log.len().saturating_sub(60)..].join("\n");
        let wrong = std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
        format!("{told}\n{wrong}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have ended by itself; then the script has failed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
