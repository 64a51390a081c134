//! `aerostat explain`: why a pod is where it is, or why a node stays, as a running Aerostat tells it.

mod node;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::live;

/// Tell what Aerostat decided about a pod or a node, and why.
///
/// Where the pod goes and what it costs; or, for each NodePool, what eliminated it. Why a node
/// stays: which pod, which budget, or that nothing cheaper would do. A running `aerostat up` is
/// asked.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The pod or node: `pod/NAME` or `node/NAME`.
    #[arg(value_name = "pod/NAME|node/NAME")]
    pub object: String,

    /// The pod's namespace.
    #[arg(short, long, default_value = "default", value_name = "NAMESPACE")]
    pub namespace: String,

    /// How to reach it; $KUBECONFIG, ~/.aerostat/kubeconfig or ~/.kube/config if not given.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Which context of the kubeconfig; its current one if not given.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// How to tell it.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

const EXAMPLES: &str = "\
Examples:
  A pod that has no node:
      aerostat explain pod/pi-7zvgk

  Why a node is not given up:
      aerostat explain node/i-0cf8dde57d56b93e7

  As JSON, from the cluster of a certain kubeconfig:
      aerostat explain pod/web-0 -n shop --kubeconfig ~/.aerostat/kubeconfig -o json

For pods that are not in a cluster yet, see aerostat plan.";

/// How to tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Sentences.
    Text,
    /// One JSON object.
    Json,
}

/// Asks and tells.
///
/// # Errors
///
/// If nobody answers, or there is no such pod.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (kind, name) = match args.object.split_once('/') {
        Some(("pod" | "pods" | "po", name)) if !name.is_empty() => ("pod", name),
        Some(("node" | "nodes" | "no", name)) if !name.is_empty() => ("node", name),
        _ => bail!("{:?} is no pod or node: write pod/NAME or node/NAME", args.object),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be built")?;
    let document = runtime.block_on(ask(args, kind, name))?;
    match args.output {
        Output::Json => println!("{document:#}"),
        Output::Text if kind == "node" => print!("{}", node::render(&document)),
        Output::Text => print!("{}", text::render(&document)),
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(args: &Args, kind: &str, name: &str) -> anyhow::Result<Value> {
    let client = live::client(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let (path, place) = match kind {
        "node" => (format!("/aerostat/v1/nodes/{name}"), String::new()),
        _ => (
            format!("/aerostat/v1/namespaces/{}/pods/{name}", args.namespace),
            format!(" in namespace {}", args.namespace),
        ),
    };
    let request = http::Request::get(path)
        .body(Vec::new())
        .with_context(|| format!("this is no name of a {kind}"))?;
    match client.request::<Value>(request).await {
        Ok(document) => Ok(document),
        Err(kube::Error::Api(status)) if status.reason == "NotFound" => {
            bail!("there is no {kind} {name}{place}")
        }
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "the cluster answers, but no Aerostat does: reports are served by `aerostat up` only; \
             `aerostat controller`, for other clusters, does not exist yet"
        ),
        Err(error) => Err(error).context("the cluster does not answer"),
    }
}
