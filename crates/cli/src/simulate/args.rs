//! The options of `aerostat simulate`.

use std::path::PathBuf;
use std::str::FromStr;

use aerostat_sim::span::Span;
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
}

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

  A page with charts:
      aerostat simulate scenarios/ci-day.yaml -o html > ci-day.html

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
    /// Karpenter's packing and preferences.
    Karpenter,
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
