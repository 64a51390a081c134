//! How many pods can be simulated: nobody means more, and more would not fit into memory.

use serde_json::Value;

/// Most pods that one object may ask for.
pub(crate) const MOST_PODS: i64 = 1_000_000;

/// Why an object asks for too many pods, if it does.
pub(crate) fn excess(object: &Value) -> Option<String> {
    let fields = ["replicas", "parallelism", "completions", "maxReplicas"];
    fields.iter().find_map(|field| {
        let count = object["spec"][field].as_i64().filter(|count| *count > MOST_PODS)?;
        Some(format!("spec.{field}: {count} pods are more than can be simulated ({MOST_PODS})"))
    })
}
