//! What an attempt writes: the binding, or the condition of a pod that fits nowhere, and the
//! deletion of those that go for it.

use std::sync::Arc;

use aerostat_engine::pod::PodKey;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::Scheduler;
use super::attempt::{Found, Nomination};
use super::events::{self, Said};
use super::messages;
use super::pod::PodInfo;
use super::queue::Queued;
use crate::registry::{Binding, DeleteOptions, Part, WriteOptions, set_pod_condition};
use crate::status::Status;
use crate::store::Object;

/// The reason of a condition that tells that no node can take the pod.
const UNSCHEDULABLE: &str = "Unschedulable";

impl Scheduler {
    /// Tries to place the pod that `key` names, and writes what comes of it.
    pub(super) fn attempt(&mut self, key: &PodKey) {
        let Some(info) = self.queue.get(key).map(|queued| queued.info.clone()) else { return };
        let kind = self.cluster.kind_of::<Pod>();
        let object = self.cluster.get_object(&kind, &key.0, &key.1);
        let Some(object) = object.ok().filter(|object| still_waits(object, &info)) else {
            // It went, or someone else bound it: the news is on its way to us.
            self.drop_waiting(key);
            return;
        };
        let Some(class) = self.class_of(key) else { return };
        match self.find(&info, class) {
            Found::Node(node) => {
                let bound = match self.has_volumes(&info, &node) {
                    Ok(true) => self.bind(&info, &object, &node),
                    other => other.map(drop),
                };
                if let Err(error) = bound {
                    self.failed(key, &info, &object, "SchedulerError", &error.message, None);
                    self.queue.put_after_error(key, self.cluster.clock().now());
                }
            }
            Found::NoNodes => {
                self.failed(key, &info, &object, UNSCHEDULABLE, messages::NO_NODES, Some(""));
                self.queue.put_after_error(key, self.cluster.clock().now());
            }
            Found::Nothing(failure, nomination) => {
                if failure.tainted && self.queue.get(key).is_some_and(Queued::found_no_nodes) {
                    // The first nodes are on their way; that their taints are still there is no
                    // news to anybody.
                    self.queue.put_unschedulable(key, self.cluster.clock().now());
                    return;
                }
                let nominated = match &nomination {
                    Nomination::Keep => None,
                    Nomination::Clear => Some(""),
                    Nomination::Preempt { node, .. } => Some(node.as_str()),
                };
                self.failed(key, &info, &object, UNSCHEDULABLE, &failure.message, nominated);
                self.queue.put_unschedulable(key, self.cluster.clock().now());
                if let Nomination::Preempt { node, victims } = nomination {
                    self.preempt(&info, &object, &node, &victims);
                }
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        info: &Arc<PodInfo>,
        object: &Object,
        node: &str,
    ) -> Result<(), Status> {
        let pod = &info.pod;
        let binding =
            Binding { uid: Some(pod.uid.clone()), node: node.to_owned(), ..Binding::default() };
        self.cluster.bind(&pod.namespace, &pod.name, &binding, WriteOptions::default())?;
        let mut placed = PodInfo::clone(info);
        placed.pod.node = Some(node.to_owned());
        placed.pod.nominated_node = None;
        self.drop_waiting(&info.key());
        self.place(&Arc::new(placed));
        let note = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        let said = Said {
            event_type: "Normal",
            reason: "Scheduled",
            action: "Binding",
            note: &note,
            related: None,
        };
        events::record(&self.cluster, object, &said);
        Ok(())
    }

    /// Tells why a pod could not be placed, in an event and in its status. `nominated` is the new
    /// nomination, empty to end it.
    pub(super) fn failed(
        &mut self,
        key: &PodKey,
        info: &Arc<PodInfo>,
        object: &Object,
        reason: &str,
        message: &str,
        nominated: Option<&str>,
    ) {
        let said = Said {
            event_type: "Warning",
            reason: "FailedScheduling",
            action: "Scheduling",
            note: &messages::note(message),
            related: None,
        };
        if let Some(queued) = self.queue.get_mut(key) {
            let told = queued.told.take();
            queued.told = events::repeat(&self.cluster, object, &said, told, &mut self.pace);
        }
        if !tells(&object.value["status"], reason, message, nominated) {
            let condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "observedGeneration": info.generation,
            });
            let now = self.cluster.clock().now();
            self.write_status(key, |pod| {
                set_pod_condition(pod, condition.clone(), now);
                if let Some(node) = nominated {
                    nominate(pod, node);
                }
            });
        }
        if let Some(node) = nominated {
            let node = Some(node).filter(|node| !node.is_empty());
            if let Some(left) = self.cache.nominate(info, node) {
                self.freed.insert(left);
            }
        }
    }

