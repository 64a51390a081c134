//! `aerostat replay`: a simulation's story, shown again.

use std::path::PathBuf;
use std::process::ExitCode;

use aerostat_clock::Clock;
use aerostat_sim::event_log::Recording;
use anyhow::Context;

use crate::print::{Output, Printer};
use crate::up::Speed;

/// Show again what happened in a simulation: the log that `simulate --log` has written.
///
/// All at once, or at a pace: with `--speed 60x` a minute of the simulation takes a second.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The log.
    #[arg(value_name = "LOG")]
    pub log: PathBuf,

    /// How many times faster than it happened, `60x` for example; all at once if not given.
    #[arg(long, value_name = "FACTOR")]
    pub speed: Option<Speed>,

    /// How to tell what happened.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

const EXAMPLES: &str = "\
Examples:
  A day, and what happened to its nodes:
      aerostat simulate scenarios/ci-day.yaml --log ci-day.log
      aerostat replay ci-day.log | grep node

  As if it happened now, ten times as fast:
      aerostat replay ci-day.log --speed 10x";

/// Prints a log.
///
/// # Errors
///
/// Names the line that cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let recording = Recording::open(&args.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .context("the runtime cannot be built")?;
    runtime.block_on(show(args, recording))
}

async fn show(args: &Args, recording: Recording) -> anyhow::Result<ExitCode> {
    let header = recording.header.clone();
    let printer = Printer::new(args.output, false, header.start);
    let pace = args.speed.map(|speed| Clock::scaled(speed.0));
    if args.output == Output::Text {
        eprintln!(
            "{} from {}, region {}, seed {}, policy {}",
            header.name, header.start, header.region, header.seed, header.policy
        );
    }
    let mut shown = header.start;
    for line in recording {
        let line = line?;
        if let Some(pace) = pace {
            pace.sleep(line.time.duration_since(shown).unsigned_abs()).await;
            shown = line.time;
        }
        printer.line(&line);
    }
    Ok(ExitCode::SUCCESS)
}
