//! All controllers together.

use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use serde_json::json;

use super::fixtures::{active, cluster, create, field, finish, make_all_ready, pass, template};
use super::run;
use crate::Cluster;
use crate::registry::DeleteOptions;

/// A cluster with a Deployment, a DaemonSet, a Job and a budget, all at rest.
async fn at_rest() -> Cluster {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    let selector = json!({"matchLabels": {"app": "x"}});
    let spec = json!({"replicas": 3, "selector": selector, "template": template("nginx")});
    create(&cluster, "apps", "deployments", json!({"metadata": {"name": "web"}, "spec": spec}));
    let spec = json!({"minAvailable": 1, "selector": selector});
    let budget = json!({"metadata": {"name": "web"}, "spec": spec});
    create(&cluster, "policy", "poddisruptionbudgets", budget);
    let spec = json!({"selector": selector, "template": template("agent")});
    create(&cluster, "apps", "daemonsets", json!({"metadata": {"name": "agent"}, "spec": spec}));
    let mut template = template("perl");
    template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"metadata": {"name": "pi"}, "spec": {"template": template}});
    create(&cluster, "batch", "jobs", job);
    pass(&cluster, 1).await;
    let is_job = |pod: &Pod| pod.metadata.name.as_ref().unwrap().starts_with("pi-");
    let pod = active(&cluster).into_iter().find(|pod| is_job(pod)).unwrap();
    finish(&cluster, &pod, 0);
    make_all_ready(&cluster);
    pass(&cluster, 5).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn everything_comes_to_rest_and_then_nothing_is_written() {
    let cluster = at_rest().await;
    assert_eq!(active(&cluster).len(), 3);
    let complete = field(&cluster, ("batch", "jobs", "pi"), "/status/conditions/1/type");
    assert_eq!(complete, "Complete");
    let revision = cluster.store().revision();
    pass(&cluster, 3000).await;
    assert_eq!(cluster.store().revision(), revision);
    // Except that events expire.
    pass(&cluster, 1000).await;
    assert!(cluster.list::<Event>("default").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_writes_the_same_objects() {
    let mut worlds = Vec::new();
    for _ in 0..2 {
        let cluster = at_rest().await;
        let objects = cluster.kinds().into_iter().flat_map(|kind| {
            let (objects, _) = cluster.store().list(&kind.resource(), "");
            objects.into_iter().map(|object| object.value.to_string()).collect::<Vec<_>>()
        });
        worlds.push(objects.collect::<Vec<_>>());
    }
    assert_eq!(worlds[0], worlds[1]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_workloads_along() {
    let cluster = at_rest().await;
    create(&cluster, "", "namespaces", json!({"metadata": {"name": "team"}}));
    let kind = cluster.kind("apps", "deployments").unwrap();
    let selector = json!({"matchLabels": {"app": "x"}});
    let spec = json!({"replicas": 3, "selector": selector, "template": template("nginx")});
    let web = json!({"metadata": {"name": "web"}, "spec": spec});
    cluster.create_object(&kind, "team", web, Default::default()).unwrap();
    pass(&cluster, 1).await;
    assert_eq!(cluster.list::<Pod>("team").len(), 3);
    cluster.delete::<Namespace>("", "team", &DeleteOptions::default()).unwrap();
    pass(&cluster, 60).await;
    assert!(cluster.get::<Namespace>("", "team").is_none());
    assert!(cluster.list::<Pod>("team").is_empty());
}
