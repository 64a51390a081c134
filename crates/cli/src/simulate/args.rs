//! The options of `aerostat simulate`.

use std::path::PathBuf;
use std::str::FromStr;

use aerostat_sim::span::{Moment, Span};
use clap::ValueEnum;

use crate::market::Market;
use crate::planner::Planner;

/// Tell what a workload will cost and how long its pods will wait, before you pay for it.
///
/// The controllers that would run the cluster run on an embedded one, in virtual time: a month
/// takes minutes. A scenario is a YAML file with manifests, things that happen at times, and work
/// that arrives; see docs/simulation.md. The same seed gives the same report, to the byte.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario.
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,

    /// How much time is simulated, `24h` or `30d` for example; as the scenario says if not given.
    #[arg(long, value_name = "LENGTH")]
    pub until: Option<Span>,

    /// Seed of everything that is left to chance; the scenario's if not given.
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Another scenario to compare with, under the same seeds. May be repeated.
    #[arg(long, value_name = "SCENARIO")]
    pub vs: Vec<PathBuf>,

    /// How many seeds, from --seed on, to compare with.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seeds: u64,

    /// Compare the scenario with other values of one of its fields:
    /// `arrivals.0.poisson.perHour=40,80`.
    #[arg(long, value_name = "FIELD=VALUES", conflicts_with = "vs")]
    pub sweep: Option<Sweep>,

    /// By whose rules nodes are bought; as the scenario says if not given.
    #[arg(long, value_enum, value_name = "POLICY")]
    pub policy: Option<Policy>,

    #[command(flatten)]
    pub market: Market,

    #[command(flatten)]
    pub planner: Planner,

    /// How to print the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,

    /// Write what happens to a file, for `aerostat replay`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ALONE)]
    pub log: Option<PathBuf>,

    /// Instead of the report, print every object as of a moment, as YAML: `90s` or `12h` from the
    /// start, or a time like 2026-01-05T08:30:00+09:00. Events and Leases are left out.
    #[arg(long, value_name = "MOMENT", conflicts_with_all = ALONE)]
    pub snapshot: Option<Moment>,

    /// Halt at a moment, and go on when Enter is pressed or the command behind `--` ends.
    #[arg(
        long, value_name = "MOMENT", requires = "serve", conflicts_with_all = ALONE,
        conflicts_with = "snapshot"
    )]
    pub pause_at: Option<Moment>,

    /// While halted, serve the cluster's API to kubectl. Its time stands still.
    #[arg(long, requires = "pause_at")]
    pub serve: bool,

    /// Port of the API server; 6443, or the next free one, if not given.
    #[arg(long, value_name = "PORT", requires = "serve")]
    pub port: Option<u16>,

    /// Where to write the kubeconfig; a file of its own under ~/.aerostat if not given.
    #[arg(long, value_name = "FILE", requires = "serve")]
    pub kubeconfig: Option<PathBuf>,

    /// Run a command with KUBECONFIG set while the simulation is halted.
    #[arg(last = true, value_name = "COMMAND", requires = "serve")]
    pub command: Vec<String>,
}

/// What is about several runs.
const ALONE: [&str; 3] = ["vs", "sweep", "seeds"];

const EXAMPLES: &str = "\
Examples:
  A day of CI jobs:
      aerostat simulate scenarios/ci-day.yaml

  The same for a month, with other chance and with prices of Virginia:
      aerostat simulate scenarios/ci-day.yaml --until 30d --seed 7 --region us-east-1

  For scripts: what is paid, and what 95 % of the pods wait at most:
      aerostat simulate scenarios/ci-day.yaml -o json | jq '.cost.totalUsd, .waitSeconds.p95'

  What balloons cost and what they bring, over five seeds:
      aerostat simulate scenarios/ci-day.yaml --vs scenarios/ci-day-balloons.yaml --seeds 5

  By the rules of peers, side by side:
      aerostat simulate scenarios/ci-day.yaml --sweep policy=aerostat,karpenter,cluster-autoscaler

  A page with charts:
      aerostat simulate scenarios/ci-day.yaml -o html > ci-day.html

  The cluster as it is after ten minutes, for your own kubectl:
      aerostat simulate scenarios/web-shop.yaml --pause-at 10m --serve
      aerostat simulate scenarios/web-shop.yaml --pause-at 10m --serve -- kubectl get pods -o wide

  What happened, step by step:
      aerostat simulate scenarios/web-shop.yaml --log shop.log && aerostat replay shop.log

The JSON is a stable interface; its schema is docs/simulate-report.schema.json, that of scenarios is
docs/scenario.schema.json. Ctrl-C ends a simulation with the report so far.";

/// How to print the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Lines for people.
    Table,
    /// One JSON object.
    Json,
    /// A page with charts that needs no network.
    Html,
}

/// By whose rules nodes are bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Our own.
    Aerostat,
    /// As Karpenter: its packing, preferences, batching, consolidation and waits.
    Karpenter,
    /// As cluster-autoscaler: node groups, scans every 10 s, scale-down after 10 min.
    ClusterAutoscaler,
}

/// A field of the scenario and the values that it is to have.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// `arrivals.0.poisson.perHour`.
    pub field: String,
    /// As YAML.
    pub values: Vec<String>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (field, values) = text
            .split_once('=')
            .filter(|(field, values)| !field.is_empty() && !values.is_empty())
            .ok_or("write a field and its values, like until=1h,2h")?;
        let values = values.split(',').map(str::to_owned).collect();
        Ok(Self { field: field.to_owned(), values })
    }
}
