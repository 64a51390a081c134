//! A scenario in virtual time, measured: what it costs, and how long its pods wait.

use std::path::Path;
use std::sync::Arc;

use aerostat_clock::Clock;
use aerostat_engine::snapshot::Settings;
use aerostat_provider::catalog::Region;
use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::Value;

use crate::measure::Meter;
use crate::report::{Facts, Report};
use crate::scenario::{Action, Policy, Scenario};
use crate::script::{Script, Stage};
use crate::span::{Span, after};
use crate::world::{World, WorldOptions};

/// What stands above the scenario file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How long; as the scenario says if not given.
    pub until: Option<Span>,
    /// The seed; the scenario's if not given.
    pub seed: Option<u64>,
    /// Whose types and prices; the scenario's region if not given.
    pub region: Option<Arc<Region>>,
    /// How the planner decides.
    pub settings: Settings,
    /// Whose rules; the scenario's if not given.
    pub policy: Option<Policy>,
    /// Fields of the scenario that are changed: `arrivals.0.poisson.perHour`, and to what.
    pub set: Vec<(String, Value)>,
}

/// Told how far a run is, as a part of 1, and asked whether to go on.
pub type Progress<'a> = &'a mut dyn FnMut(f64) -> bool;

/// How often [`Progress`] is told in a run.
const TOLD: u32 = 200;

/// Simulates the scenario of a file.
///
/// # Errors
///
/// Names the file, the line and the field that is wrong, or says what in the world has failed.
pub fn simulate(path: &Path, options: &Options, progress: Progress<'_>) -> anyhow::Result<Report> {
    let scenario = Scenario::read_with(path, &options.set)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("the runtime cannot be built")?;
    let run = run(&scenario, &name, folder, options, progress);
    runtime.block_on(run).with_context(|| path.display().to_string())
}

async fn run(
    scenario: &Scenario,
    name: &str,
    folder: &Path,
    options: &Options,
    progress: Progress<'_>,
) -> anyhow::Result<Report> {
    let start = scenario.epoch;
    let Some(until) = options.until.or(scenario.until) else {
        bail!("the scenario has no `until`: say how long with --until, 24h for example");
    };
    let end = after(start, until.0);
    let clock = Clock::simulated(start);
    let region = match &options.region {
        Some(region) => region.clone(),
        None => scenario.region(folder)?,
    };
    let seed = options.seed.unwrap_or(scenario.seed);
    let (config, settings) = (
        scenario.config.clone(),
        options.policy.unwrap_or(scenario.policy).apply(&options.settings),
    );
    let reservations = config.stock.reservations.clone();
    let fee = settings.fee;
    let ca = "(no certificate: nothing listens)\n".to_owned();
    let options = WorldOptions { clock, seed, region: region.clone(), config, ca, settings };
    let mut world = World::start(options)?;
    let mut meter = Meter::new(&world.cluster, region.clone(), &reservations, fee, end)
        .context("the world has no NodePools")?;
    let stage = Stage::of(&world, folder);
    for file in &scenario.manifests {
        Action::Apply(file.clone()).run(&stage)?;
    }
    let mut script = Script::new(scenario, stage, end)?;
    let interrupted = tokio::select! {
        biased;
        why = world.failed() => bail!("{why}"),
        () = meter.run() => bail!("the cluster is gone"),
        ended = script.play(|_| {}) => {
            ended?;
            false
        }
        () = watch(clock, start, until, progress) => true,
    };
    meter.close();
    let now = clock.now();
    let facts = Facts {
        name: name.to_owned(),
        start: start.to_string(),
        seconds: now.duration_since(start).as_secs_f64(),
        interrupted,
        seed,
        region: region.name.clone(),
    };
    Ok(Report::new(facts, &meter.ledger, script.left_out()))
}

/// Returns when the run is not to go on.
async fn watch(clock: Clock, start: Timestamp, until: Span, progress: Progress<'_>) {
    for step in 1..TOLD {
        clock.sleep_until(after(start, until.0 * step / TOLD)).await;
        if !progress(f64::from(step) / f64::from(TOLD)) {
            return;
        }
    }
    std::future::pending().await
}
