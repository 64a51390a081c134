//! From pods to claims, in process: the same world as `aerostat up`, on the real clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aerostat_clock::Clock;
use aerostat_cluster::Cluster;
use aerostat_cluster::registry::WriteOptions;
use aerostat_cluster::store::{Event, EventKind, Object};
use aerostat_controllers::Decision;
use aerostat_provider::catalog::Catalog;
use aerostat_sim::{Config, World, WorldOptions};
use anyhow::{Context, bail};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout};

use crate::pods;
use crate::report::{Goal, Row, Table, percentile};

/// Whatever takes longer than this will not come.
const PATIENCE: Duration = Duration::from_secs(120);

/// 200 pods, one after the other, each of which needs a node of its own.
pub fn single_pods(table: &mut Table) -> anyhow::Result<()> {
    let mut times = on_two_cores(async {
        let world = world(Clock::real())?;
        let mut claims = claims(&world.cluster);
        settle(&world.cluster).await?;
        let mut times = Vec::new();
        for number in 0..200 {
            let pod = pods::pod(&format!("single-{number}"), 1500, 2048);
            let begun = Instant::now();
            create(&world.cluster, "", "pods", pod)?;
            // Earlier claims are still being launched: their changes come in between.
            while timeout(PATIENCE, claims.recv()).await?.context("the store is gone")?.kind
                != EventKind::Added
            {}
            times.push(begun.elapsed());
            Clock::real().sleep(Duration::from_millis(20)).await;
        }
        Ok(times)
    })?;
    let median = percentile(&mut times, 50);
    let note = format!("p50 {:.1} ms, 200 pods", median.as_secs_f64() * 1e3);
    let slowest = percentile(&mut times, 99);
    let row = Row::time("pod created → NodeClaim exists, p99", slowest, Goal::AtMost(50.0));
    table.add(row.note(note));
    Ok(())
}

/// A Deployment of 500 replicas gets the nodes that 500 pods get which are there at once.
pub fn burst(table: &mut Table) -> anyhow::Result<()> {
    const REPLICAS: u32 = 500;
    let (took, burst) = on_two_cores(async {
        let world = world(Clock::real())?;
        settle(&world.cluster).await?;
        let begun = Instant::now();
        let deployment = pods::deployment("burst", REPLICAS, 500, 900);
        create(&world.cluster, "apps", "deployments", deployment)?;
        let last = launched(&world.cluster).await?;
        Ok((last - begun, types(&world.cluster)))
    })?;
    let at_once = in_virtual_time(async {
        let world = world(Clock::simulated(jiff::Timestamp::UNIX_EPOCH))?;
        // Nothing runs before the first await: the first plan sees all of them.
        for number in 0..REPLICAS {
            create(&world.cluster, "", "pods", pods::pod(&format!("burst-{number}"), 500, 900))?;
        }
        launched(&world.cluster).await?;
        Ok(types(&world.cluster))
    })?;
    if burst != at_once {
        bail!("a burst gets {burst:?}, the same pods at once get {at_once:?}");
    }
    let nodes: Vec<String> =
        burst.iter().map(|(name, count)| format!("{count} × {name}")).collect();
    let metric = "Deployment of 500 → last claim written";
    let note = format!("{}: the same as for 500 pods at once", nodes.join(", "));
    table.add(Row::time(metric, took, Goal::None).note(note));
    Ok(())
}

/// 10,000 pods of many sizes.
pub fn ten_thousand(table: &mut Table) -> anyhow::Result<()> {
    const PODS: usize = 10_000;
    let (first, last, claims) = on_two_cores(async {
        let mut world = world(Clock::real())?;
        let mut decisions = world.decisions().context("nobody else takes them")?;
        settle(&world.cluster).await?;
        let begun = Instant::now();
        for number in 0..PODS {
            create(&world.cluster, "", "pods", pods::mixed(number))?;
            tokio::task::consume_budget().await;
        }
        let created = Instant::now();
        planned(&mut decisions, PODS).await?;
        let claims = world.cluster.store().list(&node_claims(), "").0.len();
        Ok((begun.elapsed(), created.elapsed(), claims))
    })?;
    let metric = "10,000 pods pending → all claims written";
    let note = format!(
        "from the last pod created; {:.2} s from the first; {claims} claims; {}",
        first.as_secs_f64(),
        table.in_parses(last)
    );
    table.add(Row::time(metric, last, Goal::AtMost(1000.0)).note(note));
    Ok(())
}

