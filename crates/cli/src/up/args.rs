//! The options of `aerostat up`.

use std::path::PathBuf;
use std::str::FromStr;

use aerostat_cluster::http::faults::Share;
use aerostat_provider::catalog::Flavor;
use clap::ValueEnum;

use crate::market::Market;
use crate::planner::Planner;
use crate::print::Output;

/// Start an embedded Kubernetes cluster with Auto Mode, for your own kubectl.
///
/// The cluster lives in this process: an API server on 127.0.0.1, scheduler, workload controllers,
/// simulated nodes and containers, and Aerostat, which orders and gives back the nodes. Nothing is
/// installed, nothing is executed, and everything is gone when the process ends.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Manifests to apply at the start: YAML or JSON files, or folders of them.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Run a command with KUBECONFIG set, and end with its exit code.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,

    /// How many times faster than real time the simulated world runs, `10x` for example.
    #[arg(long, default_value = "1x", value_name = "FACTOR")]
    pub speed: Speed,

    #[command(flatten)]
    pub market: Market,

    /// Whose machines are simulated.
    #[arg(long, value_enum, default_value_t = Provider::Sim)]
    pub provider: Provider,

    /// Start the cluster alone, for another autoscaler: nothing orders nodes, or gives them back.
    #[arg(long)]
    pub no_controllers: bool,

    #[command(flatten)]
    pub planner: Planner,

    /// Seed of generated names and tie-breaks; the time of day if not given.
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Port of the API server; 6443, or the next free one, if not given.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// Where to write the kubeconfig; a file of its own under ~/.aerostat if not given.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Add cluster, user and context to your own kubeconfig as well: $KUBECONFIG, or
    /// ~/.kube/config.
    #[arg(long)]
    pub merge_kubeconfig: bool,

    /// How long machines, images and containers take: a YAML file, see docs/simulation.md.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// To try clients with: this share of the API's requests, 5% for example, is not carried out
    /// but answered with a conflict, with "too many requests", or with a closed connection; those of
    /// Aerostat's own controllers too.
    #[arg(long, value_name = "SHARE")]
    pub api_faults: Option<Share>,

    /// How to tell what happens.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

const EXAMPLES: &str = "\
Examples:
  A cluster, and a Job that waits for its node:
      aerostat up examples/pi-job.yaml

  The same with kubectl, from a second terminal:
      aerostat up
      export KUBECONFIG=~/.aerostat/kubeconfig
      kubectl apply -f examples/pi-job.yaml

  Ten times as fast, with prices of Virginia:
      aerostat up --speed 10x --region us-east-1

  For scripts and CI: ends with the command's exit code:
      aerostat up app/ -- kubectl wait --for=condition=Available deployment --all

  One JSON object a line:
      aerostat up -o json examples/balloon.yaml examples/priority-classes.yaml";

/// Whose machines are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Provider {
    /// EKS Auto Mode's, on EC2: NodeClass, and two NodePools at the start.
    Sim,
    /// Those of Karpenter's KWOK provider: KWOKNodeClass, 144 types, ready at once. There is no
    /// NodePool at the start.
    Kwok,
}

impl Provider {
    /// What the catalog calls it.
    pub fn flavor(self) -> Flavor {
        match self {
            Self::Sim => Flavor::AutoMode,
            Self::Kwok => Flavor::Kwok,
        }
    }
}

/// A positive factor: `10x`, `10`, `0.5x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(pub f64);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('x').unwrap_or(text);
        match number.parse::<f64>() {
            Ok(speed) if speed.is_finite() && speed > 0.0 && speed <= 10_000.0 => Ok(Self(speed)),
            _ => Err("write a factor between 0 and 10000, like 10x".to_owned()),
        }
    }
}
