//! One look at one DaemonSet.
//!
//! Source: Kubernetes `pkg/controller/daemon/{daemon_controller,update}.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::pods::{HASH_LABEL, Placement, pin, target, template};
use super::{COMPONENT, Failures};
use crate::events::EventType;
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::Key;
use crate::workloads::deployment::scaled;
use crate::workloads::history;
use crate::workloads::owner::key;
use crate::workloads::pod_control::{PodControl, is_namespace_terminating};
use crate::workloads::pods::{is_available, is_ready, phase, ready_since};

/// So many pods are created, and so many deleted, in one look.
const BURST: usize = 250;
/// The first pause before a failed pod is replaced; each further one is twice as long.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);
/// The longest.
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// Brings `set` one step further; `pods` are all pods that it owns. Returns when to look again
/// even if nothing happens.
///
/// # Errors
///
/// What the registry answers to a write; what was done until then stays.
pub(super) fn run(
    cluster: &Cluster,
    set: &DaemonSet,
    nodes: &BTreeMap<String, Arc<Node>>,
    pods: &[Arc<Pod>],
    failures: &mut BTreeMap<(Key, String), Failures>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    let spec = set.spec.clone().unwrap_or_default();
    let (current, old) = history::current(cluster, set, &spec.template, HASH_LABEL)?;
    let hash = history::hash(&current, HASH_LABEL);
    let template = template(set, &hash);
    let placement = Placement::of(&template)?;
    let mut by_node: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(target(pod).unwrap_or_default()).or_default().push(pod);
    }
    for pods in by_node.values_mut() {
        // Bound before unbound, older before newer.
        pods.sort_by_key(|pod| {
            let bound = crate::workloads::pods_by_node::node_of(pod).is_some();
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (!bound, created, pod.metadata.name.clone())
        });
    }
    let mut sync = Sync {
        set,
        control: PodControl::new(cluster, COMPONENT, set),
        by_node,
        placement,
        hash,
        min_ready: spec.min_ready_seconds.unwrap_or(0),
        now,
        again: None,
        create: Vec::new(),
        delete: Vec::new(),
    };
    sync.manage(nodes, failures);
    let strategy = spec.update_strategy.unwrap_or_default();
    if sync.create.is_empty()
        && sync.delete.is_empty()
        && strategy.type_.as_deref() != Some("OnDelete")
    {
        let desired = nodes.values().filter(|node| sync.placement.on(node).0).count();
        let desired = i32::try_from(desired).unwrap_or(i32::MAX);
        let limits = strategy.rolling_update.unwrap_or_default();
        let limit = |value: Option<_>, default: i32| {
            let value = value.map_or(default, |value| scaled(&value, desired, true));
            usize::try_from(value).unwrap_or(0)
        };
        match (limit(limits.max_surge, 0), limit(limits.max_unavailable, 1)) {
            (0, most) => sync.replace(most.max(1)),
            (most, _) => sync.surge(nodes, most),
        }
    }
    let acted = sync.act(&template);
    let status = sync.status(nodes);
    if set.status.as_ref() != Some(&status) {
        let (namespace, name) = key(&set.metadata);
        cluster.modify_status::<DaemonSet>(&namespace, &name, |set| {
            set.status = Some(status.clone());
        })?;
    }
    acted?;
    let limit = usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
    let live: BTreeSet<String> = pods
        .iter()
        .filter_map(|pod| pod.metadata.labels.as_ref()?.get(HASH_LABEL))
        .map(|hash| format!("{}-{hash}", set.metadata.name.as_deref().unwrap_or_default()))
        .collect();
    history::truncate(cluster, &old, &live, limit)?;
    Ok(sync.again)
}

/// The new and the old pod of a node, if they are there.
type Pair<'a> = (Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>);

struct Sync<'a> {
    set: &'a DaemonSet,
    control: PodControl<'a>,
    /// Pods by the node that they are on or pinned to, the one to keep first.
    by_node: BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
    placement: Placement,
    hash: String,
    min_ready: i32,
    now: Timestamp,
    again: Option<Timestamp>,
    /// Nodes that get a pod.
    create: Vec<String>,
    /// Pods that go.
    delete: Vec<Arc<Pod>>,
}

