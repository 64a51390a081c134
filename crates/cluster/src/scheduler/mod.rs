//! The scheduler: default profile, one pod after the other.
//!
//! ```text
//! informers ──> cache (nodes, pods on them, nominations) ──┐
//!     └──────> hints ──> queue ──pop──> attempt: filter, score ──> writes: bind, event
//!                          ^              └ nothing fits: preemption ──> writes: condition,
//!                          └───────────────────────────────────────────  event, victims
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `queue` | which pod is next; back-off; pods that wait for a change |
//! | `hints` | which pods a change may help |
//! | `class` | pods that are alike, so that what is found out about one holds for all |
//! | `cache` | nodes and what is on them |
//! | `filter`, `score`, `preemption` | the decisions; predicates are the engine's |
//! | `volumes` | what claims demand, and pods that wait for their volumes |
//! | `defaults` | which pods a pod is spread with that does not say so |
//! | `attempt`, `writes` | one attempt, and what it writes |
//! | `messages`, `events` | the texts |
//!
//! Behaviour is kube-scheduler's of v1.36 (kubernetes `pkg/scheduler`) with these differences: all
//! nodes are looked at, not a sample; equals are drawn from a seeded stream; `hints` and `queue`
//! say where they wake fewer pods. Volumes are counted pod by pod for attach limits, and
//! `ReadWriteOncePod` is not heeded. A pod with constraints that are not judged (resource claims) is
//! not placed, and told so.

mod attempt;
mod cache;
mod class;
mod defaults;
mod events;
mod feeds;
mod filter;
mod hints;
mod messages;
mod pdb;
mod pod;
mod preemption;
mod queue;
mod score;
#[cfg(test)]
mod tests;
mod volumes;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_clock::Stream;
use aerostat_engine::node::Node;
use aerostat_engine::pod::{Pod, PodKey};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::informer::Change;
use crate::registry::Cluster;
use cache::Cache;
use class::{Class, ClassId, Classes};
use defaults::Services;
use events::Pace;
use feeds::{Feeds, News};
use pdb::Budget;
use pod::PodInfo;
use queue::{Queue, Wake};
use volumes::Volumes;

pub(crate) use volumes::SELECTED_NODE;

/// So many attempts are made before others get their turn.
const ATTEMPTS_AT_ONCE: u32 = 32;

