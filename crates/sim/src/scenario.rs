//! Steps at times, played in virtual time.
//!
//! A scenario is a YAML file; what it tells is compared with a golden file beside it. Nothing in
//! the cluster knows that its time is virtual.

mod action;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use aerostat_api::Duration;
use aerostat_clock::Clock;
use aerostat_engine::snapshot::Settings;
use aerostat_provider::catalog::Catalog;
use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

pub use action::{Action, Fault, Merge};

use crate::config::Config;
use crate::story::{self, Line};
use crate::world::{World, WorldOptions};

/// What happens in a scenario, and what is shown of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Wall time at its start.
    pub epoch: Timestamp,
    /// Its seed.
    #[serde(default)]
    pub seed: u64,
    /// Its region.
    #[serde(default = "default_region")]
    pub region: String,
    /// How the simulated world behaves.
    #[serde(default)]
    pub config: Config,
    /// What is done, in order of time.
    pub steps: Vec<Step>,
    /// When it ends.
    pub until: Duration,
}

fn default_region() -> String {
    "ap-northeast-1".to_owned()
}

/// Something done at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, from the start.
    pub at: Duration,
    /// What.
    #[serde(flatten)]
    pub action: Action,
}

/// Plays the scenario of a file; returns what it tells.
///
/// # Errors
///
/// If the file, or one that it names, cannot be read or applied.
pub fn play(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let scenario: Scenario =
        serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("the runtime cannot be built")?;
    runtime.block_on(run(&scenario, folder))
}

async fn run(scenario: &Scenario, folder: &Path) -> anyhow::Result<String> {
    let clock = Clock::simulated(scenario.epoch);
    let region = Catalog::embedded().region(&scenario.region)?;
    let ca = "(no certificate: nothing listens)\n".to_owned();
    let config = scenario.config.clone();
    let (seed, settings) = (scenario.seed, Settings::default());
    let mut world = World::start(WorldOptions { clock, seed, region, config, ca, settings })?;
    let output = Arc::new(Mutex::new(String::new()));
    let decisions = world.decisions().context("nobody else takes the decisions")?;
    let epoch = scenario.epoch;
    let told = output.clone();
    let tell = move |line: Line| {
        let mut output = told.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a String cannot fail.
        let _ = writeln!(output, "{} {} {}", offset(epoch, line.time), line.sign(), line.text);
    };
    tokio::spawn(story::follow(world.cluster.clone(), decisions, tell));
    for step in &scenario.steps {
        wait_until(&mut world, clock, epoch, step.at).await?;
        let text = step.action.run(&world, folder)?;
        output.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
    }
    wait_until(&mut world, clock, epoch, scenario.until).await?;
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(output.clone())
}

async fn wait_until(
    world: &mut World,
    clock: Clock,
    epoch: Timestamp,
    at: Duration,
) -> anyhow::Result<()> {
    let when = epoch.checked_add(at.0).context("the time is out of range")?;
    tokio::select! {
        biased;
        why = world.failed() => bail!("{why}"),
        () = clock.sleep_until(when) => Ok(()),
    }
}

/// `  26.013 s`.
fn offset(epoch: Timestamp, at: Timestamp) -> String {
    let since: SignedDuration = at.duration_since(epoch);
    format!("{:>9.3}s", since.as_secs_f64())
}
