//! `aerostat simulate`: a scenario in virtual time, with its bill and its waiting time.

mod args;
mod progress;

use std::process::ExitCode;

use aerostat_sim::report;
use aerostat_sim::simulate::{Options, simulate};
use anyhow::Context;

pub use args::Args;
use args::Output;
use progress::Progress;

/// Simulates and prints the report. Ctrl-C ends the simulation with the report so far.
///
/// # Errors
///
/// If the scenario has a fault; the error names file, line and field.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        until: args.until,
        seed: args.seed,
        region: args.market.is_given().then(|| args.market.region()).transpose()?,
        settings: args.planner.settings(),
    };
    let mut progress = Progress::start()?;
    let report = simulate(&args.scenario, &options, &mut |part| progress.tell(part));
    progress.clear();
    let report = report?;
    let text = match args.output {
        Output::Table => report::table(&report),
        Output::Json => {
            let text = serde_json::to_string_pretty(&report);
            text.context("the report cannot be written as JSON")? + "\n"
        }
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}
