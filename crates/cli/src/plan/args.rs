//! The options of `aerostat plan`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::market::Market;
use crate::planner::Planner;

/// Tell which nodes pods would get, and what they would cost. No cluster is needed.
///
/// Reads pods and what makes pods (Deployments, ReplicaSets, StatefulSets, Jobs, CronJobs:
/// their templates times replicas or parallelism; DaemonSets count on every node), NodePools,
/// PriorityClasses and all else that decides where pods go. Without a NodePool, one is assumed
/// that allows everything. Nothing is created anywhere, and a cluster is only read.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("input").args(["files", "nodes", "kubeconfig"])
    .required(true).multiple(true)))]
pub struct Args {
    /// Manifests: YAML or JSON files, folders of them, or - for stdin. May be repeated.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Nodes that are there and the pods on them, as `kubectl get nodes,pods -A -o yaml` prints
    /// them. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub nodes: Vec<PathBuf>,

    /// Read nodes, pods, NodePools and DaemonSets from the cluster of this kubeconfig.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Which context of the kubeconfig; its current one if not given.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,

    #[command(flatten)]
    pub market: Market,

    #[command(flatten)]
    pub planner: Planner,

    /// How to print the plan.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

const EXAMPLES: &str = "\
Examples:
  Nodes and price for a Deployment, with prices of Virginia:
      aerostat plan -f app.yaml --region us-east-1

  With your NodePools, and what is running already:
      kubectl get nodes,pods -A -o yaml > nodes.yaml
      aerostat plan -f app.yaml -f pools.yaml --nodes nodes.yaml

  What the pending pods of a cluster need, and one application more:
      aerostat plan --kubeconfig ~/.kube/config -f app.yaml

  For scripts: the price per hour of what Helm renders:
      helm template app/ | aerostat plan -f - -o json | jq .totalPricePerHour

The JSON is a stable interface; its schema is docs/plan.schema.json. The exit code is 0 whenever
there is a plan, even if some pods are unschedulable, and 1 if the input has a fault.";

/// How to print the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Tables for people.
    Table,
    /// One JSON object.
    Json,
}
