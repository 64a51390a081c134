use std::sync::Arc;
use std::time::Duration;

use aerostat_clock::{Clock, Seeds};
use jiff::Timestamp;
use k8s_openapi::Metadata as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod, PodStatus};
use serde_json::{Value, json};

use super::{Settings, run};
use crate::registry::{Cluster, DeleteOptions, Options};

mod kwok;
mod lifecycle;
mod nodes;
mod scale;
mod story;

const START: &str = "2025-01-06T07:51:22Z";

/// A cluster in virtual time with running kubelets.
fn cluster_with(settings: Settings) -> Cluster {
    let clock = Clock::simulated(START.parse().unwrap());
    let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(1) });
    crate::bootstrap::run(&cluster, "").unwrap();
    tokio::spawn(run(cluster.clone(), Arc::new(settings)));
    cluster
}

fn cluster() -> Cluster {
    cluster_with(Settings::default())
}

async fn wait(cluster: &Cluster, seconds: f64) {
    cluster.clock().sleep(Duration::from_secs_f64(seconds)).await;
}

/// A machine that has booted: a c5a.large as the simulated provider registers it.
fn boot(cluster: &Cluster, name: &str, ip: &str) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {"sim.aerostat.dev/kubelet": "true"}},
    }))
    .unwrap();
    cluster.create("", &node).unwrap();
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": ip}],
        "allocatable": {"cpu": "1930m", "memory": "3114Mi", "pods": "29"},
        "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
    });
    let status = serde_json::from_value(status).unwrap();
    cluster
        .modify_status::<Node>("", name, |node| node.status = Some(Clone::clone(&status)))
        .unwrap();
}

/// A node whose network is ready.
async fn ready_node(cluster: &Cluster) {
    boot(cluster, "n1", "10.0.101.4");
    wait(cluster, 20.0).await;
}

/// Creates a pod that is bound to `n1`.
fn bind(cluster: &Cluster, name: &str, annotations: Value, mut spec: Value) {
    spec["nodeName"] = "n1".into();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }))
    .unwrap();
    cluster.create("default", &pod).unwrap();
}

fn pi() -> Value {
    json!({"restartPolicy": "Never", "containers": [{
        "name": "pi",
        "image": "perl:5.34.0",
        "command": ["perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"],
        "resources": {"requests": {"cpu": "500m", "memory": "1000Mi"}},
    }]})
}

fn status(cluster: &Cluster, pod: &str) -> PodStatus {
    cluster.get::<Pod>("default", pod).unwrap().status.clone().unwrap()
}

fn status_json(cluster: &Cluster, pod: &str) -> Value {
    serde_json::to_value(status(cluster, pod)).unwrap()
}

fn phase(cluster: &Cluster, pod: &str) -> Option<String> {
    cluster.get::<Pod>("default", pod)?.status.as_ref()?.phase.clone()
}

/// Type, status and reason of each condition.
fn conditions(cluster: &Cluster, pod: &str) -> Vec<String> {
    let conditions = status(cluster, pod).conditions.unwrap_or_default();
    let line = |c: &k8s_openapi::api::core::v1::PodCondition| {
        format!("{} {} {}", c.type_, c.status, c.reason.as_deref().unwrap_or_default())
    };
    conditions.iter().map(|c| line(c).trim_end().to_owned()).collect()
}

/// The events about an object since `from`: seconds, reason, message and count.
fn events_since(cluster: &Cluster, object: &str, from: Timestamp) -> Vec<String> {
    let mut events: Vec<(i128, String)> = cluster
        .list::<Event>("default")
        .iter()
        .filter(|event| event.involved_object.name.as_deref() == Some(object))
        .map(|event| {
            // The name ends with the exact time.
            let name = event.metadata().name.as_deref().unwrap();
            let nanos = i128::from_str_radix(name.rsplit('.').next().unwrap(), 16).unwrap();
            let offset = (nanos - from.as_nanosecond()) as f64 / 1e9;
            let count = match event.count {
                Some(count) if count > 1 => format!(" x{count}"),
                _ => String::new(),
            };
            let (reason, message) = (event.reason.as_deref(), event.message.as_deref());
            let line = format!("{offset:.1} {}: {}{count}", reason.unwrap(), message.unwrap());
            (nanos, line)
        })
        .collect();
    events.sort();
    events.into_iter().map(|(_, line)| line).collect()
}
