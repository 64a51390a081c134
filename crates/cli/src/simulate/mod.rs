//! `aerostat simulate`: a scenario in virtual time, with its bill and its waiting time.

mod args;
mod halt;
mod progress;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use aerostat_provider::catalog::Flavor;
use aerostat_sim::compare::{self, Variant, compare};
use aerostat_sim::event_log::EventLog;
use aerostat_sim::report;
use aerostat_sim::scenario::{Policy, Scenario};
use aerostat_sim::simulate::{Options, Simulation};
use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::Value;

pub use args::Args;
use args::Output;
use progress::Progress;

/// Simulates and prints the report, or the comparison. Ctrl-C ends the simulation with the report
/// so far.
///
/// # Errors
///
/// If a scenario has a fault; the error names file, line and field.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        until: args.until,
        seed: args.seed,
        region: args.market.is_given().then(|| args.market.region(Flavor::AutoMode)).transpose()?,
        settings: args.planner.settings(),
        policy: args.policy.map(|policy| match policy {
            args::Policy::Aerostat => Policy::Aerostat,
            args::Policy::Karpenter => Policy::Karpenter,
            args::Policy::ClusterAutoscaler => Policy::ClusterAutoscaler,
        }),
        set: Vec::new(),
    };
    let variants = variants(args)?;
    if variants.len() > 1 || args.seeds > 1 {
        print!("{}", side_by_side(args, &options, &variants)?);
        return Ok(ExitCode::SUCCESS);
    }
    alone(args, &options)
}

fn alone(args: &Args, options: &Options) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::start()?;
    let mut simulation = Simulation::begin(&args.scenario, options)?;
    if let Some(log) = &args.log {
        simulation.tell(EventLog::create(log)?)?;
    }
    let mut code = ExitCode::SUCCESS;
    let mut goes_on = true;
    if let Some(moment) = args.snapshot.or(args.pause_at) {
        let time = simulation.time_of(moment)?;
        goes_on = play(&mut simulation, time, &mut progress)?;
    }
    if args.snapshot.is_some() && goes_on {
        let state = serde_saphyr::to_string(&simulation.state());
        print!("{}", state.context("the objects cannot be written as YAML")?);
        return Ok(code);
    }
    if args.pause_at.is_some() && goes_on {
        match halt::halt(&simulation, args)? {
            halt::Ended::GoOn(command) => code = command,
            halt::Ended::Enough => {
                simulation.interrupt();
                goes_on = false;
            }
        }
    }
    if goes_on {
        let end = simulation.end();
        play(&mut simulation, end, &mut progress)?;
    }
    let report = simulation.report();
    let text = match args.output {
        Output::Table => report::table(&report),
        Output::Json => json(&report)?,
        Output::Html => report::html(&report).context("the page cannot be written")?,
    };
    print!("{text}");
    Ok(code)
}

/// Lets time pass, with a bar; whether it got as far as `until`.
fn play(
    simulation: &mut Simulation,
    until: Timestamp,
    progress: &mut Progress,
) -> anyhow::Result<bool> {
    let played = simulation.play(until, &mut |part| progress.tell(part));
    progress.clear();
    played
}

fn side_by_side(args: &Args, options: &Options, variants: &[Variant]) -> anyhow::Result<String> {
    if args.output == Output::Html {
        bail!("-o html is for one scenario with one seed: take table or json to compare");
    }
    let first = match args.seed {
        Some(seed) => seed,
        None => Scenario::read(&args.scenario)?.seed,
    };
    let seeds: Vec<u64> = (0..args.seeds.max(1)).map(|at| first.wrapping_add(at)).collect();
    let progress = Mutex::new(Progress::start()?);
    let lock = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let comparison = compare(variants, &seeds, options, &|part| lock().tell(part));
    lock().clear();
    let comparison = comparison?;
    Ok(match args.output {
        Output::Json => json(&comparison)?,
        Output::Table | Output::Html => compare::table(&comparison),
    })
}

fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value);
    Ok(text.context("the report cannot be written as JSON")? + "\n")
}

/// The scenarios that the options name.
fn variants(args: &Args) -> anyhow::Result<Vec<Variant>> {
    let variant = |path: &Path, name: String, set: Vec<(String, Value)>| Variant {
        name,
        path: path.to_owned(),
        set,
    };
    let stem = |path: &Path| {
        path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    if let Some(sweep) = &args.sweep {
        let with = |text: &String| {
            let value: Value = serde_saphyr::from_str(text)
                .with_context(|| format!("--sweep: {text:?} is no YAML"))?;
            let name = format!("{}={text}", sweep.field.rsplit('.').next().unwrap_or_default());
            Ok(variant(&args.scenario, name, vec![(sweep.field.clone(), value)]))
        };
        return sweep.values.iter().map(with).collect();
    }
    let paths = std::iter::once(&args.scenario).chain(&args.vs);
    Ok(paths.map(|path| variant(path, stem(path), Vec::new())).collect())
}