/// Places pods on nodes for as long as the cluster is there.
pub async fn run(cluster: Cluster) {
    let mut feeds = Feeds::new(&cluster);
    let mut scheduler = Scheduler::new(cluster.clone());
    let mut attempts = 0_u32;
    loop {
        while let Some(news) = feeds.try_next() {
            scheduler.on_news(news);
        }
        scheduler.wake_for_freed_room();
        let now = cluster.clock().now();
        scheduler.queue.flush(now);
        scheduler.expire_bindings(now);
        if let Some(key) = scheduler.queue.pop(now) {
            scheduler.attempt(&key);
            attempts += 1;
            if attempts == ATTEMPTS_AT_ONCE {
                attempts = 0;
                tokio::task::yield_now().await;
            }
            continue;
        }
        let due = scheduler.queue.next_timer().into_iter().chain(scheduler.volumes.next_timer());
        let due = due.min();
        let timer = async {
            match due {
                Some(due) => cluster.clock().sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            news = feeds.next() => match news {
                Some(news) => scheduler.on_news(news),
                None => return,
            },
            () = timer => {}
        }
    }
}

struct Scheduler {
    cluster: Cluster,
    cache: Cache,
    classes: Classes,
    queue: Queue,
    budgets: BTreeMap<PodKey, Budget>,
    services: Services,
    volumes: Volumes,
    /// Nodes on which room has become free.
    freed: BTreeSet<String>,
    /// How fast repeats are told.
    pace: Pace,
    stream: Stream,
}

impl Scheduler {
    fn new(cluster: Cluster) -> Self {
        let stream = cluster.seeds().stream("scheduler");
        Self {
            cluster,
            cache: Cache::default(),
            classes: Classes::default(),
            queue: Queue::default(),
            budgets: BTreeMap::new(),
            services: Services::default(),
            volumes: Volumes::default(),
            freed: BTreeSet::new(),
            pace: Pace::default(),
            stream,
        }
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Namespace(change) => self.on_namespace(&change),
            News::Service(change) => self.services.on_service(&change),
            News::StorageClass(change) => self.on_storage_class(&change),
            News::Volume(change) => self.on_volume(&change),
            News::Claim(change) => self.on_claim(&change),
            News::CsiNode(change) => self.on_csi_node(&change),
            News::Node(change) => self.on_node(change),
            News::Pod(change) => self.on_pod(change),
            News::Budget(change) => self.on_budget(&change),
        }
    }

    fn on_namespace(&mut self, change: &Change<core::Namespace>) {
        let (Change::Applied { new: namespace, .. } | Change::Deleted(namespace)) = change;
        let none = BTreeMap::new();
        let labels = namespace.metadata.labels.as_ref().unwrap_or(&none);
        let labels = matches!(change, Change::Applied { .. }).then_some(labels);
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        self.cache.set_namespace(name, labels);
    }

    fn on_node(&mut self, change: Change<core::Node>) {
        let new = match change {
            Change::Deleted(node) => {
                let name = node.metadata.name.as_deref().unwrap_or_default();
                let old = self.cache.remove_node(name);
                self.leave_node(name);
                self.wake_for_domains(old.as_ref(), None);
                return;
            }
            Change::Applied { new, .. } => new,
        };
        let node = match Node::from_k8s(&new) {
            Ok(node) => node,
            Err(error) => {
                tracing::error!(node = ?new.metadata.name, error, "node cannot be read");
                return;
            }
        };
        self.set_node(node);
    }

    /// A node came or changed.
    fn set_node(&mut self, mut node: Node) {
        node.attach_limits = self.volumes.limits(&node.name);
        let known = self.cache.slot(&node.name).and_then(|slot| self.cache.at(slot));
        if known.is_some_and(|(known, _)| *known == node) {
            return;
        }
        let old = self.cache.set_node(node.clone());
        let now = self.cluster.clock().now();
        for class in self.queue.unschedulable_classes() {
            let Some(sample) = self.classes.get(class).map(|class| &class.sample) else { continue };
            if hints::node_may_help(sample, old.as_ref(), &node) {
                self.queue.wake_class(class, Wake::Many, now);
            }
        }
        self.wake_for_domains(old.as_ref(), Some(&node));
    }

    fn on_pod(&mut self, change: Change<core::Pod>) {
        let new = match change {
            Change::Deleted(pod) => {
                let key = (
                    pod.metadata.namespace.clone().unwrap_or_default(),
                    pod.metadata.name.clone().unwrap_or_default(),
                );
                self.drop_waiting(&key);
                self.volumes.forget(&key);
                self.displace(&key);
                return;
            }
            Change::Applied { new, old } => {
                if old.is_some_and(|old| !pod::differs(&old, &new)) {
                    return;
                }
                new
            }
        };
        let info = match PodInfo::read(&new) {
            Ok(mut info) => {
                self.volumes.resolve(&mut info);
                Arc::new(info)
            }
            Err(error) => {
                tracing::error!(pod = ?new.metadata.name, error, "pod cannot be read");
                return;
            }
        };
        let key = info.key();
        if info.waits() && self.volumes.is_binding(&key) {
            // It has its node already.
            return;
        }
        self.volumes.forget(&key);
        if info.waits() {
            self.take_waiting(info);
        } else if info.placed() {
            self.drop_waiting(&key);
            self.place(&info);
        } else {
            self.drop_waiting(&key);
            self.displace(&key);
        }
    }

    /// A pod is on a node, or has changed there.
    fn place(&mut self, info: &Arc<PodInfo>) {
        let old = self.cache.place(info);
        if old.as_ref().is_some_and(|old| !info.pod.requests.covers(&old.pod.requests)) {
            self.freed.extend(info.pod.node.clone());
        }
        self.wake_for_pod(old.as_deref(), Some(info));
    }

    /// A pod is on no node any more.
    fn displace(&mut self, key: &PodKey) {
        let Some(old) = self.cache.remove_pod(key) else { return };
        self.freed.extend(old.pod.node.clone());
        self.wake_for_pod(Some(&old), None);
    }

    fn on_budget(&mut self, change: &Change<PodDisruptionBudget>) {
        let (Change::Applied { new: pdb, .. } | Change::Deleted(pdb)) = change;
        let key = (
            pdb.metadata.namespace.clone().unwrap_or_default(),
            pdb.metadata.name.clone().unwrap_or_default(),
        );
        match Budget::read(pdb) {
            Some(budget) if matches!(change, Change::Applied { .. }) => {
                self.budgets.insert(key, budget);
            }
            _ => drop(self.budgets.remove(&key)),
        }
    }

    /// A pod begins to wait, or changed while it waits.
    fn take_waiting(&mut self, info: Arc<PodInfo>) {
        let key = info.key();
        self.volumes.waits(&info);
        let left = self.cache.nominate(&info, info.pod.nominated_node.as_deref());
        self.freed.extend(left);
        let class = self.classes.join(&info, self.cache.topology());
        let now = self.cluster.clock().now();
        let old = self.queue.get(&key).map(|old| (old.class, old.info.clone()));
        if let Some((old_class, old)) = old {
            let same = old_class == class
                && old.pod.gated == info.pod.gated
                && old.pod.uid == info.pod.uid;
            self.classes.leave(old_class);
            if same && let Some(queued) = self.queue.get_mut(&key) {
                queued.info = info;
                return;
            }
            self.queue.remove(&key, now);
        }
        self.queue.add(info, class, now);
    }

    /// A pod waits no longer.
    fn drop_waiting(&mut self, key: &PodKey) {
        let now = self.cluster.clock().now();
        let Some(queued) = self.queue.remove(key, now) else { return };
        self.classes.leave(queued.class);
        self.freed.extend(self.cache.nominate(&queued.info, None));
    }

    /// Wakes the pods that room which has become free may help.
    fn wake_for_freed_room(&mut self) {
        if self.freed.is_empty() {
            return;
        }
        let now = self.cluster.clock().now();
        for name in std::mem::take(&mut self.freed) {
            let Some(slot) = self.cache.slot(&name) else { continue };
            let Some((node, info)) = self.cache.at(slot) else { continue };
            for key in info.nominated.keys() {
                self.queue.wake(key, now);
            }
            for class in self.queue.unschedulable_classes() {
                let Some(class_info) = self.classes.get(class) else { continue };
                if hints::room_may_help(&class_info.sample, node, info) {
                    self.queue.wake_class(class, Wake::One, now);
                }
            }
        }
    }

    /// Wakes the pods that may go somewhere now because of a pod that came, changed or went.
    fn wake_for_pod(&mut self, old: Option<&PodInfo>, new: Option<&PodInfo>) {
        let (old, new) = (old.map(|old| &old.pod), new.map(|new| &new.pod));
        let same = |old: &Pod, new: &Pod| {
            old.labels == new.labels && old.deleting == new.deleting && old.uid == new.uid
        };
        if old.zip(new).is_some_and(|(old, new)| same(old, new)) {
            return;
        }
        let topology = self.cache.topology();
        let helps = |pod: &Pod| hints::pod_may_help(pod, old, new, topology);
        let helped = self.classes.related().filter(|(_, class)| helps(&class.sample.pod));
        let helped: Vec<ClassId> = helped.map(|(id, _)| id).collect();
        self.wake_classes(&helped, Wake::One);
    }

    /// Wakes the pods that may go to other nodes now because of a node that came, changed or went.
    fn wake_for_domains(&mut self, old: Option<&Node>, new: Option<&Node>) {
        let helps = |class: &Class| hints::domains_may_help(class, old, new);
        let helped = self.classes.related().filter(|(_, class)| helps(class));
        let helped: Vec<ClassId> = helped.map(|(id, _)| id).collect();
        self.wake_classes(&helped, Wake::Many);
    }

    fn wake_classes(&mut self, classes: &[ClassId], wake: Wake) {
        let now = self.cluster.clock().now();
        for class in classes {
            self.queue.wake_class(*class, wake, now);
        }
    }
}
