//! All simulated nodes and their pods: what informers and timers bring is handed to the right one,
//! and what comes of it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use aerostat_clock::Stream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;

use super::addresses::Addresses;
use super::kwok;
use super::node::{self, Node};
use super::pod::{Context, Pod, Stage, Step};
use super::settings::Settings;
use super::status;
use super::texts::Note;
use super::timers::Timers;
use crate::events;
use crate::informer::Change;
use crate::registry::{Cluster, DeleteOptions, leases};

/// Namespace and name.
type Key = (String, String);

/// What a timer is for.
#[derive(Debug)]
pub(super) enum Action {
    /// A node, by name and identity, becomes Ready.
    NodeReady(String, u64),
    /// A node looks at its lease and at its status.
    Look(String, u64),
    Pod(u64, Step),
}

pub(super) struct Kubelets {
    cluster: Cluster,
    settings: Arc<Settings>,
    pub(super) timers: Timers<Action>,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<u64, Pod>,
    pod_ids: BTreeMap<Key, u64>,
    /// Pods by the name of their node, the unknown nodes' pods too.
    pods_by_node: BTreeMap<String, BTreeSet<u64>>,
    /// Bound to a node that is not known, or not simulated.
    elsewhere: BTreeMap<String, BTreeMap<Key, Arc<core::Pod>>>,
    addresses: Addresses,
    ids: Stream,
    pulls: Stream,
    last_id: u64,
    /// How many machines have been given an address here.
    addressed: u64,
}

