//! The API server says no: what it says no to is tried again, later each time, and everything else
//! goes on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aerostat_cluster::registry::{self, Part, WriteOptions};
use aerostat_sim::World;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt};

use crate::world;

/// Which writes are refused, and when they were tried.
#[derive(Clone)]
struct Guard {
    method: Method,
    /// Of which pool's claims; of all if it is empty.
    pool: &'static str,
    /// How many more are refused.
    left: Arc<Mutex<usize>>,
    tries: Arc<Mutex<Vec<Timestamp>>>,
}

impl Guard {
    fn new(method: Method, pool: &'static str, refused: usize) -> Self {
        Self { method, pool, left: Arc::new(Mutex::new(refused)), tries: Arc::default() }
    }

    /// Whole seconds between the first try and each.
    fn tries(&self) -> Vec<i64> {
        let tries = self.tries.lock().unwrap();
        tries.iter().map(|at| at.duration_since(tries[0]).as_secs()).collect()
    }

    fn refuses(&self, method: &Method, path: &str, body: &[u8], now: Timestamp) -> bool {
        if *method != self.method || !path.contains("/nodeclaims") {
            return false;
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let pool = &body["metadata"]["labels"]["karpenter.sh/nodepool"];
        if !self.pool.is_empty() && pool != self.pool {
            return false;
        }
        self.tries.lock().unwrap().push(now);
        let mut left = self.left.lock().unwrap();
        let refuses = *left > 0;
        *left = left.saturating_sub(1);
        refuses
    }
}

/// A world whose API server refuses what `guard` says, with pools `a` and `b`.
fn guarded(guard: &Guard) -> World {
    let mut world = world::start();
    for name in ["a", "b"] {
        create(
            &world,
            "karpenter.sh",
            "nodepools",
            &json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
                "spec": {
                    "disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"},
                    "template": {"spec": {
                        "nodeClassRef":
                            {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
                        "requirements": [{
                            "key": "karpenter.sh/capacity-type", "operator": "In",
                            "values": ["on-demand"],
                        }],
                    }},
                },
            }),
        );
    }
    let (service, guard, clock) = (world.service.clone(), guard.clone(), world.cluster.clock());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (service, guard) = (service.clone(), guard.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            if guard.refuses(&head.method, head.uri.path(), &body, clock.now()) {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "code": 403, "reason": "Forbidden", "message": "the guard says no",
                });
                let body = Full::new(Bytes::from(status.to_string()));
                let body = body.map_err(|never| match never {}).boxed_unsync();
                return Ok(Response::builder().status(403).body(body).unwrap());
            }
            let request = Request::from_parts(head, Body::from(body.to_vec()));
            let answer = service.oneshot(request).await?;
            Ok::<_, BoxError>(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        }
    });
    world.restart_controllers(Client::new(service, "default"));
    world
}

fn create(world: &World, group: &str, plural: &str, value: &Value) {
    let kind = world.cluster.kind(group, plural).unwrap();
    let namespace = if kind.namespaced { "default" } else { "" };
    world.cluster.create_object(&kind, namespace, value.clone(), WriteOptions::default()).unwrap();
}

/// A Deployment of one pod, of one pool if there is one.
fn deploy(world: &World, name: &str, pool: Option<&str>) {
    let selector = pool.map_or_else(|| json!({}), |pool| json!({"karpenter.sh/nodepool": pool}));
    create(
        world,
        "apps",
        "deployments",
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "nodeSelector": selector,
                        "containers": [{
                            "name": "app", "image": "nginx",
                            "resources": {"requests": {"cpu": "1500m"}},
                        }],
                    },
                },
            },
        }),
    );
}

fn is_running(world: &World, app: &str) -> bool {
    world.cluster.list::<Pod>("default").iter().any(|pod| {
        let labels = pod.metadata.labels.as_ref();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        labels.is_some_and(|labels| labels["app"] == app) && phase == Some("Running")
    })
}

#[test]
fn a_pool_whose_claims_are_refused_waits_alone() {
    let guard = Guard::new(Method::POST, "a", usize::MAX);
    world::alone(async {
        let world = guarded(&guard);
        let clock = world.cluster.clock();
        deploy(&world, "only-a", Some("a"));
        // In the middle of a long wait of the other pool.
        clock.sleep(Duration::from_secs(40)).await;
        let before = guard.tries();
        deploy(&world, "only-b", Some("b"));
        clock.sleep(Duration::from_secs(60)).await;
        assert!(is_running(&world, "only-b"), "another pool has nothing to do with it");
        assert!(!is_running(&world, "only-a"));
        assert_eq!(before, [0, 1, 3, 7, 15, 31]);
        assert_eq!(guard.tries()[6..], [63], "changes do not make it try sooner");

        // Pods that may be in either pool get the one that works.
        deploy(&world, "either", None);
        clock.sleep(Duration::from_secs(15)).await;
        assert!(!is_running(&world, "only-a"));
        clock.sleep(Duration::from_secs(45)).await;
        assert!(is_running(&world, "either"));

        *guard.left.lock().unwrap() = 0;
        clock.sleep(Duration::from_secs(120)).await;
        assert!(is_running(&world, "only-a"), "tried again by itself when it may be");
    });
}

#[test]
fn a_claim_that_could_not_be_deleted_is_tried_again_though_nothing_changes() {
    let guard = Guard::new(Method::DELETE, "", 3);
    world::alone(async {
        let world = guarded(&guard);
        let clock = world.cluster.clock();
        deploy(&world, "short", Some("a"));
        clock.sleep(Duration::from_secs(90)).await;
        assert!(is_running(&world, "short"));
        let kind = world.cluster.kind("apps", "deployments").unwrap();
        let none = json!({"spec": {"replicas": 0}});
        let options = WriteOptions::default();
        let change = |old: &aerostat_cluster::store::Object| registry::scaled(&kind, old, &none);
        world
            .cluster
            .update_object(&kind, "default", "short", Part::Main, options, change)
            .unwrap();
        clock.sleep(Duration::from_secs(180)).await;
        assert_eq!(guard.tries(), [0, 1, 3, 7]);
        let claims = world.cluster.kind("karpenter.sh", "nodeclaims").unwrap();
        assert!(world.cluster.store().list(&claims.resource(), "").0.is_empty(), "it has gone");
    });
}
