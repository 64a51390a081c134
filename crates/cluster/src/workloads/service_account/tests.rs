use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use serde_json::json;

use super::run;
use crate::bootstrap::ROOT_CA;
use crate::registry::DeleteOptions;
use crate::workloads::fixtures::{cluster, create, pass};

#[tokio::test(start_paused = true)]
async fn every_namespace_has_its_account_and_the_ca() {
    let cluster = cluster();
    for namespace in cluster.list::<Namespace>("") {
        let name = namespace.metadata.name.as_deref().unwrap();
        assert!(cluster.get::<ServiceAccount>(name, "default").is_some(), "{name}");
    }
    tokio::spawn(run(cluster.clone()));
    create(&cluster, "", "namespaces", json!({"metadata": {"name": "new"}}));
    pass(&cluster, 0).await;
    assert!(cluster.get::<ServiceAccount>("new", "default").is_some());
    let ca = || cluster.get::<ConfigMap>("new", ROOT_CA).and_then(|map| map.data.clone()).unwrap();
    assert_eq!(ca()["ca.crt"], "CA");
    cluster.delete::<ServiceAccount>("new", "default", &DeleteOptions::default()).unwrap();
    cluster.modify::<ConfigMap>("new", ROOT_CA, |map| map.data = None).unwrap();
    pass(&cluster, 0).await;
    assert!(cluster.get::<ServiceAccount>("new", "default").is_some());
    assert_eq!(ca()["ca.crt"], "CA");
}