fn key(pod: &core::Pod) -> Key {
    let metadata = &pod.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn node_of(pod: &core::Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

impl Kubelets {
    pub(super) fn new(cluster: Cluster, settings: Arc<Settings>) -> Self {
        let seeds = cluster.seeds();
        Self {
            cluster,
            settings,
            timers: Timers::default(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            pod_ids: BTreeMap::new(),
            pods_by_node: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            addresses: Addresses::default(),
            ids: seeds.stream("kubelet/ids"),
            pulls: seeds.stream("kubelet/pull"),
            last_id: 0,
            addressed: 0,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn now(&self) -> Timestamp {
        self.cluster.clock().now()
    }

    pub(super) fn node_changed(&mut self, change: Change<core::Node>) {
        let (object, ip) = match change {
            Change::Applied { new, .. } => {
                let ip = node::simulated(&new);
                if ip.is_none() && kwok::plays(&new) {
                    self.address(&new);
                }
                (new, ip)
            }
            Change::Deleted(last) => (last, None),
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        if let Some(known) = self.nodes.get_mut(&name) {
            if ip == Some(known.ip) && known.object.metadata.uid == object.metadata.uid {
                known.object = object;
                return;
            }
            self.remove_node(&name);
        }
        if let Some(ip) = ip {
            self.add_node(&name, object, ip);
        }
    }

    /// Gives an address to a machine that came without one; the node is taken up with it.
    fn address(&mut self, node: &core::Node) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let ip = kwok::address(self.addressed);
        self.addressed += 1;
        if let Err(error) = kwok::give_address(&self.cluster, name, ip) {
            tracing::debug!(node = name, %error, "node address not posted");
        }
    }

    fn add_node(&mut self, name: &str, object: Arc<core::Node>, ip: Ipv4Addr) {
        let now = self.now();
        let id = self.next_id();
        let mut node = Node::new(id, object, ip, now);
        self.addresses.add_node(name, ip);
        if let Some(since) = node.ready_since() {
            node.become_ready(since, self.settings.network_ready_delay);
        } else {
            node.announce(&self.cluster);
            let delay = SignedDuration::try_from(self.settings.node_ready_delay.0);
            let at = now.saturating_add(delay.unwrap_or(SignedDuration::MAX));
            let action = Action::NodeReady(name.to_owned(), id);
            self.timers.put(at.unwrap_or(Timestamp::MAX), action);
        }
        if !node.kwok
            && let Err(error) = node.register_drivers(&self.cluster)
        {
            tracing::debug!(node = name, %error, "CSINode not written");
        }
        if let Err(error) = node.post(&self.cluster, now) {
            tracing::debug!(node = name, %error, "node status not posted");
        }
        self.nodes.insert(name.to_owned(), node);
        self.look(name, now);
        for pod in self.elsewhere.remove(name).into_iter().flat_map(BTreeMap::into_values) {
            self.add_pod(pod);
        }
    }

    /// The machine is gone, and everything on it.
    fn remove_node(&mut self, name: &str) {
        if self.nodes.remove(name).is_some() {
            self.cluster.abandon_lease(name);
        }
        self.addresses.remove_node(name);
        for id in self.pods_by_node.remove(name).unwrap_or_default() {
            if let Some(pod) = self.pods.remove(&id) {
                let key = key(&pod.object);
                self.pod_ids.remove(&key);
                // Its object may outlive the machine, and meet another of the same name.
                self.elsewhere.entry(name.to_owned()).or_default().insert(key, pod.object);
            }
        }
    }

    /// Sees to the lease, posts the status if it is time, and sets when to look again.
    fn look(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if node.looks_at != now {
            // Something has made it look earlier.
            return;
        }
        if !self.cluster.keeps_lease(name)
            && let Err(error) = node.keep_lease(&self.cluster, now)
        {
            tracing::debug!(node = name, %error, "lease not renewed");
        }
        if node.wants_post(now)
            && let Err(error) = node.post(&self.cluster, now)
        {
            tracing::debug!(node = name, %error, "node status not posted");
        }
        node.looks_at = node.next_look(now);
        self.timers.put(node.looks_at, Action::Look(name.to_owned(), node.id));
    }

    /// A lease is gone: if it is that of a node that lives, it is made anew at the next beat.
    pub(super) fn lease_changed(&mut self, change: &Change<Lease>) {
        let Change::Deleted(lease) = change else { return };
        let now = self.now();
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        let is_of_node = lease.metadata.namespace.as_deref() == Some(leases::NAMESPACE);
        if let Some(node) = self.nodes.get_mut(name).filter(|_| is_of_node) {
            self.cluster.abandon_lease(name);
            node.looks_at = node.next_beat(now);
            self.timers.put(node.looks_at, Action::Look(name.to_owned(), node.id));
        }
    }

    fn node_ready(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.become_ready(now, self.settings.network_ready_delay);
        if let Err(error) = node.post(&self.cluster, now) {
            tracing::debug!(node = name, %error, "node status not posted");
        }
        node.record(&self.cluster, "NodeReady", &format!("Node {name} status is now: NodeReady"));
    }

    pub(super) fn pod_changed(&mut self, change: Change<core::Pod>) {
        let (object, gone) = match change {
            Change::Applied { new, .. } => (new, false),
            Change::Deleted(last) => (last, true),
        };
        let Some(node) = node_of(&object) else { return };
        let key = key(&object);
        let known = self.pod_ids.get(&key).copied();
        let same = known
            .and_then(|id| self.pods.get(&id))
            .is_some_and(|known| known.object.metadata.uid == object.metadata.uid);
        match known {
            Some(id) if same && !gone => self.update_pod(id, object),
            Some(id) => {
                self.remove_pod(id);
                if !gone {
                    self.add_pod(object);
                }
            }
            None if gone => {
                if let Some(pods) = self.elsewhere.get_mut(node) {
                    pods.remove(&key);
                    if pods.is_empty() {
                        self.elsewhere.remove(node);
                    }
                }
            }
            None => self.add_pod(object),
        }
    }

    fn add_pod(&mut self, object: Arc<core::Pod>) {
        let Some(node) = node_of(&object).map(str::to_owned) else { return };
        let key = key(&object);
        if !self.nodes.contains_key(&node) {
            self.elsewhere.entry(node).or_default().insert(key, object);
            return;
        }
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return;
        }
        let now = self.now();
        let id = self.next_id();
        self.pod_ids.insert(key, id);
        self.pods_by_node.entry(node.clone()).or_default().insert(id);
        let mut pod = Pod::new(object, &node, now);
        let refusal = self.nodes.get_mut(&node).and_then(|node| node.admit(&mut pod));
        self.pods.insert(id, pod);
        self.with_pod(id, now, |pod, cx| match refusal {
            Some((reason, message)) => pod.reject(&reason, &message, cx),
            None if pod.deleting() => pod.delete(cx),
            None => pod.begin(cx),
        });
    }

    fn update_pod(&mut self, id: u64, object: Arc<core::Pod>) {
        let now = self.now();
        self.with_pod(id, now, |pod, cx| {
            let old = std::mem::replace(&mut pod.object, object);
            let grace = |pod: &core::Pod| {
                let metadata = &pod.metadata;
                (metadata.deletion_timestamp.is_some(), metadata.deletion_grace_period_seconds)
            };
            if grace(&old) != grace(&pod.object) {
                pod.delete(cx);
            }
            // Readiness gates are other people's conditions.
            let conditions = |pod: &core::Pod| pod.status.as_ref()?.conditions.clone();
            let gates = pod.spec().and_then(|spec| spec.readiness_gates.as_deref());
            if gates.is_some_and(|gates| !gates.is_empty())
                && conditions(&old) != conditions(&pod.object)
            {
                pod.dirty = true;
            }
        });
    }

    /// The API lost the pod: what still runs of it is stopped unseen.
    fn remove_pod(&mut self, id: u64) {
        let Some(pod) = self.pods.remove(&id) else { return };
        self.pod_ids.remove(&key(&pod.object));
        if let Some(pods) = self.pods_by_node.get_mut(&pod.node) {
            pods.remove(&id);
        }
        if pod.stage != Stage::Ended
            && let Some(node) = self.nodes.get_mut(&pod.node)
        {
            node.release(&pod);
            self.addresses.give_back(&pod.node, pod.ip);
        }
        let mut notes = Vec::new();
        pod.vanish(&mut notes);
        record(&self.cluster, &pod, &notes);
    }

    /// Lets a pod act, then carries out what came of it.
    fn with_pod(&mut self, id: u64, now: Timestamp, act: impl FnOnce(&mut Pod, &mut Context<'_>)) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        let Some(node) = self.nodes.get_mut(&pod.node) else { return };
        let (mut timers, mut notes) = (Vec::new(), Vec::new());
        let before = pod.stage;
        let seeds = self.cluster.seeds();
        let mut cx = Context {
            now,
            settings: &self.settings,
            seeds: &seeds,
            node,
            addresses: &mut self.addresses,
            ids: &mut self.ids,
            pulls: &mut self.pulls,
            timers: &mut timers,
            notes: &mut notes,
        };
        act(pod, &mut cx);
        for (at, step) in timers {
            self.timers.put(at, Action::Pod(id, step));
        }
        let looks_at = node.next_look(now);
        if looks_at < node.looks_at {
            node.looks_at = looks_at;
            self.timers.put(looks_at, Action::Look(pod.node.clone(), node.id));
        }
        let ended = pod.stage == Stage::Ended && before != Stage::Ended;
        if ended {
            node.release(pod);
            self.addresses.give_back(&pod.node, pod.ip);
        }
        let host_ip = node.ip.to_string();
        let wants_post = pod.wants_post();
        pod.dirty &= !wants_post;
        let release = pod.stage == Stage::Ended && pod.deleting() && !pod.released;
        pod.released |= release;
        let pod = &self.pods[&id];
        record(&self.cluster, pod, &notes);
        if wants_post {
            post(&self.cluster, pod, &host_ip, now);
        }
        if release {
            release_pod(&self.cluster, pod);
        }
    }

    /// Carries out what is due, as of when it was due: so a chain of steps does not drift.
    pub(super) fn run_due(&mut self, now: Timestamp) {
        for _ in 0..super::BATCH {
            let Some((at, action)) = self.timers.pop(now) else { return };
            let same = |name: &str, id: u64| self.nodes.get(name).is_some_and(|n| n.id == id);
            match action {
                Action::NodeReady(name, id) if same(&name, id) => self.node_ready(&name, at),
                Action::Look(name, id) if same(&name, id) => self.look(&name, at),
                Action::NodeReady(..) | Action::Look(..) => {}
                Action::Pod(id, step) => self.with_pod(id, at, |pod, cx| pod.step(step, cx)),
            }
        }
    }
}

fn record(cluster: &Cluster, pod: &Pod, notes: &[Note]) {
    for note in notes {
        let mut regarding = events::reference(&*pod.object);
        regarding.field_path = note.container.and_then(|index| pod.field_path(index));
        let host = Some(pod.node.as_str());
        let (reason, message) = (&note.reason, &note.message);
        events::record(cluster, "kubelet", host, &regarding, note.event_type, reason, message);
    }
}

fn post(cluster: &Cluster, pod: &Pod, host_ip: &str, now: Timestamp) {
    let (namespace, name) = key(&pod.object);
    let uid = &pod.object.metadata.uid;
    let result = cluster.modify_status::<core::Pod>(&namespace, &name, |object| {
        if object.metadata.uid == *uid {
            status::apply(pod, host_ip, now, object.status.get_or_insert_default());
        }
    });
    if let Err(error) = result {
        tracing::debug!(namespace, name, %error, "pod status not posted");
    }
}

/// Tells the API that nothing of a deleted pod runs any more.
fn release_pod(cluster: &Cluster, pod: &Pod) {
    let (namespace, name) = key(&pod.object);
    let options = DeleteOptions {
        grace_period: Some(0),
        uid: pod.object.metadata.uid.clone(),
        ..DeleteOptions::default()
    };
    if let Err(error) = cluster.delete::<core::Pod>(&namespace, &name, &options) {
        tracing::debug!(namespace, name, %error, "pod not removed");
    }
}
