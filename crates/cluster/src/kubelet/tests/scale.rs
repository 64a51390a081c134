//! What a pod costs does not grow with their number.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_pod_costs_two_status_writes_until_it_runs_and_none_after() {
    let cluster = cluster();
    let nodes = 20;
    for node in 0..nodes {
        boot(&cluster, &format!("n{node}"), &format!("10.0.{node}.4"));
    }
    wait(&cluster, 20.0).await;
    let mut pods = cluster.informer::<Pod>();
    let pods_a_node = 25;
    for pod in 0..nodes * pods_a_node {
        let spec = json!({
            "nodeName": format!("n{}", pod % nodes),
            "containers": [{"name": "c", "image": "nginx:1.27", "command": ["nginx"]}],
        });
        let name = format!("p{pod}");
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        cluster.create::<Pod>("default", &serde_json::from_value(pod).unwrap()).unwrap();
    }
    wait(&cluster, 60.0).await;
    let all = cluster.list::<Pod>("default");
    let addresses: std::collections::BTreeSet<_> =
        all.iter().map(|pod| pod.status.as_ref().unwrap().pod_ip.clone()).collect();
    assert_eq!(addresses.len(), nodes * pods_a_node, "every pod has an address of its own");
    let writes = std::iter::from_fn(|| pods.try_next()).count();
    assert_eq!(writes, 3 * nodes * pods_a_node, "created, taken up, running");
    wait(&cluster, 600.0).await;
    assert!(pods.try_next().is_none());
}
