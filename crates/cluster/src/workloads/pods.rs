//! The pods of one kind of controller, by controller; and what a pod's status says.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::owner::{controller_of, key};
use crate::informer::Change;
use crate::store::Key;

/// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// It ended, well or not.
pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// It neither ended nor is it being deleted.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// It is being deleted and has not ended yet.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_some()
}

/// A condition of the pod.
pub(super) fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Sets a condition to true; one that is true already only changes its words.
pub(super) fn set_condition(
    pod: &mut Pod,
    type_: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    let mut condition = PodCondition {
        type_: type_.to_owned(),
        status: "True".into(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(now)),
        observed_generation: pod.metadata.generation,
        last_probe_time: None,
    };
    match conditions.iter_mut().find(|other| other.type_ == type_) {
        Some(other) => {
            if other.status == condition.status {
                condition.last_transition_time = other.last_transition_time.take();
            }
            *other = condition;
        }
        None => conditions.push(condition),
    }
}

/// Since when it is ready; `None` if it is not.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0))
}

/// It has a true `Ready` condition.
pub(super) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// It has been ready for `min_ready_seconds`.
pub(super) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    let needed = SignedDuration::from_secs(min_ready_seconds.into());
    ready_since(pod).is_some_and(|since| needed.is_zero() || now.duration_since(since) >= needed)
}

/// The pods of one controller, with what is counted about them.
#[derive(Debug, Default)]
pub(super) struct OwnedPods {
    pods: BTreeMap<String, Arc<Pod>>,
    /// Active pods.
    pub(super) active: usize,
    /// Active pods that are ready.
    pub(super) ready: usize,
    /// Pods being deleted that have not ended.
    pub(super) terminating: usize,
    /// How many active pods have these labels. Pods of one template share them.
    pub(super) labels: BTreeMap<BTreeMap<String, String>, usize>,
}

impl OwnedPods {
    /// All of them, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    fn insert(&mut self, name: String, pod: Arc<Pod>) {
        self.remove(&name);
        if is_active(&pod) {
            self.active += 1;
            self.ready += usize::from(is_ready(&pod));
            *self.labels.entry(pod.metadata.labels.clone().unwrap_or_default()).or_default() += 1;
        } else if is_terminating(&pod) {
            self.terminating += 1;
        }
        self.pods.insert(name, pod);
    }

    fn remove(&mut self, name: &str) {
        let Some(pod) = self.pods.remove(name) else { return };
        if is_active(&pod) {
            self.active -= 1;
            self.ready -= usize::from(is_ready(&pod));
            let labels = pod.metadata.labels.clone().unwrap_or_default();
            if let Some(count) = self.labels.get_mut(&labels) {
                *count -= 1;
                if *count == 0 {
                    self.labels.remove(&labels);
                }
            }
        } else if is_terminating(&pod) {
            self.terminating -= 1;
        }
    }
}

/// Pods by the UID of their controller, for controllers of one kind; and pods without any.
#[derive(Debug)]
pub(super) struct PodIndex {
    kind: &'static str,
    owners: BTreeMap<Key, String>,
    owned: BTreeMap<String, OwnedPods>,
    orphans: BTreeMap<Key, Arc<Pod>>,
}

/// Whom a change of a pod concerns.
#[derive(Debug, Default)]
pub(super) struct Concerned {
    /// UID of the controller that had it.
    pub(super) before: Option<String>,
    /// UID of the controller that has it.
    pub(super) after: Option<String>,
    /// It has no controller: someone may want to adopt it.
    pub(super) orphan: Option<Arc<Pod>>,
}

impl PodIndex {
    /// An index for the controllers of `kind`.
    pub(super) fn new(kind: &'static str) -> Self {
        Self { kind, owners: BTreeMap::new(), owned: BTreeMap::new(), orphans: BTreeMap::new() }
    }

    /// The pods of a controller.
    pub(super) fn owned(&self, uid: &str) -> Option<&OwnedPods> {
        self.owned.get(uid)
    }

    /// Pods of a namespace that no controller has, and that neither ended nor are on their way.
    pub(super) fn orphans(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let namespace = namespace.to_owned();
        self.orphans
            .range((namespace.clone(), String::new())..)
            .take_while(move |((of, _), _)| *of == namespace)
            .map(|(_, pod)| pod)
    }

    /// Takes in a change.
    pub(super) fn apply(&mut self, change: Change<Pod>) -> Concerned {
        let (pod, gone) = match change {
            Change::Applied { new, .. } => (new, false),
            Change::Deleted(pod) => (pod, true),
        };
        let key = key(&pod.metadata);
        let controller = controller_of(&pod.metadata);
        let owner = controller.filter(|owner| owner.kind == self.kind && !gone);
        let owner = owner.map(|owner| owner.uid.clone());
        let before = match &owner {
            Some(uid) => self.owners.insert(key.clone(), uid.clone()),
            None => self.owners.remove(&key),
        };
        if let Some(before) = &before
            && Some(before) != owner.as_ref()
            && let Some(owned) = self.owned.get_mut(before)
        {
            owned.remove(&key.1);
            if owned.pods.is_empty() {
                self.owned.remove(before);
            }
        }
        let orphan = controller.is_none() && !gone && is_active(&pod);
        if orphan {
            self.orphans.insert(key.clone(), pod.clone());
        } else {
            self.orphans.remove(&key);
        }
        if let Some(uid) = &owner {
            self.owned.entry(uid.clone()).or_default().insert(key.1, pod.clone());
        }
        Concerned { before, after: owner, orphan: orphan.then_some(pod) }
    }
}
