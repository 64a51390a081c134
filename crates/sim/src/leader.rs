//! What clients of Karpenter go by to find it: the lease of the controllers that lead, and their
//! pod, through which the API server proxies to their metrics.
//!
//! The pod is a stand-in for this process: it has no node and no container runs. Source of the
//! names: kubernetes-sigs/karpenter `pkg/operator/operator.go`, `kwok/charts/`.

use aerostat_cluster::registry::Typed;
use aerostat_cluster::{Cluster, Status};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// Where Karpenter lives.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The pod's name.
pub(crate) const POD: &str = "karpenter";
/// The port that metrics are served on.
pub(crate) const METRICS: &str = "8080";
const LEASE: &str = "karpenter-leader-election";

/// Creates lease and pod; those that are there stay as they are.
///
/// # Errors
///
/// If the cluster refuses one: a fault of this program.
pub(crate) fn announce(cluster: &Cluster) -> Result<(), Status> {
    let lease = json!({
        "metadata": {"name": LEASE},
        "spec": {"holderIdentity": format!("{POD}_aerostat"), "leaseTransitions": 0},
    });
    ensure::<Lease>(cluster, lease)?;
    // The gate keeps the scheduler off it, and the planner.
    let pod = json!({
        "metadata": {"name": POD, "labels": {"app.kubernetes.io/instance": POD}},
        "spec": {
            "schedulingGates": [{"name": "aerostat.dev/outside-the-cluster"}],
            "containers": [{
                "name": "controller",
                "image": "aerostat",
                "ports": [{"containerPort": 8080}],
            }],
        },
    });
    ensure::<Pod>(cluster, pod)
}

fn ensure<K: Typed>(cluster: &Cluster, object: serde_json::Value) -> Result<(), Status> {
    let object: K = serde_json::from_value(object)
        .map_err(|error| Status::new(500, "InternalError", error.to_string()))?;
    match cluster.create(NAMESPACE, &object) {
        Err(status) if status.reason != "AlreadyExists" => Err(status),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aerostat_clock::Clock;
    use aerostat_engine::snapshot::Settings;
    use aerostat_provider::catalog::{Catalog, Flavor};
    use http_body_util::{BodyExt, Full};
    use kube::Api;
    use tower::ServiceExt;

    use super::*;
    use crate::{Config, World, WorldOptions};

    #[tokio::test(start_paused = true)]
    async fn clients_find_the_controllers_and_their_metrics() {
        let options = WorldOptions {
            clock: Clock::simulated("2025-01-06T08:00:00Z".parse().unwrap()),
            seed: 1,
            region: Catalog::kwok(None).unwrap().region("test-zone").unwrap(),
            config: Config::of(Flavor::Kwok),
            ca: String::new(),
            settings: Settings::default(),
        };
        let world = World::start(options).unwrap();
        world.announce_controllers().unwrap();
        // Twice is no mistake.
        world.announce_controllers().unwrap();
        let lease = Api::<Lease>::namespaced(world.client.clone(), NAMESPACE);
        let holder = lease.get(LEASE).await.unwrap().spec.unwrap().holder_identity.unwrap();
        let pod = holder.split('_').next().unwrap();
        world.cluster.clock().sleep(Duration::from_secs(600)).await;
        let pods = Api::<Pod>::namespaced(world.client.clone(), NAMESPACE);
        let spec = pods.get(pod).await.unwrap().spec.unwrap();
        assert_eq!(spec.node_name, None, "no machine was ordered for it");
        let uri = format!("/api/v1/namespaces/{NAMESPACE}/pods/http:{pod}:8080/proxy/metrics");
        let request = http::Request::get(uri).body(Full::<bytes::Bytes>::default()).unwrap();
        let answer = world.service.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains("\nkarpenter_cluster_state_synced 1\n"), "{text}");
        assert!(text.contains("\nkarpenter_cluster_state_node_count 0\n"), "{text}");
    }
}
