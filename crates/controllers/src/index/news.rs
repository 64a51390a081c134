//! What a change tells that a plan could depend on.
//!
//! Kubelets post their status every few minutes though nothing has changed. Of a thousand nodes that
//! is several a second, and a plan for each would be as many plans of the same cluster.

use k8s_openapi::api::core::v1::{Node, NodeStatus};

/// Whether a node is not as it was, the time of its last heartbeat and its images aside.
pub(super) fn of_node(old: &Node, new: &Node) -> bool {
    let (was, is) = (&old.metadata, &new.metadata);
    was.uid != is.uid
        || was.labels != is.labels
        || was.annotations != is.annotations
        || was.finalizers != is.finalizers
        || was.owner_references != is.owner_references
        || was.deletion_timestamp != is.deletion_timestamp
        || old.spec != new.spec
        || standing(old) != standing(new)
}

/// The status without what changes by itself.
fn standing(node: &Node) -> NodeStatus {
    let mut status = node.status.clone().unwrap_or_default();
    status.images = None;
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None;
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(heartbeat: &str, ready: &str, cpu: &str) -> Node {
        let condition = serde_json::json!({"type": "Ready", "status": ready,
            "lastHeartbeatTime": heartbeat, "lastTransitionTime": "2026-01-05T00:00:00Z"});
        let status = serde_json::json!({"conditions": [condition], "allocatable": {"cpu": cpu},
            "images": [{"names": [heartbeat]}]});
        let node = serde_json::json!({"apiVersion": "v1", "kind": "Node", "status": status,
            "metadata": {"name": "a", "resourceVersion": heartbeat}});
        serde_json::from_value(node).expect("it is a node")
    }

    #[test]
    fn a_heartbeat_is_no_news() {
        let before = node("2026-01-05T00:05:00Z", "True", "2");
        assert!(!of_node(&before, &node("2026-01-05T00:10:00Z", "True", "2")));
        assert!(of_node(&before, &node("2026-01-05T00:10:00Z", "False", "2")));
        assert!(of_node(&before, &node("2026-01-05T00:10:00Z", "True", "1930m")));
        let mut tainted = before.clone();
        tainted.spec.get_or_insert_default().unschedulable = Some(true);
        assert!(of_node(&before, &tainted));
        let mut labelled = before.clone();
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert!(of_node(&before, &labelled));
    }
}