impl<'a> Sync<'a> {
    fn look_again(&mut self, when: Timestamp) {
        self.again = Some(self.again.map_or(when, |again| again.min(when)));
    }

    fn available(&self, pod: &Pod) -> bool {
        is_available(pod, self.min_ready, self.now)
    }

    fn is_new(&self, pod: &Pod) -> bool {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(HASH_LABEL)) == Some(&self.hash)
    }

    fn surges(&self) -> bool {
        let strategy = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = limits.and_then(|limits| limits.max_surge.as_ref());
        surge.is_some_and(|surge| scaled(surge, 100, true) > 0)
    }

    /// One pod on each node that should have one, none elsewhere, none that has ended.
    fn manage(
        &mut self,
        nodes: &BTreeMap<String, Arc<Node>>,
        failures: &mut BTreeMap<(Key, String), Failures>,
    ) {
        for (name, node) in nodes {
            let (should_run, may_stay) = self.placement.on(node);
            let pods = self.by_node.get(name.as_str()).cloned().unwrap_or_default();
            if pods.is_empty() {
                if should_run {
                    self.create.push(name.clone());
                }
                continue;
            }
            let alive = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            if !may_stay {
                self.delete.extend(alive.map(|pod| Arc::clone(pod)));
                continue;
            }
            let mut running = Vec::new();
            for pod in alive {
                match phase(pod) {
                    "Failed" => self.replace_failed(name, pod, failures),
                    "Succeeded" => {
                        let message = ended("succeeded", "delete", pod, name);
                        self.control.tell(EventType::Normal, "SucceededDaemonPod", &message);
                        self.delete.push(Arc::clone(pod));
                    }
                    _ => running.push(*pod),
                }
            }
            if !self.surges() {
                self.delete.extend(running.iter().skip(1).map(|pod| Arc::clone(pod)));
            } else if running.is_empty() && should_run && self.delete.is_empty() {
                self.create.push(name.clone());
            } else if running.len() > 1 {
                self.settle_surge(&running);
            }
        }
        // Pinned to a node that is gone: no scheduler will ever take them.
        let lost = self.by_node.iter().filter(|(node, _)| !nodes.contains_key(**node));
        let lost = lost.flat_map(|(_, pods)| pods);
        let lost = lost.filter(|pod| crate::workloads::pods_by_node::node_of(pod).is_none());
        let lost: Vec<_> = lost.map(|pod| Arc::clone(pod)).collect();
        self.delete.extend(lost);
    }

    fn replace_failed(
        &mut self,
        node: &str,
        pod: &Arc<Pod>,
        failures: &mut BTreeMap<(Key, String), Failures>,
    ) {
        let key = (key(&self.set.metadata), node.to_owned());
        let before = failures.get(&key).copied();
        if let Some(before) = before
            && self.now < before.until
        {
            self.look_again(before.until);
            return;
        }
        // A long quiet time makes it begin anew.
        let count = before.filter(|b| self.now < b.until + LONGEST * 2).map_or(0, |b| b.count);
        let pause = PAUSE.saturating_mul(1 << count.min(10)).min(LONGEST);
        failures.insert(key, Failures { count: count + 1, until: self.now + pause });
        let message = ended("failed", "kill", pod, node);
        self.control.tell(EventType::Warning, "FailedDaemonPod", &message);
        self.delete.push(Arc::clone(pod));
    }

    /// With a surge an old and a new pod may be side by side until the new one is available.
    fn settle_surge(&mut self, running: &[&'a Arc<Pod>]) {
        let (mut newest, mut oldest) = (None, None);
        for pod in running {
            let slot = if self.is_new(pod) { &mut newest } else { &mut oldest };
            if slot.is_none() {
                *slot = Some(*pod);
            } else {
                self.delete.push(Arc::clone(pod));
            }
        }
        if let (Some(new), Some(old)) = (newest, oldest)
            && (!is_ready(old) || self.available(new))
        {
            self.delete.push(Arc::clone(old));
        }
    }

    /// The new and the old pod of a node; `None` if there is more than one of either.
    fn pair(&self, pods: &[&'a Arc<Pod>]) -> Option<Pair<'a>> {
        let (mut new, mut old) = (None, None);
        for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let slot = if self.is_new(pod) { &mut new } else { &mut old };
            if slot.replace(*pod).is_some() {
                return None;
            }
        }
        Some((new, old))
    }

    /// Deletes old pods, with at most `most` nodes without an available pod.
    fn replace(&mut self, most: usize) {
        let (mut unavailable, mut candidates) = (0, Vec::new());
        for pods in self.by_node.values() {
            match self.pair(pods) {
                Some((None, Some(old))) if self.available(old) => candidates.push(Arc::clone(old)),
                Some((None, Some(old))) => {
                    self.delete.push(Arc::clone(old));
                    unavailable += 1;
                }
                Some((Some(new), None)) if self.available(new) => {}
                _ => unavailable += 1,
            }
        }
        self.delete.extend(candidates.into_iter().take(most.saturating_sub(unavailable)));
    }

    /// Creates new pods beside old ones, at most `most` at a time.
    fn surge(&mut self, nodes: &BTreeMap<String, Arc<Node>>, most: usize) {
        let (mut surging, mut candidates) = (0, Vec::new());
        for (name, pods) in &self.by_node {
            let should_run = nodes.get(*name).is_some_and(|node| self.placement.on(node).0);
            match self.pair(pods) {
                None => surging += 1,
                Some((None, Some(old))) if !self.available(old) => {
                    if should_run {
                        self.create.push((*name).to_owned());
                    } else {
                        self.delete.push(Arc::clone(old));
                    }
                }
                Some((None, Some(_))) if should_run => candidates.push((*name).to_owned()),
                Some((Some(new), Some(old))) => {
                    if self.available(new) {
                        self.delete.push(Arc::clone(old));
                    } else {
                        surging += 1;
                    }
                }
                _ => {}
            }
        }
        self.create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
    }

    fn act(&mut self, template: &Pod) -> Result<(), Status> {
        if self.create.len() > BURST || self.delete.len() > BURST {
            self.look_again(self.now);
        }
        for node in self.create.iter().take(BURST) {
            let mut pod = template.clone();
            pin(&mut pod, node);
            let pod = serde_json::to_value(&pod)
                .map_err(|error| Status::new(500, "InternalError", error.to_string()))?;
            match self.control.create(&pod) {
                Err(status) if is_namespace_terminating(&status) => break,
                result => result?,
            };
        }
        self.delete.iter().take(BURST).try_for_each(|pod| self.control.delete(pod))
    }

    fn status(&mut self, nodes: &BTreeMap<String, Arc<Node>>) -> DaemonSetStatus {
        let mut status = DaemonSetStatus {
            observed_generation: self.set.metadata.generation,
            ..self.set.status.clone().unwrap_or_default()
        };
        let (mut desired, mut current, mut misscheduled) = (0, 0, 0);
        let (mut ready, mut updated, mut available) = (0, 0, 0);
        let mut next = None::<Timestamp>;
        for (name, node) in nodes {
            let first = self.by_node.get(name.as_str()).and_then(|pods| pods.first());
            if !self.placement.on(node).0 {
                misscheduled += i32::from(first.is_some());
                continue;
            }
            desired += 1;
            let Some(pod) = first else { continue };
            current += 1;
            updated += i32::from(self.is_new(pod));
            let Some(since) = ready_since(pod) else { continue };
            ready += 1;
            if self.available(pod) {
                available += 1;
            } else {
                let when = since + SignedDuration::from_secs(self.min_ready.into());
                next = Some(next.map_or(when, |next| next.min(when)));
            }
        }
        if let Some(when) = next {
            self.look_again(when);
        }
        let some = |number: i32| Some(number).filter(|number| *number != 0);
        status.desired_number_scheduled = desired;
        status.current_number_scheduled = current;
        status.number_misscheduled = misscheduled;
        status.number_ready = ready;
        status.updated_number_scheduled = some(updated);
        status.number_available = some(available);
        status.number_unavailable = some(desired - available);
        status
    }
}

fn ended(how: &str, what: &str, pod: &Pod, node: &str) -> String {
    let (namespace, name) = key(&pod.metadata);
    format!("Found {how} daemon pod {namespace}/{name} on node {node}, will try to {what} it")
}
