//! The API server on this machine: its port and its kubeconfig.

mod listen;
mod place;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use tokio::process::{Child, Command};

pub use listen::bind;
pub use place::Place;

/// Ctrl-C, or a polite request to end.
pub async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        // Without handlers the process ends by itself.
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Runs the command behind `--`, if there is one, for the cluster of `kubeconfig`.
///
/// # Errors
///
/// Names the command that cannot be run.
pub fn spawn(words: &[String], kubeconfig: &Path) -> anyhow::Result<Option<Child>> {
    let Some((program, arguments)) = words.split_first() else { return Ok(None) };
    let child = Command::new(program).args(arguments).env("KUBECONFIG", kubeconfig).spawn();
    child.map(Some).with_context(|| format!("the command {program:?} cannot be run"))
}

/// The command's own exit code; 128 and the signal's number if one ended it, as shells have it.
pub fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
