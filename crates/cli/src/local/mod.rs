//! The API server on this machine: its port and its kubeconfig.

mod listen;
mod place;

use std::process::ExitCode;

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

/// The command's own exit code; 128 and the signal's number if one ended it, as shells have it.
pub fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
