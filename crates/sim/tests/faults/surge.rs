//! A workload of one replica leaves its node without a gap, if it says that it may.

use std::sync::Arc;
use std::time::Duration;

use aerostat_api::{NodeClaim, labels};
use aerostat_cluster::registry::{Part, WriteOptions};
use aerostat_sim::World;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::world;

/// One pod that a PodDisruptionBudget holds.
fn deploy(world: &World, annotations: &Value) {
    let labels = json!({"app": "one"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [{
                    "name": "app", "image": "nginx", "resources": {"requests": {"cpu": "500m"}},
                }]},
            },
        },
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    });
    for (group, plural, value) in
        [("apps", "deployments", deployment), ("policy", "poddisruptionbudgets", budget)]
    {
        let kind = world.cluster.kind(group, plural).unwrap();
        world.cluster.create_object(&kind, "default", value, WriteOptions::default()).unwrap();
    }
}

/// The annotation `aerostat.dev/replace` on the one claim.
fn replace(world: &World) {
    let kind = world.cluster.kind("karpenter.sh", "nodeclaims").unwrap();
    let (claims, _) = world.cluster.store().list(&kind.resource(), "");
    let claim: Arc<NodeClaim> = claims[0].typed().unwrap();
    let (name, options) = (claim.metadata.name.clone().unwrap(), WriteOptions::default());
    let change = |old: &aerostat_cluster::store::Object| {
        let mut value = old.value.clone();
        value["metadata"]["annotations"][labels::REPLACE] = "true".into();
        Ok(value)
    };
    world.cluster.update_object(&kind, "", &name, Part::Main, options, change).unwrap();
}

fn ready(world: &World) -> usize {
    let is_ready = |pod: &Arc<Pod>| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
        conditions.unwrap_or_default().iter().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    world.cluster.list::<Pod>("default").iter().filter(|pod| is_ready(pod)).count()
}

/// Whether the first node has gone, and the fewest pods that were ready meanwhile.
fn play(annotations: &Value) -> (bool, usize) {
    world::alone(async {
        let world = world::start();
        let clock = world.cluster.clock();
        deploy(&world, annotations);
        clock.sleep(Duration::from_secs(120)).await;
        let name = |node: &Arc<Node>| node.metadata.name.clone();
        let first: Vec<_> = world.cluster.list::<Node>("").iter().map(name).collect();
        assert_eq!((first.len(), ready(&world)), (1, 1));
        replace(&world);
        let mut fewest = usize::MAX;
        for _ in 0..600 {
            clock.sleep(Duration::from_secs(1)).await;
            fewest = fewest.min(ready(&world));
        }
        let left: Vec<_> = world.cluster.list::<Node>("").iter().map(name).collect();
        (!left.contains(&first[0]), fewest)
    })
}

#[test]
fn one_pod_that_may_surge_moves_without_a_gap() {
    assert_eq!(play(&json!({"aerostat.dev/surge": "true"})), (true, 1));
}

#[test]
fn one_pod_that_its_budget_holds_and_that_may_not_surge_holds_its_node() {
    assert_eq!(play(&json!({})), (false, 1));
}
