//! What happens when: the steps of a scenario, its arrivals and its traces, in one order of time.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aerostat_cluster::Cluster;
use aerostat_engine::schedule::Schedule;
use aerostat_provider::SimCloud;
use anyhow::{Context, bail};
use jiff::Timestamp;

use crate::arrivals::{Arrival, Coming, reap};
use crate::manifest;
use crate::report::LeftOut;
use crate::scenario::{Action, Load, Scenario};
use crate::traces::dump::Dump;
use crate::traces::{self, Omissions, simkube};
use crate::world::World;

/// What the steps of a scenario work with.
#[derive(Clone)]
pub struct Stage {
    /// The cluster.
    pub cluster: Cluster,
    /// Its cloud.
    pub cloud: Arc<SimCloud>,
    /// What the scenario's paths are relative to.
    pub folder: PathBuf,
}

impl Stage {
    /// That of a world.
    #[must_use]
    pub fn of(world: &World, folder: &Path) -> Self {
        let (cluster, cloud) = (world.cluster.clone(), world.cloud.clone());
        Self { cluster, cloud, folder: folder.to_owned() }
    }
}

/// Everything that a scenario does to its cluster.
pub struct Script {
    stage: Stage,
    end: Timestamp,
    begun: bool,
    sources: Vec<Source>,
    /// The next time of each source that has one.
    due: BTreeMap<(Timestamp, usize), Option<Arrival>>,
    /// Arrivals that the cluster refused: why, and how many pods they would have been.
    refused: BTreeMap<(String, String), u64>,
    left_out: Vec<LeftOut>,
    omissions: Omissions,
}

enum Source {
    Step { action: Action, again: Option<Schedule> },
    Load(Load),
    Arrivals { name: String, coming: Box<Coming> },
    Trace(Recorded),
}

/// The rest of a trace, in order of time.
struct Recorded {
    file: manifest::Source,
    events: VecDeque<(Timestamp, simkube::Event)>,
}

impl Script {
    /// The script of a scenario until `end`.
    ///
    /// # Errors
    ///
    /// Names the step or the arrival process that is wrong, and why.
    pub fn new(scenario: &Scenario, stage: Stage, end: Timestamp) -> anyhow::Result<Self> {
        let start = scenario.epoch;
        let mut script = Self {
            stage,
            end,
            begun: false,
            sources: Vec::new(),
            due: BTreeMap::new(),
            refused: BTreeMap::new(),
            left_out: Vec::new(),
            omissions: Omissions::default(),
        };
        for file in &scenario.dumps {
            let dump = Dump::read(&script.stage.folder.join(file))?;
            dump.plant(&script.stage.cluster, &mut script.omissions);
        }
        for file in &scenario.traces {
            let trace = simkube::Trace::read(&script.stage.folder.join(file))?;
            let file = manifest::Source { file: file.clone(), line: 1 };
            let events: VecDeque<_> = trace.events(start).collect();
            let first = events.front().map(|(at, _)| *at);
            script.add(Source::Trace(Recorded { file, events }), first, None);
        }
        for (at, step) in scenario.steps.iter().enumerate() {
            let (first, again) = step.value.times(start).map_err(|why| {
                anyhow::anyhow!("line {}: timeline[{at}]: {why}", step.referenced.line())
            })?;
            script.add(Source::Step { action: step.value.action.clone(), again }, first, None);
        }
        for (at, load) in scenario.loads.iter().enumerate() {
            load.value
                .check()
                .with_context(|| format!("line {}: loads[{at}]", load.referenced.line()))?;
            script.add(Source::Load(load.value.clone()), Some(start), None);
        }
        for arrivals in &scenario.arrivals {
            let seeds = script.stage.cluster.seeds();
            let mut coming = arrivals.coming(&script.stage.folder, seeds, start, end)?;
            script.left_out.append(&mut coming.left_out);
            let first = coming.next();
            let name = arrivals.name.clone();
            let at = first.as_ref().map(|arrival| arrival.at);
            script.add(Source::Arrivals { name, coming: Box::new(coming) }, at, first);
        }
        Ok(script)
    }