    /// Makes room: ends lower nominations to the node, and deletes the victims.
    fn preempt(&mut self, info: &PodInfo, object: &Object, node: &str, victims: &[Arc<PodInfo>]) {
        let lower: Vec<Arc<PodInfo>> = self
            .cache
            .slot(node)
            .and_then(|slot| self.cache.at(slot))
            .into_iter()
            .flat_map(|(_, at)| at.nominated.values())
            .filter(|other| other.pod.priority < info.pod.priority)
            .cloned()
            .collect();
        let now = self.cluster.clock().now();
        for other in lower {
            let key = other.key();
            self.write_status(&key, |pod| nominate(pod, ""));
            self.cache.nominate(&other, None);
            self.queue.wake(&key, now);
        }
        for victim in victims.iter().filter(|victim| !victim.pod.deleting) {
            self.evict(&victim.key(), &info.pod.uid, object, node);
        }
    }

    fn evict(&self, key: &PodKey, preemptor: &str, object: &Object, node: &str) {
        let now = self.cluster.clock().now();
        self.write_status(key, |pod| {
            let condition = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message":
                    "default-scheduler: preempting to accommodate a higher priority pod",
                "observedGeneration": pod["metadata"]["generation"],
            });
            set_pod_condition(pod, condition, now);
        });
        let kind = self.cluster.kind_of::<Pod>();
        // Whoever went by themselves made room as well.
        let Ok(victim) = self.cluster.get_object(&kind, &key.0, &key.1) else { return };
        let options = DeleteOptions { uid: Some(victim.uid().into()), ..DeleteOptions::default() };
        if let Err(error) = self.cluster.delete_object(&kind, &key.0, &key.1, &options) {
            tracing::warn!(%error, pod = key.1, "victim cannot be deleted");
            return;
        }
        let note = format!("Preempted by pod {preemptor} on node {node}");
        let said = Said {
            event_type: "Normal",
            reason: "Preempted",
            action: "Preempting",
            note: &note,
            related: Some(object),
        };
        events::record(&self.cluster, &victim, &said);
    }

    /// Writes a pod's status; a pod that went, or that the API refuses to change, is left alone.
    fn write_status(&self, key: &PodKey, change: impl Fn(&mut Value)) {
        let kind = self.cluster.kind_of::<Pod>();
        let options = WriteOptions::default();
        let result =
            self.cluster.update_object(&kind, &key.0, &key.1, Part::Status, options, |old| {
                let mut pod = old.value.clone();
                change(&mut pod);
                Ok(pod)
            });
        if let Err(error) = result
            && error.code != 404
        {
            tracing::warn!(%error, pod = key.1, "status cannot be written");
        }
    }
}

fn still_waits(object: &Object, info: &PodInfo) -> bool {
    object.uid() == info.pod.uid
        && object.value["metadata"]["deletionTimestamp"].is_null()
        && object.value["spec"]["nodeName"].as_str().unwrap_or_default().is_empty()
}

/// Whether a pod's status says already that it is not scheduled, why, and for which node it is
/// meant.
fn tells(status: &Value, reason: &str, message: &str, nominated: Option<&str>) -> bool {
    let before = status["nominatedNodeName"].as_str().unwrap_or_default();
    let conditions = status["conditions"].as_array();
    let condition = conditions.and_then(|list| list.iter().find(|c| c["type"] == "PodScheduled"));
    nominated.is_none_or(|node| node == before)
        && condition.is_some_and(|condition| {
            condition["status"] == "False"
                && condition["reason"] == reason
                && condition["message"] == message
        })
}

fn nominate(pod: &mut Value, node: &str) {
    if !node.is_empty() {
        pod["status"]["nominatedNodeName"] = node.into();
    } else if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
}
