//! `aerostat plan`: what nodes pods would get.
//!
//! ```text
//! files ──> cluster (admission, defaults) ──> index ──> snapshot ──> engine::plan ──> outcome
//! nodes, kubeconfig ───────────────────────────^                                     (table, JSON)
//! ```
//!
//! Objects go the same way as in a running Aerostat; only nothing runs.

mod args;
mod daemons;
mod input;
mod outcome;
mod table;
mod volumes;
mod workload;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use aerostat_api::ClassKind;
use aerostat_clock::{Clock, Seeds};
use aerostat_cluster::http;
use aerostat_controllers::snapshot::{self, Memory};
use aerostat_controllers::{Context as Controllers, index::Index};
use aerostat_engine::pod::{Pod, PodKey};
use aerostat_provider::catalog::Flavor;
use aerostat_provider::sim::{SimCloud, Stock, Timings};
use aerostat_sim::manifest::Manifest;
use anyhow::{Context, bail};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};

use crate::live;
use args::Output;
use input::Input;
use outcome::Outcome;

pub use args::Args;

/// Plans and prints the plan.
///
/// # Errors
///
/// If a file has a fault, the cluster does not answer, or there is no such region.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be built")?;
    let outcome = runtime.block_on(plan(args))?;
    let text = match args.output {
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&outcome)?),
        Output::Table => table::render(&outcome),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints to stdout; a reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

async fn plan(args: &Args) -> anyhow::Result<Outcome> {
    let region = args.market.region(Flavor::AutoMode)?;
    let clock = Clock::scaled(1.0);
    let now = clock.now();
    let mut input = Input::new(clock)?;
    let read = |files: &[PathBuf]| -> anyhow::Result<Vec<Manifest>> {
        let read: anyhow::Result<Vec<_>> = files.iter().map(|file| input::read(file)).collect();
        Ok(read?.into_iter().flatten().collect())
    };
    input.add_state(read(&args.nodes)?)?;
    input.add(read(&args.files)?)?;

    let mut index = Index::default();
    if let Some(kubeconfig) = &args.kubeconfig {
        let live = live::client(Some(kubeconfig), args.context.as_deref()).await?;
        index
            .read(&live, &ClassKind::AUTO_MODE, now)
            .await
            .context("the cluster cannot be read")?;
    }
    input.settle_pools(index.pools.names().next().is_some())?;
    let client = Client::new(http::Service::new(input.cluster.clone()), "default");
    index
        .read(&client, &ClassKind::AUTO_MODE, now)
        .await
        .context("the objects of the files cannot be read back")?;
    for set in daemons::of(&input.running) {
        let name = format!("{}/{}", set.namespace().unwrap_or_default(), set.name_any());
        if index.daemon_sets.get(&name).is_none() {
            index.daemon_sets.apply(Event::Apply(set), |_, _, _| ());
        }
    }
    index.add(input.claims, input.nodes, input.running, now);
    join(&mut index, input.pods)?;
    for pod in index.pods.values_mut().filter(|pod| pod.node.is_none()) {
        *pod = input::waits(pod);
    }
    let pods: Vec<Arc<Pod>> = index.pods.values().filter(|pod| is_planned(pod)).cloned().collect();

    let (seeds, timings, stock) = (Seeds::new(0), Timings::default(), Stock::default());
    let cloud = SimCloud::new(region, clock, seeds, timings, stock, client.clone());
    let settings = args.planner.settings();
    let context = Controllers::new(client, clock, Arc::new(cloud), settings, None);
    *context.index() = index;
    let snapshot = snapshot::take(&context, &mut Memory::default());
    let (plan, report) = aerostat_engine::plan(&snapshot, now);
    Ok(Outcome::new(&plan, &report, &pods))
}

/// Adds pods to those that are there.
fn join(index: &mut Index, pods: Vec<Arc<Pod>>) -> anyhow::Result<()> {
    let mut known = 0;
    let there: BTreeSet<PodKey> = index.pods.keys().cloned().collect();
    for pod in pods {
        let key = (pod.namespace.clone(), pod.name.clone());
        if there.contains(&key) {
            known += 1;
        } else if let Some(other) = index.pods.insert(key, pod) {
            bail!(
                "two pods of the files are called {}/{}: give one of them, or what makes it, \
                 another name",
                other.namespace,
                other.name
            );
        }
    }
    if known > 0 {
        eprintln!("notice: {known} pods of the files are there already, and are not added again");
    }
    Ok(())
}

/// Whether somebody asks where a pod goes: daemons and static pods go where their node is.
fn is_planned(pod: &Pod) -> bool {
    let goes_by_itself =
        pod.owner.as_ref().is_some_and(|owner| matches!(&*owner.kind, "DaemonSet" | "Node"));
    pod.node.is_none() && !goes_by_itself
}