    fn add(&mut self, source: Source, at: Option<Timestamp>, arrival: Option<Arrival>) {
        let index = self.sources.len();
        self.sources.push(source);
        if let Some(at) = at {
            self.due.insert((at, index), arrival);
        }
    }

    /// Does everything whose time comes by `until`, the scenario's end at the latest, and returns
    /// then. What steps have to say goes to `tell`.
    ///
    /// # Errors
    ///
    /// If a step cannot be done, or an arrival's template is wrong.
    pub async fn play(
        &mut self,
        until: Timestamp,
        mut tell: impl FnMut(&str),
    ) -> anyhow::Result<()> {
        let cluster = &self.stage.cluster;
        let clock = cluster.clock();
        let until = until.min(self.end);
        if !std::mem::replace(&mut self.begun, true) {
            self.begin()?;
        }
        while let Some(due) = self.due.first_entry() {
            let (at, index) = *due.key();
            if at > until {
                break;
            }
            let arrival = due.remove();
            clock.sleep_until(at).await;
            match &mut self.sources[index] {
                Source::Step { action, again } => {
                    let text =
                        action.run(&self.stage).with_context(|| format!("at {}", clock.now()))?;
                    tell(&text);
                    let next = again.as_ref().and_then(|schedule| schedule.next(at));
                    if let Some(next) = next {
                        self.due.insert((next, index), None);
                    }
                }
                Source::Trace(Recorded { file, events }) => {
                    let Some((_, event)) = events.pop_front() else { continue };
                    for value in &event.applied_objs {
                        traces::plant(cluster, file, value, &mut self.omissions);
                    }
                    for value in &event.deleted_objs {
                        traces::uproot(cluster, file, value);
                    }
                    if let Some((next, _)) = events.front() {
                        self.due.insert((*next, index), None);
                    }
                }
                Source::Load(load) => {
                    let next = load.tell(&self.stage, at);
                    let next = next.with_context(|| format!("loads: {}, at {at}", load.of))?;
                    if let Some(next) = next {
                        self.due.insert((next, index), None);
                    }
                }
                Source::Arrivals { name, coming } => {
                    let Some(arrival) = arrival else { bail!("an arrival without its facts") };
                    if let Err(status) = coming.work.create(cluster, &arrival) {
                        let key = (name.clone(), status.message.clone());
                        *self.refused.entry(key).or_default() += coming.work.pods();
                    }
                    if let Some(next) = coming.next() {
                        self.due.insert((next.at, index), Some(next));
                    }
                }
            }
        }
        clock.sleep_until(until).await;
        Ok(())
    }

    /// Looks at what is to come before anything does.
    fn begin(&self) -> anyhow::Result<()> {
        let cluster = &self.stage.cluster;
        let mut makes_pods = false;
        for source in &self.sources {
            match source {
                Source::Arrivals { name, coming } => {
                    coming.work.check(cluster).with_context(|| format!("arrivals {name:?}"))?;
                    makes_pods |= coming.work.is_pod();
                }
                Source::Trace(_) => makes_pods = true,
                Source::Step { .. } | Source::Load(_) => {}
            }
        }
        if makes_pods {
            tokio::spawn(reap::run(cluster.clone()));
        }
        Ok(())
    }

    /// What was not done: rows that could not be read, objects and arrivals that the cluster
    /// refused.
    #[must_use]
    pub fn left_out(&self) -> Vec<LeftOut> {
        let refused = self.refused.iter();
        let left = |((name, why), pods): (&(String, String), &u64)| LeftOut {
            what: format!("arrivals {name}"),
            why: why.clone(),
            pods: *pods,
        };
        let known = self.left_out.iter().cloned().chain(self.omissions.list());
        known.chain(refused.map(left)).collect()
    }
}
