//! `aerostat record`: what users ask of a cluster, as a trace for `aerostat simulate`.

use std::path::PathBuf;
use std::process::ExitCode;

use aerostat_clock::Clock;
use aerostat_sim::span::Span;
use aerostat_sim::traces::record::Recorder;
use anyhow::Context;
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::live;
use crate::local::interrupted;

/// Record what users ask of a cluster, as a trace that `aerostat simulate` can play.
///
/// Only reads, and for nothing but workloads, pods, priority classes, disruption budgets and
/// NodePools. Names, labels, images, commands and everything else that would tell whose cluster it
/// is are made up or left out, unless --keep-names is given; values of environment variables are
/// left out always. The trace has SimKube's form.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The trace: JSON if its name ends in .json, else MessagePack.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// For how long, `1h` or `7d` for example; until Ctrl-C if not given. 0s records what is there.
    #[arg(long = "for", value_name = "LENGTH")]
    pub length: Option<Span>,

    /// Keep names, labels, images and commands as they are.
    #[arg(long)]
    pub keep_names: bool,

    /// The cluster's kubeconfig; as kubectl finds it, or that of `aerostat up`, if not given.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Which of the kubeconfig's contexts.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  A day of your cluster, and what it would have cost on machines that Aerostat buys:
      aerostat record --for 24h -o day.sktrace
      echo '{traces: [day.sktrace], until: 24h}' > day.yaml
      aerostat simulate day.yaml

  What is there now:
      aerostat record --for 0s -o now.json";

/// What is watched: group, version, kind and plural.
const WATCHED: [(&str, &str, &str, &str); 8] = [
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
    ("karpenter.sh", "v1", "NodePool", "nodepools"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("batch", "v1", "Job", "jobs"),
    ("", "v1", "Pod", "pods"),
];

type Changes = SelectAll<BoxStream<'static, watcher::Result<Event<DynamicObject>>>>;

/// Records, and writes the trace.
///
/// # Errors
///
/// If the cluster cannot be reached or read, or the file cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be built")?;
    runtime.block_on(record(args))
}

async fn record(args: &Args) -> anyhow::Result<ExitCode> {
    let client = live::client(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let clock = Clock::real();
    let start = clock.now();
    let mut recorder = Recorder::new(start);
    let (mut changes, mut missing) = follow(&client).await?;
    let over = async {
        match args.length {
            Some(length) => clock.sleep(length.0).await,
            None => std::future::pending().await,
        }
    };
    let mut over = std::pin::pin!(over);
    let mut ending = std::pin::pin!(interrupted());
    let mut is_over = false;
    while !is_over || missing > 0 {
        tokio::select! {
            biased;
            () = &mut ending => break,
            change = changes.next() => {
                let Some(change) = change else { break };
                match change.context("the cluster cannot be watched")? {
                    // What is there from the beginning came at the beginning.
                    Event::InitApply(object) => recorder.applied(&plain(&object)?, start),
                    Event::Apply(object) => recorder.applied(&plain(&object)?, clock.now()),
                    Event::Delete(object) => recorder.deleted(&plain(&object)?, clock.now()),
                    Event::InitDone => missing = missing.saturating_sub(1),
                    Event::Init => {}
                }
            }
            () = &mut over, if !is_over => is_over = true,
        }
    }
    let objects = recorder.objects();
    recorder.finish(args.keep_names).write(&args.output)?;
    let seconds = clock.now().duration_since(start).as_secs();
    let shown = args.output.display();
    eprintln!("{shown}: {objects} objects at the end of {seconds} s. For a scenario:");
    eprintln!("{{traces: [{shown}], until: {}s}}", seconds.max(60));
    Ok(ExitCode::SUCCESS)
}

/// Watches everything that the cluster serves; how many lists are still to come.
async fn follow(client: &Client) -> anyhow::Result<(Changes, usize)> {
    let mut changes = SelectAll::new();
    for (group, version, kind, plural) in WATCHED {
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        match api.list(&ListParams::default().limit(1)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                eprintln!("notice: the cluster has no {plural}");
                continue;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{plural} cannot be read"));
            }
        }
        let types = (resource.api_version.clone(), resource.kind.clone());
        let stream = watch(api, watcher::Config::default()).default_backoff();
        // Lists do not say of their items what they are.
        let typed = stream.map_ok(move |event| {
            event.modify(|object| {
                object.types = Some(kube::api::TypeMeta {
                    api_version: types.0.clone(),
                    kind: types.1.clone(),
                });
            })
        });
        changes.push(typed.boxed());
    }
    let count = changes.len();
    Ok((changes, count))
}

fn plain(object: &DynamicObject) -> anyhow::Result<Value> {
    serde_json::to_value(object).with_context(|| format!("{} cannot be read", object.name_any()))
}
