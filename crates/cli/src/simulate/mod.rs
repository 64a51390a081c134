//! `aerostat simulate`: a scenario in virtual time, with its bill and its waiting time.

mod args;
mod progress;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use aerostat_sim::compare::{self, Variant, compare};
use aerostat_sim::report;
use aerostat_sim::scenario::{Policy, Scenario};
use aerostat_sim::simulate::{Options, simulate};
use anyhow::{Context, bail};
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
        region: args.market.is_given().then(|| args.market.region()).transpose()?,
        settings: args.planner.settings(),
        policy: args.policy.map(|policy| match policy {
            args::Policy::Aerostat => Policy::Aerostat,
            args::Policy::Karpenter => Policy::Karpenter,
        }),
        set: Vec::new(),
    };
    let variants = variants(args)?;
    let text = if variants.len() > 1 || args.seeds > 1 {
        side_by_side(args, &options, &variants)?
    } else {
        alone(args, &options)?
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn alone(args: &Args, options: &Options) -> anyhow::Result<String> {
    let mut progress = Progress::start()?;
    let report = simulate(&args.scenario, options, &mut |part| progress.tell(part));
    progress.clear();
    let report = report?;
    Ok(match args.output {
        Output::Table => report::table(&report),
        Output::Json => json(&report)?,
        Output::Html => report::html(&report).context("the page cannot be written")?,
    })
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
