//! Another autoscaler on the embedded cluster: the real Karpenter with its KWOK provider, which
//! `AEROSTAT_KARPENTER` names (`cargo xtask test` builds it where there is Go).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aerostat_clock::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use libtest_mimic::{Arguments, Failed, Trial};

/// How long anything may take: far more than it needs.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often to look.
const POLL: Duration = Duration::from_millis(200);

fn main() {
    let arguments = Arguments::from_args();
    let karpenter = std::env::var_os("AEROSTAT_KARPENTER").filter(|path| !path.is_empty());
    let mut trials = Vec::new();
    match karpenter.map(PathBuf::from) {
        Some(karpenter) => trials.push(Trial::test("the_real_karpenter_orders_nodes", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(orders_nodes(&karpenter))
        })),
        None => println!(
            "skipped: the_real_karpenter_orders_nodes (AEROSTAT_KARPENTER names no karpenter-kwok)"
        ),
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// A process that does not outlive its handle.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn orders_nodes(karpenter: &Path) -> Result<(), Failed> {
    let folder = tempfile::TempDir::new()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/karpenter-e2e/web.yaml");
    let mut up = Command::new(env!("CARGO_BIN_EXE_aerostat"));
    up.args(["up", "--provider", "kwok", "--no-controllers", "--port", "0", "-o", "json"]);
    up.arg("--kubeconfig").arg(&kubeconfig).arg(manifest);
    up.stdin(Stdio::null()).stdout(File::create(folder.path().join("story"))?);
    let _up = Owned(up.stderr(File::create(folder.path().join("errors"))?).spawn()?);
    wait_for("the cluster", async || kubeconfig.is_file().then_some(())).await?;
    let options = KubeConfigOptions::default();
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(&kubeconfig)?, &options).await?;
    let client = Client::try_from(config)?;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    wait_for("the Deployment", async || deployments.get("web").await.ok()).await?;

    let log = folder.path().join("karpenter.log");
    let output = File::create(&log)?;
    let mut karpenter = Command::new(karpenter);
    karpenter.env_clear().env("KUBECONFIG", &kubeconfig).envs([
        ("KUBERNETES_MIN_VERSION", "1.19.0-0"),
        ("KARPENTER_SERVICE", "karpenter"),
        ("SYSTEM_NAMESPACE", "kube-system"),
        ("DISABLE_LEADER_ELECTION", "true"),
        // Any free port.
        ("METRICS_PORT", "0"),
        ("HEALTH_PROBE_PORT", "0"),
        ("MEMORY_LIMIT", "1073741824"),
        ("CPU_REQUESTS", "1000"),
        ("FEATURE_GATES", "StaticCapacity=true,SpotToSpotConsolidation=false,NodeRepair=true"),
    ]);
    karpenter.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let _karpenter = Owned(karpenter.spawn()?);
    let ordered = comes_and_goes(&client).await;
    ordered.map_err(|failed| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(30).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        format!(
            "{}\nwhat Karpenter said last:\n{}",
            failed.message().unwrap_or_default(),
            last.join("\n")
        )
        .into()
    })
}

/// Nodes come for the pods, each for one, by Karpenter's hand; and go with their claims.
async fn comes_and_goes(client: &Client) -> Result<(), Failed> {
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    wait_for("three pods that run", async || {
        let web = deployments.get("web").await.ok()?;
        (web.status?.ready_replicas? == 3).then_some(())
    })
    .await?;
    let nodes = Api::<Node>::all(client.clone());
    let all = nodes.list(&ListParams::default()).await?.items;
    let pool = |node: &Node| node.labels().get("karpenter.sh/nodepool").cloned();
    let ours = all.iter().filter(|node| pool(node).as_deref() == Some("default")).count();
    if (all.len(), ours) != (3, 3) {
        return Err(format!("{} nodes, {ours} of the pool", all.len()).into());
    }
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let pods = pods.list(&ListParams::default()).await?.items;
    if let Some(pod) =
        pods.iter().find(|pod| pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()))
    {
        return Err(format!("{} has no node", pod.name_any()).into());
    }
    let events = Api::<Event>::all(client.clone()).list(&ListParams::default()).await?.items;
    let by_karpenter = |event: &&Event| {
        let source = event.source.as_ref().and_then(|source| source.component.as_deref());
        source == Some("karpenter") || event.reporting_component.as_deref() == Some("karpenter")
    };
    if !events.iter().any(|event| by_karpenter(&event)) {
        return Err("no event is Karpenter's".into());
    }
    deployments.delete("web", &DeleteParams::foreground()).await?;
    wait_for("the Deployment's end", async || {
        deployments.get_opt("web").await.ok()?.is_none().then_some(())
    })
    .await?;
    for node in &all {
        nodes.delete(&node.name_any(), &DeleteParams::default()).await?;
    }
    wait_for("the nodes' end", async || {
        nodes.list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
    })
    .await
}

/// Looks again and again until there is something.
async fn wait_for<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> Result<T, Failed> {
    let mut left = PATIENCE;
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        if left.is_zero() {
            return Err(format!("{what} has not come within {} s", PATIENCE.as_secs()).into());
        }
        Clock::real().sleep(POLL).await;
        left = left.saturating_sub(POLL);
    }
}
