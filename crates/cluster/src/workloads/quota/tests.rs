use serde_json::json;

use super::run;
use crate::registry::DeleteOptions;
use crate::workloads::fixtures::{cluster, create, field, pass};

const QUOTA: (&str, &str, &str) = ("", "resourcequotas", "q");

#[tokio::test(start_paused = true)]
async fn what_is_used_is_told() {
    let cluster = cluster();
    tokio::spawn(run(cluster.clone()));
    let hard = json!({"pods": "3", "cpu": "2", "secrets": "1", "count/deployments.apps": "4"});
    create(
        &cluster,
        "",
        "resourcequotas",
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}),
    );
    pass(&cluster, 0).await;
    let none = json!({"pods": "0", "cpu": "0", "secrets": "0", "count/deployments.apps": "0"});
    assert_eq!(field(&cluster, QUOTA, "/status"), json!({"hard": hard, "used": none}));
    for name in ["a", "b"] {
        let resources = json!({"requests": {"cpu": "500m"}});
        let containers = json!([{"name": "c", "image": "nginx", "resources": resources}]);
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
        create(&cluster, "", "pods", pod);
    }
    pass(&cluster, 0).await;
    assert_eq!(field(&cluster, QUOTA, "/status/used/pods"), "2");
    assert_eq!(field(&cluster, QUOTA, "/status/used/cpu"), "1");
    let at_once = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
    cluster.delete::<k8s_openapi::api::core::v1::Pod>("default", "a", &at_once).unwrap();
    pass(&cluster, 0).await;
    assert_eq!(field(&cluster, QUOTA, "/status/used/cpu"), "500m");
}
