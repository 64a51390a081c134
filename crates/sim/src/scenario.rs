//! Steps at times, played in virtual time.
//!
//! A scenario is a YAML file; what it tells is compared with a golden file beside it. Nothing in
//! the cluster knows that its time is virtual.

mod action;
mod load;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aerostat_clock::Clock;
use aerostat_engine::schedule::Schedule;
use aerostat_engine::snapshot::{PackingRule, Preferences, Settings, Waits};
use aerostat_provider::catalog::{Catalog, File, Flavor, Region};
use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

pub use action::{Action, Fault, Merge};
pub use load::Load;

use crate::arrivals::Arrivals;
use crate::config::Config;
use crate::script::{Script, Stage};
use crate::span::{Cron, Moment, Span, Zone, after};
use crate::story::{self, Line};
use crate::world::{World, WorldOptions};

/// What happens in a scenario, and what is shown of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Wall time at its start; a Monday at midnight UTC if not given.
    #[serde(rename = "start", alias = "epoch", default = "default_start")]
    pub epoch: Timestamp,
    /// Its seed.
    #[serde(default)]
    pub seed: u64,
    /// Whose machines are simulated: `sim` for Auto Mode's, `kwok` for those of Karpenter's KWOK
    /// provider, which begins without pools and classes.
    #[serde(default)]
    pub provider: Flavor,
    /// Its region; the only one, or `ap-northeast-1`, if not given.
    #[serde(default)]
    pub region: Option<String>,
    /// Its own instance types and prices: one KWOK JSON file, or two CSV files (types, offerings).
    #[serde(default)]
    pub catalog: Vec<PathBuf>,
    /// How the simulated world behaves.
    #[serde(default)]
    pub config: Config,
    /// Manifest files that are applied at the start; their paths are relative to the scenario's.
    #[serde(default)]
    pub manifests: Vec<PathBuf>,
    /// What was there in another cluster, as `kubectl get … -A -o yaml` prints it: created at the
    /// start, with machines bought anew.
    #[serde(default)]
    pub dumps: Vec<PathBuf>,
    /// SimKube traces, played from the start on.
    #[serde(default)]
    pub traces: Vec<PathBuf>,
    /// By whose rules nodes are bought.
    #[serde(default)]
    pub policy: Policy,
    /// Instance types of the node groups that cluster-autoscaler has, one for each NodePool that
    /// allows it.
    #[serde(default = "default_groups")]
    pub node_groups: Vec<String>,
    /// What is done, in order of time.
    #[serde(rename = "timeline", alias = "steps", default)]
    pub steps: Vec<Spanned<Step>>,
    /// How much work workloads have, for HorizontalPodAutoscalers.
    #[serde(default)]
    pub loads: Vec<Spanned<Load>>,
    /// What comes by itself.
    #[serde(default)]
    pub arrivals: Vec<Arrivals>,
    /// How long it goes on.
    #[serde(default)]
    pub until: Option<Span>,
}

/// By whose rules nodes are bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Our own.
    #[default]
    Aerostat,
    /// As Karpenter packs pods, first fit onto the largest machines that its rules allow, with
    /// preferences as demands; with its batching and its wait before machines go, one machine at
    /// most in the place of others, and no spot machine in the place of spot machines.
    Karpenter,
    /// cluster-autoscaler's node groups, scans and scale-down.
    ClusterAutoscaler,
}

impl Policy {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aerostat => "aerostat",
            Self::Karpenter => "karpenter",
            Self::ClusterAutoscaler => "cluster-autoscaler",
        }
    }

    /// Settings as this policy has them; `groups` are cluster-autoscaler's.
    #[must_use]
    pub fn apply(self, settings: &Settings, groups: &[String]) -> Settings {
        match self {
            Self::Aerostat => settings.clone(),
            Self::Karpenter => Settings {
                packing: PackingRule::Karpenter,
                preferences: Preferences::Respect,
                waits: Waits::KARPENTER,
                ..settings.clone()
            },
            Self::ClusterAutoscaler => Settings {
                preferences: Preferences::Ignore,
                waits: Waits::CLUSTER_AUTOSCALER,
                node_groups: Some(groups.to_vec()),
                refine: 0,
                ..settings.clone()
            },
        }
    }
}

fn default_start() -> Timestamp {
    Timestamp::constant(1_767_571_200, 0)
}

/// Where a scenario is that does not say it.
const DEFAULT_REGION: &str = "ap-northeast-1";

/// What people take who do not think about it: general-purpose machines of four sizes.
fn default_groups() -> Vec<String> {
    ["m6a.large", "m6a.xlarge", "m6a.2xlarge", "m6a.4xlarge"].map(str::to_owned).into()
}

/// Something done at a time, or again and again by cron.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// When: from the start, or by the clock.
    #[serde(default)]
    pub at: Option<Moment>,
    /// When, again and again.
    #[serde(default)]
    pub cron: Option<Cron>,
    /// Whose time `cron` is; UTC if not given.
    #[serde(default)]
    pub time_zone: Option<Zone>,
    /// What.
    #[serde(flatten)]
    pub action: Action,
}

