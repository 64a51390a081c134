//! The options of `aerostat simulate`.

use std::path::PathBuf;

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

The JSON is a stable interface; its schema is docs/simulate-report.schema.json, that of scenarios is
docs/scenario.schema.json. Ctrl-C ends a simulation with the report so far.";

/// How to print the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Lines for people.
    Table,
    /// One JSON object.
    Json,
}
