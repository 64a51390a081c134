//! The scheduler on a cluster in virtual time. `preempting` holds the cases with victims, `company`
//! those in which it matters where other pods are.

mod company;
mod placing;
mod preempting;
mod queueing;
mod scale;
mod volumes;

use std::time::Duration;

use aerostat_clock::{Clock, Seeds};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::bootstrap;
use crate::registry::{Cluster, Options, Typed};

/// A cluster with a scheduler and nothing else that acts.
struct World {
    cluster: Cluster,
}

fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated("2025-01-06T07:51:22Z".parse().unwrap());
        let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(1) });
        bootstrap::run(&cluster, "").unwrap();
        tokio::spawn(super::run(cluster.clone()));
        Self { cluster }
    }

    /// Lets everything happen that happens at once.
    async fn settle(&self) {
        self.wait(Duration::from_millis(1)).await;
    }

    async fn wait(&self, time: Duration) {
        self.cluster.clock().sleep(time).await;
    }

    fn create<K: Typed>(&self, namespace: &str, value: Value) {
        self.cluster.create::<K>(namespace, &typed(value)).unwrap();
    }

    fn class(&self, name: &str, value: i32, policy: &str) {
        self.create::<PriorityClass>(
            "",
            json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}),
        );
    }

    fn node(&self, name: &str, labels: Value, spec: Value, allocatable: Value) {
        let meta = json!({"name": name, "labels": labels});
        self.create::<Node>("", json!({"metadata": meta, "spec": spec.clone()}));
        // A new node is tainted as not ready; this one is.
        let taints = spec.get("taints").cloned().map(typed);
        self.cluster
            .modify::<Node>("", name, |node| {
                node.spec.get_or_insert_default().taints = taints.clone();
            })
            .unwrap();
        self.cluster
            .modify_status::<Node>("", name, |node| {
                node.status = Some(typed(json!({"allocatable": allocatable})));
            })
            .unwrap();
    }

    /// A node with the room of a c5a.large.
    fn large(&self, name: &str) {
        let room = json!({"cpu": "1930m", "memory": "3114Mi", "pods": "29"});
        self.node(name, json!({}), json!({}), room);
    }

    fn pod(&self, name: &str, spec: Value) {
        let mut spec = spec;
        let cpu = spec["cpu"].take();
        let memory = spec["memory"].take();
        let fields = spec.as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null());
        let mut requests = json!({"cpu": cpu, "memory": memory});
        requests.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        fields.entry("containers").or_insert_with(
            || json!([{"name": "c", "image": "i:1", "resources": {"requests": requests}}]),
        );
        let labels = json!({"name": name});
        self.create::<Pod>(
            "default",
            json!({"metadata": {"name": name, "labels": labels}, "spec": spec}),
        );
    }

    fn get(&self, name: &str) -> Pod {
        Pod::clone(&*self.cluster.get::<Pod>("default", name).unwrap())
    }

    fn node_of(&self, name: &str) -> Option<String> {
        self.get(name).spec.unwrap().node_name
    }

    /// The message of the condition `PodScheduled=False`.
    fn message(&self, name: &str) -> String {
        let status = self.get(name).status.unwrap();
        let conditions = status.conditions.unwrap_or_default();
        let condition = conditions.iter().find(|c| c.type_ == "PodScheduled");
        let condition = condition.unwrap_or_else(|| panic!("{name} has no PodScheduled"));
        assert_eq!(condition.status, "False", "{name}: {condition:?}");
        condition.message.clone().unwrap_or_default()
    }

    /// Reason and message of a pod's events, in order; repeats once.
    fn events(&self, name: &str) -> Vec<(String, String)> {
        let mut events = self.cluster.list::<Event>("default");
        events.retain(|event| event.involved_object.name.as_deref() == Some(name));
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let text = |event: &Event| {
            (event.reason.clone().unwrap_or_default(), event.message.clone().unwrap_or_default())
        };
        events.iter().map(|event| text(event)).collect()
    }
}

fn said(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(reason, message)| ((*reason).to_owned(), (*message).to_owned())).collect()
}
