//! Every object of a cluster, as `kubectl get … -A -o yaml` would print it: to be looked at, or to
//! start another scenario from (`dumps`).

use aerostat_cluster::Cluster;
use serde_json::{Value, json};

/// What says how the cluster is doing, not how it is.
const PASSING: [&str; 2] = ["events", "leases"];

/// A `List` of everything but Events and Leases, by kind, namespace and name.
pub(crate) fn of(cluster: &Cluster) -> Value {
    let mut items = Vec::new();
    for kind in cluster.kinds() {
        if PASSING.contains(&kind.plural.as_str()) {
            continue;
        }
        let (objects, _) = cluster.store().list(&kind.resource(), "");
        items.extend(objects.iter().map(|object| object.value.clone()));
    }
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
}
