//! `aerostat node`: somebody wants a node replaced, or repaired.
//!
//! The command sets an annotation on the node's NodeClaim, the controllers do the rest; then it
//! watches and tells how far they have come.

mod progress;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use aerostat_api::{NodeClaim, labels};
use aerostat_clock::Clock;
use anyhow::{Context, bail};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::live;
use progress::{Progress, Sight};

/// How often it is looked how far they have come.
const LOOK: Duration = Duration::from_millis(500);

/// Replace or repair a node.
///
/// Both work on nodes that have a NodeClaim, in any cluster whose controllers are Aerostat's.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Order a machine in its place, drain it when that is up, end it.
    ///
    /// Budgets do not hold it; PodDisruptionBudgets and karpenter.sh/do-not-disrupt do, as long as
    /// the NodePool gives it no terminationGracePeriod. Until the drain begins it can be called off:
    /// take the annotation aerostat.dev/replace off its NodeClaim.
    Replace(Target),
    /// Give it up now because it is ill; its pods get no grace.
    ///
    /// What the controllers do by themselves when a node has been NotReady for 30 minutes, without
    /// the wait, and however many others are ill. Places for its pods are ordered at once.
    Repair(Target),
}

#[derive(Debug, clap::Args)]
struct Target {
    /// The node, or its NodeClaim.
    #[arg(value_name = "NAME")]
    name: String,

    /// Return at once, do not wait until it has gone.
    #[arg(long)]
    no_wait: bool,

    /// How long to wait, `90s` or `10m`.
    #[arg(long, default_value = "15m", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,

    /// How to reach the cluster; $KUBECONFIG, ~/.aerostat/kubeconfig or ~/.kube/config if not given.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Which context of the kubeconfig; its current one if not given.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  A new machine for a node that behaves oddly, without a gap:
      aerostat node replace i-0cf8dde57d56b93e7

  A node that is dead, and half an hour is too long to wait:
      aerostat node repair i-0cf8dde57d56b93e7

  Why it is still there:
      aerostat explain node/i-0cf8dde57d56b93e7";

fn duration(text: &str) -> Result<Duration, String> {
    aerostat_api::Duration::parse(text).map(|duration| duration.0)
}

/// Asks for it, and tells how it goes.
///
/// # Errors
///
/// If there is no such node, it has no NodeClaim, or it is still there after the time.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be built")?;
    match &args.verb {
        Verb::Replace(target) => runtime.block_on(ask(target, labels::REPLACE, "replaced"))?,
        Verb::Repair(target) => runtime.block_on(ask(target, labels::REPAIR, "repaired"))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(target: &Target, annotation: &str, done: &str) -> anyhow::Result<()> {
    let client = live::client(target.kubeconfig.as_deref(), target.context.as_deref()).await?;
    let claim = claim_of(&client, &target.name).await?;
    let claims = Api::<NodeClaim>::all(client.clone());
    let name = claim.name_any();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: "true"}}}));
    claims
        .patch(&name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("NodeClaim {name} cannot be annotated"))?;
    println!("node {} is to be {done}; its NodeClaim is {name}", target.name);
    if target.no_wait {
        return Ok(());
    }
    follow(&client, target, &claim).await
}

/// The claim of a node, or of that name.
async fn claim_of(client: &Client, name: &str) -> anyhow::Result<NodeClaim> {
    let claims = Api::<NodeClaim>::all(client.clone());
    let list = claims.list(&ListParams::default()).await.context("NodeClaims cannot be listed")?;
    let nodes = Api::<Node>::all(client.clone());
    let node = nodes.get_opt(name).await.with_context(|| format!("node {name} cannot be read"))?;
    let id = node.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.clone());
    let is_meant = |claim: &&NodeClaim| match &node {
        Some(_) => id.is_some() && claim.status.as_ref().is_some_and(|s| s.provider_id == id),
        None => claim.name_any() == name,
    };
    match (list.items.iter().find(is_meant), &node) {
        (Some(claim), _) => Ok(claim.clone()),
        (None, Some(_)) => bail!("node {name} has no NodeClaim: Aerostat leaves it alone"),
        (None, None) => bail!("there is no node {name}, and no NodeClaim of that name"),
    }
}

/// Tells what becomes of a claim until it has gone.
async fn follow(client: &Client, target: &Target, claim: &NodeClaim) -> anyhow::Result<()> {
    let clock = Clock::real();
    let wait = SignedDuration::try_from(target.timeout).unwrap_or(SignedDuration::MAX);
    let deadline = clock.now().checked_add(wait).unwrap_or(jiff::Timestamp::MAX);
    let mut progress = Progress::default();
    loop {
        let sight = look(client, claim).await?;
        progress.see(&sight).iter().for_each(|line| println!("{line}"));
        if sight.claim.is_none() {
            return Ok(());
        }
        if clock.now() >= deadline {
            let wait = jiff::fmt::friendly::SpanPrinter::new().duration_to_string(&wait);
            let why = sight.stays.map_or_else(String::new, |why| format!(": {why}"));
            bail!("node {} is still there after {wait}{why}", target.name);
        }
        clock.sleep(LOOK).await;
    }
}

async fn look(client: &Client, claim: &NodeClaim) -> anyhow::Result<Sight> {
    let claims = Api::<NodeClaim>::all(client.clone());
    let list = claims.list(&ListParams::default()).await.context("NodeClaims cannot be listed")?;
    let node = claim.status.as_ref().and_then(|status| status.node_name.clone());
    let stays = match node {
        Some(node) => stays(client, &node).await,
        None => None,
    };
    Ok(Sight::of(claim, list.items, stays))
}

/// Why a node stays, if an `aerostat up` is there to say it.
async fn stays(client: &Client, node: &str) -> Option<String> {
    let request = http::Request::get(format!("/aerostat/v1/nodes/{node}")).body(Vec::new()).ok()?;
    let document: Value = client.request(request).await.ok()?;
    (document["outcome"] == "kept").then(|| document["reason"].as_str().map(str::to_owned))?
}
