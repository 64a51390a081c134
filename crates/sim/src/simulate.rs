//! A scenario in virtual time, measured: what it costs, and how long its pods wait.
//!
//! [`simulate`] plays one from beginning to end. A [`Simulation`] can be halted at any time, to look
//! at its world, and go on.

use std::path::Path;
use std::sync::Arc;

use aerostat_clock::Clock;
use aerostat_engine::snapshot::Settings;
use aerostat_provider::catalog::Region;
use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::event_log::EventLog;
use crate::measure::Meter;
use crate::report::{Facts, Report};
use crate::scenario::{Action, Policy, Scenario};
use crate::script::{Script, Stage};
use crate::span::{Moment, Span, after};
use crate::state;
use crate::story::{self, Line};
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
    let mut simulation = Simulation::begin(path, options)?;
    let end = simulation.end();
    simulation.play(end, progress)?;
    Ok(simulation.report())
}

/// A scenario under way, in a runtime of its own. Dropping it ends it.
pub struct Simulation {
    file: String,
    set: Set,
    // Last, so that what runs in it goes first.
    runtime: Runtime,
}

/// What a simulation is made of.
struct Set {
    facts: Facts,
    start: Timestamp,
    end: Timestamp,
    clock: Clock,
    script: Script,
    meter: Meter,
    world: World,
}

impl Simulation {
    /// Reads a scenario and sets it up; no time passes.
    ///
    /// # Errors
    ///
    /// Names the file, the line and the field that is wrong.
    pub fn begin(path: &Path, options: &Options) -> anyhow::Result<Self> {
        let scenario = Scenario::read_with(path, &options.set)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let name =
            path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .context("the runtime cannot be built")?;
        let file = path.display().to_string();
        let set = runtime.block_on(set_up(&scenario, name, folder, options));
        let set = set.with_context(|| file.clone())?;
        Ok(Self { file, set, runtime })
    }

    /// When it ends.
    #[must_use]
    pub fn end(&self) -> Timestamp {
        self.set.end
    }

    /// When a moment of the scenario is.
    ///
    /// # Errors
    ///
    /// If it is not between start and end.
    pub fn time_of(&self, moment: Moment) -> anyhow::Result<Timestamp> {
        let Set { start, end, .. } = self.set;
        let time = moment.resolve(start);
        if time < start || time > end {
            bail!(
                "{time} is not in the scenario: it goes from {start} to {end} (--until makes it \
                 longer)"
            );
        }
        Ok(time)
    }

    /// Tells what happens from now on to a log, one line an event.
    ///
    /// # Errors
    ///
    /// If it is told to another one already, or the log cannot be written.
    pub fn tell(&mut self, mut log: EventLog) -> anyhow::Result<()> {
        let decisions = self.set.meter.pass_on_decisions();
        log.begin(&self.set.facts)?;
        let cluster = self.set.world.cluster.clone();
        let _guard = self.runtime.enter();
        tokio::spawn(story::follow(cluster, decisions, move |line: Line| log.line(&line)));
        Ok(())
    }

    /// Lets time pass until `until`, the end at the latest. `false`: `progress` has ended it early.
    ///
    /// # Errors
    ///
    /// Says which step cannot be done, or what in the world has failed.
    pub fn play(&mut self, until: Timestamp, progress: Progress<'_>) -> anyhow::Result<bool> {
        let Set { script, meter, world, clock, start, end, .. } = &mut self.set;
        let (clock, start, end) = (*clock, *start, *end);
        let run = async {
            tokio::select! {
                biased;
                why = world.failed() => bail!("{why}"),
                () = meter.run() => bail!("the cluster is gone"),
                ended = script.play(until, |_| {}) => ended.map(|()| true),
                () = watch(clock, start, end, progress) => Ok(false),
            }
        };
        let whole = self.runtime.block_on(run).with_context(|| self.file.clone())?;
        self.set.facts.interrupted |= !whole;
        Ok(whole)
    }

