//! What the tests of the controllers share: a cluster in virtual time, and a hand on its pods.

use std::sync::Arc;
use std::time::Duration;

use aerostat_clock::{Clock, Seeds};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus};
use k8s_openapi::api::core::v1::{Event, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::pods::is_active;
use crate::registry::{Binding, Part, WriteOptions};
use crate::{Cluster, Options};

/// A cluster with the namespace `default` and its service account.
pub(super) fn cluster() -> Cluster {
    let clock = Clock::simulated("2025-01-06T07:51:22Z".parse().unwrap());
    let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(1) });
    crate::bootstrap::run(&cluster, "CA").unwrap();
    cluster
}

/// Lets every controller come to rest, and the clock go on by `seconds`.
pub(super) async fn pass(cluster: &Cluster, seconds: u64) {
    cluster.clock().sleep(Duration::from_millis(seconds * 1000 + 10)).await;
}

/// Creates an object in `default`.
pub(super) fn create(cluster: &Cluster, group: &str, plural: &str, object: Value) {
    let kind = cluster.kind(group, plural).unwrap();
    let namespace = if kind.namespaced { "default" } else { "" };
    cluster.create_object(&kind, namespace, object, WriteOptions::default()).unwrap();
}

/// Sets a field, given as a JSON pointer.
pub(super) fn set(cluster: &Cluster, of: (&str, &str, &str), pointer: &str, to: Value) {
    let (group, plural, name) = of;
    let kind = cluster.kind(group, plural).unwrap();
    let namespace = if kind.namespaced { "default" } else { "" };
    let options = WriteOptions::default();
    let write = cluster.update_object(&kind, namespace, name, Part::Main, options, |object| {
        let mut value = object.value.clone();
        *value.pointer_mut(pointer).unwrap() = to.clone();
        Ok(value)
    });
    write.unwrap();
}

/// Binds a pod to a node, which need not be there: its deletion then waits for a kubelet.
pub(super) fn bind(cluster: &Cluster, pod: &str, node: &str) {
    let binding = Binding { node: node.to_owned(), ..Binding::default() };
    cluster.bind("default", pod, &binding, WriteOptions::default()).unwrap();
}

/// A field of an object in `default`, given as a JSON pointer.
pub(super) fn field(cluster: &Cluster, of: (&str, &str, &str), pointer: &str) -> Value {
    let (group, plural, name) = of;
    let kind = cluster.kind(group, plural).unwrap();
    let object = cluster.get_object(&kind, "default", name).unwrap();
    object.value.pointer(pointer).cloned().unwrap_or(Value::Null)
}

/// A pod template with one container `c` and the label `app=x`.
pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": image}]},
    })
}

/// The active pods of `default`, by name.
pub(super) fn active(cluster: &Cluster) -> Vec<Arc<Pod>> {
    let mut pods = cluster.list::<Pod>("default");
    pods.retain(|pod| is_active(pod));
    pods
}

/// Plays kubelet: the pod runs and is ready.
pub(super) fn make_ready(cluster: &Cluster, pod: &Pod) {
    let now = cluster.clock().now();
    let name = pod.metadata.name.as_deref().unwrap();
    let write = cluster.modify_status::<Pod>("default", name, |pod| {
        let status = pod.status.get_or_insert_default();
        status.phase = Some("Running".into());
        status.conditions = Some(vec![PodCondition {
            type_: "Ready".into(),
            status: "True".into(),
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        }]);
    });
    write.unwrap();
}

/// Plays kubelet: every active pod runs and is ready.
pub(super) fn make_all_ready(cluster: &Cluster) {
    for pod in active(cluster) {
        if !super::pods::is_ready(&pod) {
            make_ready(cluster, &pod);
        }
    }
}

/// Plays kubelet: the pod's container ended with `code`.
pub(super) fn finish(cluster: &Cluster, pod: &Pod, code: i32) {
    let now = cluster.clock().now();
    let name = pod.metadata.name.as_deref().unwrap();
    let write = cluster.modify_status::<Pod>("default", name, |pod| {
        let status = pod.status.get_or_insert_default();
        status.phase = Some(if code == 0 { "Succeeded" } else { "Failed" }.into());
        status.conditions = None;
        status.container_statuses = Some(vec![ContainerStatus {
            name: "c".into(),
            state: Some(ContainerState {
                terminated: Some(ContainerStateTerminated {
                    exit_code: code,
                    finished_at: Some(Time(now)),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        }]);
    });
    write.unwrap();
}

/// Reason and message of every event, in the order they were written.
pub(super) fn told(cluster: &Cluster) -> Vec<String> {
    let mut events = cluster.list::<Event>("default");
    events.sort_by_key(|event| {
        event.metadata.resource_version.as_ref().and_then(|v| v.parse::<u64>().ok())
    });
    let text = |event: &Event| {
        format!(
            "{} {}",
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        )
    };
    events.iter().map(|event| text(event)).collect()
}
