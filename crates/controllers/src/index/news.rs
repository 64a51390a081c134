//! What a change tells that a plan could depend on.
//!
//! Kubelets post their status every few minutes though nothing has changed. Of a thousand nodes that
//! is several a second, and a plan for each would be as many plans of the same cluster. A pod that
//! starts is written four times, its Job three times more: what a plan sees of them changes once.

use aerostat_api::{NodePool, labels};
use aerostat_engine::pod::Pod;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether a node is not as it was, the time of its last heartbeat and its images aside.
pub(super) fn of_node(old: &Node, new: &Node) -> bool {
    of_metadata(&old.metadata, &new.metadata)
        || old.spec != new.spec
        || standing(old) != standing(new)
}

fn of_metadata(was: &ObjectMeta, is: &ObjectMeta) -> bool {
    was.uid != is.uid
        || was.labels != is.labels
        || was.annotations != is.annotations
        || was.finalizers != is.finalizers
        || was.owner_references != is.owner_references
        || was.deletion_timestamp != is.deletion_timestamp
}

/// What a plan sees of the metadata of what makes pods.
fn of_identity(was: &ObjectMeta, is: &ObjectMeta) -> bool {
    was.uid != is.uid || was.deletion_timestamp != is.deletion_timestamp
}

/// Whether a pod is not as it was. When it started matters to those that are protected for so long
/// after it.
pub(super) fn of_pod(old: &Pod, new: &Pod) -> bool {
    if old.started == new.started || new.annotations.contains_key(labels::DO_NOT_DISRUPT) {
        return old != new;
    }
    *old != Pod { started: old.started, ..new.clone() }
}

/// Whether a ReplicaSet promises other pods; its status only counts those that are there.
pub(super) fn of_replica_set(old: &ReplicaSet, new: &ReplicaSet) -> bool {
    of_identity(&old.metadata, &new.metadata) || old.spec != new.spec
}

/// Whether a Job promises other pods.
pub(super) fn of_job(old: &Job, new: &Job) -> bool {
    let done = |job: &Job| {
        let status = job.status.as_ref();
        status.map(|status| (status.completion_time.is_some(), status.succeeded.unwrap_or(0)))
    };
    of_identity(&old.metadata, &new.metadata)
        || old.spec != new.spec
        || done(old).unwrap_or_default() != done(new).unwrap_or_default()
}

/// Whether a DaemonSet puts other pods on nodes; its status only counts them.
pub(super) fn of_daemon_set(old: &DaemonSet, new: &DaemonSet) -> bool {
    of_identity(&old.metadata, &new.metadata) || old.spec != new.spec
}

/// Whether a NodePool allows something else; what its machines have in sum is counted anew by every
/// plan.
pub(super) fn of_pool(old: &NodePool, new: &NodePool) -> bool {
    let conditions = |pool: &NodePool| pool.status.clone().unwrap_or_default().conditions;
    of_metadata(&old.metadata, &new.metadata)
        || old.spec != new.spec
        || conditions(old) != conditions(new)
}

/// Whether a budget holds other pods, or lets more or fewer of them go.
pub(super) fn of_budget(old: &PodDisruptionBudget, new: &PodDisruptionBudget) -> bool {
    let allowed = |pdb: &PodDisruptionBudget| pdb.status.as_ref().map(|s| s.disruptions_allowed);
    of_metadata(&old.metadata, &new.metadata)
        || old.spec != new.spec
        || allowed(old) != allowed(new)
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
    fn what_a_plan_sees_of_a_pod_changes_when_it_waits_moves_or_goes() {
        let pod = |status: serde_json::Value| {
            let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "status": status,
                "metadata": {"name": "a", "namespace": "b"},
                "spec": {"containers": [{"name": "c"}]}});
            Pod::from_k8s(&serde_json::from_value(pod).expect("it is a pod")).expect("it is read")
        };
        let condition = |name: &str, status: &str| {
            serde_json::json!({"conditions": [{"type": name, "status": status,
                "reason": "Unschedulable", "lastTransitionTime": "2026-01-05T00:00:00Z"}]})
        };
        let new = pod(serde_json::json!({}));
        assert!(!of_pod(&new, &pod(serde_json::json!({"phase": "Running", "podIP": "10.0.0.1"}))));
        assert!(!of_pod(&new, &pod(condition("Ready", "True"))));
        assert!(of_pod(&new, &pod(condition("PodScheduled", "False"))));
        let started = pod(serde_json::json!({"startTime": "2026-01-05T00:00:00Z"}));
        assert!(started.started.is_some() && !of_pod(&new, &started));
        let protect = |pod: &Pod| {
            let mark = (labels::DO_NOT_DISRUPT.to_owned(), "10m".to_owned());
            Pod { annotations: [mark].into(), ..pod.clone() }
        };
        assert!(of_pod(&protect(&new), &protect(&started)), "it is protected from then on");
        let bound = Pod { node: Some("n".to_owned()), ..new.clone() };
        assert!(of_pod(&new, &bound));
    }

    #[test]
    fn what_only_counts_pods_is_no_news_and_what_promises_others_is() {
        let job = |succeeded: i32, active: i32| -> Job {
            let status = serde_json::json!({"succeeded": succeeded, "active": active});
            let job = serde_json::json!({"metadata": {"name": "a"}, "status": status});
            serde_json::from_value(job).expect("it is a job")
        };
        assert!(!of_job(&job(1, 0), &job(1, 2)));
        assert!(of_job(&job(1, 2), &job(2, 2)));
        let set = |replicas: i32, ready: i32| -> ReplicaSet {
            let spec = serde_json::json!({"replicas": replicas, "selector": {}});
            let status = serde_json::json!({"replicas": ready, "readyReplicas": ready});
            let set =
                serde_json::json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
            serde_json::from_value(set).expect("it is a set")
        };
        assert!(!of_replica_set(&set(3, 0), &set(3, 3)));
        assert!(of_replica_set(&set(3, 3), &set(4, 3)));
        let pdb = |allowed: i32, healthy: i32| -> PodDisruptionBudget {
            let status = serde_json::json!({"disruptionsAllowed": allowed,
                "currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": 3});
            let pdb = serde_json::json!({"metadata": {"name": "a"}, "status": status});
            serde_json::from_value(pdb).expect("it is a budget")
        };
        assert!(!of_budget(&pdb(1, 2), &pdb(1, 3)));
        assert!(of_budget(&pdb(1, 2), &pdb(0, 2)));
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