    /// Does something with the world while its time stands still.
    ///
    /// Everything that waits for time waits on; what is woken by others acts at once, since nothing
    /// here takes time to think.
    pub fn stand_still<T>(&self, with: impl AsyncFnOnce(&World) -> T) -> T {
        self.runtime.block_on(async {
            let (release, held) = std::sync::mpsc::channel::<()>();
            #[expect(
                clippy::disallowed_methods,
                reason = "it is meant to: tokio's paused clock does not jump ahead while one runs"
            )]
            let hold = tokio::task::spawn_blocking(move || held.recv());
            let value = with(&self.set.world).await;
            drop(release);
            // It ends with the error that nobody sends.
            let _ = hold.await;
            value
        })
    }

    /// Every object that is there now, but Events and Leases, as a `List`.
    #[must_use]
    pub fn state(&self) -> Value {
        state::of(&self.set.world.cluster)
    }

    /// Marks it as ended before its time.
    pub fn interrupt(&mut self) {
        self.set.facts.interrupted = true;
    }

    /// Closes the account and reports, as of now.
    #[must_use]
    pub fn report(mut self) -> Report {
        // Elsewhere the clock shows the machine's time.
        let _inside = self.runtime.enter();
        let set = &mut self.set;
        set.meter.close();
        set.facts.seconds = set.clock.now().duration_since(set.start).as_secs_f64();
        Report::new(set.facts.clone(), &set.meter.ledger, set.script.left_out())
    }
}

async fn set_up(
    scenario: &Scenario,
    name: String,
    folder: &Path,
    options: &Options,
) -> anyhow::Result<Set> {
    let start = scenario.epoch;
    let Some(until) = options.until.or(scenario.until) else {
        bail!("the scenario has no `until`: say how long with --until, 24h for example");
    };
    let end = after(start, until.0);
    let clock = Clock::simulated(start);
    let region = match &options.region {
        Some(region) if region.flavor != scenario.provider => bail!(
            "the scenario's provider is kwok: it has instance types of its own, or those of the \
             scenario's `catalog`"
        ),
        Some(region) => region.clone(),
        None => scenario.region(folder)?,
    };
    let seed = options.seed.unwrap_or(scenario.seed);
    let policy = options.policy.unwrap_or(scenario.policy);
    let (config, settings) =
        (scenario.config.clone(), policy.apply(&options.settings, &scenario.node_groups));
    if let Some(unknown) =
        scenario.node_groups.iter().find(|name| region.instance_type(name).is_none())
        && policy == Policy::ClusterAutoscaler
    {
        bail!("nodeGroups: {} sells no instance type {unknown:?}", region.name);
    }
    let reservations = config.stock.reservations.clone();
    let fee = settings.fee;
    let facts = Facts {
        name,
        start: start.to_string(),
        seconds: 0.0,
        interrupted: false,
        seed,
        region: region.name.clone(),
        policy: policy.name().to_owned(),
    };
    let ca = "(no certificate: nothing listens)\n".to_owned();
    let options = WorldOptions { clock, seed, region: region.clone(), config, ca, settings };
    let mut world = World::start(options)?;
    let decisions = world.decisions().context("nobody else takes the decisions")?;
    let meter = Meter::new(&world.cluster, decisions, region, &reservations, fee, end)
        .context("the world has no NodePools")?;
    let stage = Stage::of(&world, folder);
    for file in &scenario.manifests {
        Action::Apply(file.clone()).run(&stage)?;
    }
    let script = Script::new(scenario, stage, end)?;
    Ok(Set { facts, start, end, clock, script, meter, world })
}

/// Returns when the run is not to go on.
async fn watch(clock: Clock, start: Timestamp, end: Timestamp, progress: Progress<'_>) {
    let length = end.duration_since(start).unsigned_abs();
    for step in 1..TOLD {
        let at = after(start, length * step / TOLD);
        if at < clock.now() {
            continue;
        }
        clock.sleep_until(at).await;
        if !progress(f64::from(step) / f64::from(TOLD)) {
            return;
        }
    }
    std::future::pending().await
}