/// Waits until `count` pods have been given a claim or a node.
async fn planned(decisions: &mut UnboundedReceiver<Decision>, count: usize) -> anyhow::Result<()> {
    let mut placed = BTreeSet::new();
    while placed.len() < count {
        let decision = timeout(PATIENCE, decisions.recv()).await;
        let why = || format!("only {} of {count} pods were planned", placed.len());
        let decision = decision.with_context(why)?.context("the planner is gone")?;
        for (launch, claim) in decision.plan.launches.iter().zip(&decision.claims) {
            if claim.is_some() {
                placed.extend(launch.pods.iter().cloned());
            }
        }
        placed.extend(decision.plan.nominations.into_iter().map(|nomination| nomination.pod));
    }
    Ok(())
}

/// Runs on as many threads as `aerostat up` does.
fn on_two_cores<T: Send + 'static>(
    measurement: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async { tokio::spawn(measurement).await? })
}

/// Runs with a clock that goes on by itself whenever nothing is left to do.
fn in_virtual_time<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(measurement)
}

fn world(clock: Clock) -> anyhow::Result<World> {
    let options = WorldOptions {
        clock,
        seed: 1,
        region: Catalog::embedded().region("ap-northeast-1")?,
        config: Config::default(),
        settings: aerostat_engine::snapshot::Settings::default(),
        ca: "(no certificate: nothing listens)\n".to_owned(),
    };
    Ok(World::start(options)?)
}

fn create(cluster: &Cluster, group: &str, plural: &str, value: Value) -> anyhow::Result<()> {
    let kind = cluster.kind(group, plural).context("the kind is served")?;
    cluster.create_object(&kind, "default", value, WriteOptions::default())?;
    Ok(())
}

fn node_claims() -> (String, String) {
    ("karpenter.sh".to_owned(), "nodeclaims".to_owned())
}

fn claims(cluster: &Cluster) -> UnboundedReceiver<Arc<Event>> {
    cluster.store().subscribe(&node_claims())
}

/// Waits until the pools are ready and nothing is written any more.
async fn settle(cluster: &Cluster) -> anyhow::Result<()> {
    let mut revision = 0;
    let mut quiet = 0;
    for _ in 0..100 {
        Clock::real().sleep(Duration::from_millis(50)).await;
        let now = cluster.store().revision();
        quiet = if now == revision { quiet + 1 } else { 0 };
        if quiet == 10 {
            return Ok(());
        }
        revision = now;
    }
    bail!("the new cluster does not come to rest")
}

/// Waits until no claim has come for a second and all have their machine; when the last came.
async fn launched(cluster: &Cluster) -> anyhow::Result<Instant> {
    let mut events = claims(cluster);
    let mut last = None;
    loop {
        match timeout(Duration::from_secs(1), events.recv()).await {
            Ok(event) => {
                if event.context("the store is gone")?.kind == EventKind::Added {
                    last = Some(Instant::now());
                }
            }
            Err(_) if cluster_types(cluster).all(|name| !name.is_empty()) => {
                if let Some(last) = last {
                    return Ok(last);
                }
            }
            Err(_) => {}
        }
    }
}

fn cluster_types(cluster: &Cluster) -> impl Iterator<Item = String> {
    let label = |claim: Arc<Object>| {
        let labels = &claim.value["metadata"]["labels"];
        labels["node.kubernetes.io/instance-type"].as_str().unwrap_or_default().to_owned()
    };
    cluster.store().list(&node_claims(), "").0.into_iter().map(label)
}

/// How many claims became which instance type.
fn types(cluster: &Cluster) -> BTreeMap<String, u32> {
    let mut types = BTreeMap::new();
    for name in cluster_types(cluster) {
        *types.entry(name).or_insert(0) += 1;
    }
    types
}
