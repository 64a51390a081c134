//! How far a simulation is, on a terminal, and Ctrl-C.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// How wide the bar is.
const WIDTH: usize = 30;

/// A bar on stderr, if that is a terminal, and whether someone has pressed Ctrl-C.
pub struct Progress {
    interrupted: Arc<AtomicBool>,
    shown: bool,
    begun: Instant,
    /// Waits for the signal: the simulation's own runtime has no time for it.
    _signals: Runtime,
}

impl Progress {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// If the process cannot have another thread.
    pub fn start() -> anyhow::Result<Self> {
        let signals = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("the runtime cannot be built")?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = interrupted.clone();
        signals.spawn(async move {
            // A second one ends the process at once.
            while tokio::signal::ctrl_c().await.is_ok() {
                if flag.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
        let shown = std::io::stderr().is_terminal();
        Ok(Self { interrupted, shown, begun: Instant::now(), _signals: signals })
    }

    /// Shows how far it is, as a part of 1; whether to go on.
    pub fn tell(&mut self, part: f64) -> bool {
        if self.shown {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of a small width"
            )]
            let done = (part.clamp(0.0, 1.0) * WIDTH as f64) as usize;
            let bar = format!("{}{}", "#".repeat(done), ".".repeat(WIDTH - done));
            let percent = part * 100.0;
            self.put(&format!("\r[{bar}] {percent:.0} %"));
        }
        !self.interrupted.load(Ordering::Relaxed)
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        if self.shown {
            let seconds = self.begun.elapsed().as_secs_f64();
            self.put(&format!("\r\x1b[Ksimulated in {seconds:.1} s\n"));
        }
    }

    fn put(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        // A terminal that is gone is no reason to end the simulation.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}
