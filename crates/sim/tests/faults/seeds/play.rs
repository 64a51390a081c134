//! A case, played in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aerostat_clock::Clock;
use aerostat_cluster::registry::{DeleteOptions, WriteOptions};
use aerostat_engine::snapshot::Settings;
use aerostat_sim::{World, WorldOptions};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::mpsc::UnboundedReceiver;
use tower::Layer;

use super::case::{Case, What};
use super::cloud::FaultyCloud;
use super::invariants::SETTLED;
use super::layer::Faults;
use super::ledger::{Ledger, Violation};
use super::strike::Stage;
use crate::world::{self, START};

/// How often everything is checked while things happen, in seconds.
const TICK: usize = 20;
/// How often it is checked after that.
const LATER: Duration = Duration::from_secs(60);
/// A cluster that has not written for so long has come to rest.
const REST: SignedDuration = SignedDuration::from_mins(5);
/// What does not hold when all is over must hold so long after.
const SECOND_LOOK: Duration = Duration::from_secs(300);

/// How it went.
#[derive(Debug)]
pub struct Outcome {
    pub violations: Vec<Violation>,
    /// What was done last.
    pub lines: Vec<String>,
    /// Of everything that was done.
    pub hash: u64,
}

/// What is to be done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// That happening is over.
    End(usize),
    /// That happening begins.
    Begin(usize),
    /// No more crashes.
    Spare,
    Check,
}

/// Plays a case in a runtime of its own.
pub fn play(case: &Case) -> Outcome {
    world::alone(Play::run(case))
}

struct Play {
    world: World,
    clock: Clock,
    faults: Faults,
    cloud: Arc<FaultyCloud>,
    ledger: Ledger,
    decisions: UnboundedReceiver<aerostat_controllers::Decision>,
}

impl Play {
    async fn run(case: &Case) -> Outcome {
        let mut play = Self::start(case);
        let result = play.all(case).await;
        if let Err(why) = result {
            play.ledger.found(vec![Violation { rule: "failed", what: why }]);
        }
        let (lines, hash) = play.ledger.trace();
        let violations = play.ledger.book().violations.iter().cloned().collect();
        Outcome { violations, lines, hash }
    }

    fn start(case: &Case) -> Self {
        let clock = Clock::simulated(START.parse().unwrap());
        let region = crate::region::uneven();
        let options = WorldOptions {
            clock,
            seed: case.seed,
            region: region.clone(),
            config: aerostat_sim::Config::default(),
            ca: String::new(),
            settings: Settings::default(),
        };
        let mut world = World::start(options).unwrap();
        let cluster = world.cluster.clone();
        let pools = cluster.kind("karpenter.sh", "nodepools").unwrap();
        for name in ["general-purpose", "system"] {
            cluster.delete_object(&pools, "", name, &DeleteOptions::default()).unwrap();
        }
        for pool in &case.pools {
            let options = WriteOptions::default();
            cluster.create_object(&pools, "", pool.manifest(), options).unwrap();
        }
        let decisions = world.decisions().unwrap();
        let ledger = Ledger::new(case.clone(), cluster, world.cloud.clone(), region);
        let faults = Faults::new(clock, ledger.clone());
        let cloud = Arc::new(FaultyCloud::new(world.cloud.clone(), clock));
        let mut play = Self { world, clock, faults, cloud, ledger, decisions };
        play.restart();
        play
    }

    /// The controllers begin anew, and know nothing.
    fn restart(&mut self) {
        let service = self.faults.layer(self.world.service.clone());
        let client = Client::new(service, "default");
        self.world.restart_controllers_on(client, self.cloud.clone());
    }

    async fn all(&mut self, case: &Case) -> Result<(), String> {
        let mut stage = Stage::new(&self.world, &self.faults, &self.cloud, &self.ledger, case);
        stage.set_up();
        let ends = case.ends();
        let mut acts: Vec<(u64, Act)> =
            (0..ends).step_by(TICK).map(|at| (at, Act::Check)).collect();
        for (number, happening) in case.happenings.iter().enumerate() {
            acts.push((happening.at, Act::Begin(number)));
            acts.push((happening.at + happening.what.lasts(), Act::End(number)));
        }
        acts.push((ends, Act::Spare));
        acts.sort();
        let epoch: Timestamp = START.parse().unwrap();
        for (at, act) in acts {
            let when = epoch + SignedDuration::from_secs(at.cast_signed());
            self.go_on(when).await?;
            match act {
                Act::Begin(number) => match case.happenings[number].what {
                    What::Jump { secs } => tokio::time::advance(Duration::from_secs(secs)).await,
                    _ => stage.begin(number).await,
                },
                Act::End(number) => stage.end(number).await,
                Act::Spare => self.faults.spare(),
                Act::Check => {}
            }
            self.ledger.check().await;
        }
        self.rest().await
    }

    /// Waits until all is quiet, and checks what must hold then.
    async fn rest(&mut self) -> Result<(), String> {
        let deadline = self.clock.now() + SignedDuration::from_secs(SETTLED);
        while self.clock.now() < deadline {
            let now = self.clock.now();
            if now.duration_since(self.ledger.written()) >= REST
                && self.ledger.check_rest().await.is_empty()
            {
                return Ok(());
            }
            self.go_on(now + LATER).await?;
            self.ledger.check().await;
        }
        // Twice, since machines grow old at any time.
        let first = self.ledger.check_rest().await;
        self.go_on(self.clock.now() + SECOND_LOOK).await?;
        let second = self.ledger.check_rest().await;
        let both = second.into_iter().filter(|violation| first.contains(violation));
        self.ledger.found(both.collect());
        let since = self.clock.now() - SECOND_LOOK;
        if let Some(write) = self.ledger.noise(since).await {
            let what = format!("{write}, more than {SETTLED} s after all is over");
            self.ledger.found(vec![Violation { rule: "noise", what }]);
        }
        Ok(())
    }

    /// Lets time pass; the controllers begin anew when they die.
    async fn go_on(&mut self, until: Timestamp) -> Result<(), String> {
        let faults = self.faults.clone();
        loop {
            tokio::select! {
                biased;
                why = self.world.failed() => return Err(why),
                () = faults.died() => {
                    faults.revive();
                    self.restart();
                }
                decision = self.decisions.recv() => {
                    decision.iter().for_each(|decision| self.ledger.decided(decision));
                }
                () = self.clock.sleep_until(until) => return Ok(()),
            }
        }
    }
}

/// Things that last, by the number of their happening.
pub type Lasting<T> = BTreeMap<usize, T>;