impl Step {
    /// The first time, and by what it comes again.
    ///
    /// # Errors
    ///
    /// Says which of the fields do not go together.
    pub fn times(&self, start: Timestamp) -> Result<(Option<Timestamp>, Option<Schedule>), String> {
        match (&self.at, &self.cron, &self.time_zone) {
            (Some(_), None, Some(_)) => Err("timeZone belongs to cron, not to at".to_owned()),
            (Some(at), None, None) => Ok((Some(at.resolve(start)), None)),
            (None, Some(cron), zone) => {
                let schedule = cron.of(&zone.clone().unwrap_or_default());
                // A time at the very start counts.
                let before = start.checked_sub(SignedDuration::from_millis(1)).unwrap_or(start);
                Ok((schedule.next(before), Some(schedule)))
            }
            _ => Err("give exactly one of at and cron".to_owned()),
        }
    }
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Names the file, the line and the field that is wrong.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the scenario {shown} cannot be read"))?;
        Self::parse(&text).with_context(|| format!("{shown} is no valid scenario"))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut scenario: Self = serde_saphyr::from_str(text)?;
        if scenario.provider != Flavor::default() {
            let given: Value = serde_saphyr::from_str(text)?;
            scenario.config = Config::over(scenario.provider, given["config"].clone())?;
        }
        Ok(scenario)
    }

    /// Reads a file, and changes fields: `until`, or `arrivals.0.poisson.perHour`.
    ///
    /// # Errors
    ///
    /// As [`Scenario::read`], and if there is no such place.
    pub fn read_with(path: &Path, set: &[(String, Value)]) -> anyhow::Result<Self> {
        let scenario = Self::read(path)?;
        if set.is_empty() {
            return Ok(scenario);
        }
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the scenario {shown} cannot be read"))?;
        let mut value: Value = serde_saphyr::from_str(&text)
            .with_context(|| format!("{shown} is no valid scenario"))?;
        for (field, to) in set {
            let mut place = &mut value;
            for part in field.split('.') {
                if place.is_null() {
                    *place = Value::Object(serde_json::Map::new());
                }
                let within = match place {
                    Value::Array(items) => {
                        part.parse::<usize>().ok().and_then(|at| items.get_mut(at))
                    }
                    Value::Object(fields) => Some(fields.entry(part).or_insert(Value::Null)),
                    _ => None,
                };
                place = within
                    .with_context(|| format!("{shown}: there is no place {field}: not {part:?}"))?;
            }
            *place = to.clone();
        }
        // As text again, so that everything is read by the same rules.
        Self::parse(&value.to_string())
            .with_context(|| format!("{shown} is no valid scenario with what is set"))
    }

    /// Whose instance types and prices it uses; files are relative to `folder`.
    ///
    /// # Errors
    ///
    /// If the region is not known, or a catalog file has a fault.
    pub fn region(&self, folder: &Path) -> anyhow::Result<Arc<Region>> {
        let read = |path: &PathBuf| {
            let path = folder.join(path);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("catalog: {} cannot be read", path.display()))?;
            anyhow::Ok((path.display().to_string(), text))
        };
        let files: Vec<(String, String)> =
            self.catalog.iter().map(read).collect::<anyhow::Result<_>>()?;
        let file = |(name, text): &'_ (String, String)| -> (String, String) {
            (name.clone(), text.clone())
        };
        let catalog = match files.as_slice() {
            [] if self.provider == Flavor::Kwok => Catalog::kwok(None)?,
            [(name, text)] if self.provider == Flavor::Kwok => {
                Catalog::kwok(Some(File { name, text }))?
            }
            _ if self.provider == Flavor::Kwok => {
                bail!("catalog: the kwok provider takes one JSON file")
            }
            [] => Catalog::embedded(),
            [(name, text)] => Catalog::from_kwok_json(File { name, text })?,
            [types, offerings] => {
                let (types, offerings) = (file(types), file(offerings));
                Catalog::from_csv(
                    File { name: &types.0, text: &types.1 },
                    File { name: &offerings.0, text: &offerings.1 },
                )?
            }
            more => bail!("catalog: give one JSON file or two CSV files, not {}", more.len()),
        };
        let regions = catalog.regions();
        let region = match (&self.region, regions.as_slice()) {
            (Some(region), _) => region.as_str(),
            (None, [only]) => only,
            (None, _) => DEFAULT_REGION,
        };
        Ok(catalog.region(region)?)
    }
}

/// Plays the scenario of a file; returns what it tells.
///
/// # Errors
///
/// If the file, or one that it names, cannot be read or applied.
pub fn play(path: &Path) -> anyhow::Result<String> {
    let scenario = Scenario::read(path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("the runtime cannot be built")?;
    runtime.block_on(run(&scenario, folder))
}

async fn run(scenario: &Scenario, folder: &Path) -> anyhow::Result<String> {
    let epoch = scenario.epoch;
    let clock = Clock::simulated(epoch);
    let region = scenario.region(folder)?;
    let ca = "(no certificate: nothing listens)\n".to_owned();
    let config = scenario.config.clone();
    let (seed, settings) = (scenario.seed, Settings::default());
    let mut world = World::start(WorldOptions { clock, seed, region, config, ca, settings })?;
    let output = Arc::new(Mutex::new(String::new()));
    let put = |text: &str| output.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    let decisions = world.decisions().context("nobody else takes the decisions")?;
    let told = output.clone();
    let tell = move |line: Line| {
        let mut output = told.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a String cannot fail.
        let _ = writeln!(output, "{} {} {}", offset(epoch, line.time), line.sign(), line.text);
    };
    tokio::spawn(story::follow(world.cluster.clone(), decisions, tell));
    let stage = Stage::of(&world, folder);
    for file in &scenario.manifests {
        put(&Action::Apply(file.clone()).run(&stage)?);
    }
    let until = scenario.until.context("the scenario has no `until`")?;
    let end = after(epoch, until.0);
    let mut script = Script::new(scenario, stage, end)?;
    tokio::select! {
        biased;
        why = world.failed() => bail!("{why}"),
        played = script.play(end, put) => played?,
    }
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(output.clone())
}

/// `  26.013 s`.
fn offset(epoch: Timestamp, at: Timestamp) -> String {
    let since: SignedDuration = at.duration_since(epoch);
    format!("{:>9.3}s", since.as_secs_f64())
}
