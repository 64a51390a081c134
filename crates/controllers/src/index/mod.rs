//! The cluster as the watches tell it.
//!
//! One task applies the events of all watches, in order, and wakes the controllers that a change
//! concerns. Everything in here is a plain state machine: events in, maps out.

mod backoff;
mod list;
mod mirror;
mod news;
mod storage;
mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use aerostat_api::nodepool::NodeClassRef;
use aerostat_api::{Class, ClassKind, NodeClaim, NodeOverlay, NodePool, labels};
use aerostat_engine::pod::{Pod, PodKey};
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use backoff::Backoff;
pub use mirror::Mirror;
pub use storage::Volumes;
pub use wake::{Triggers, Wakers, wakers};

use crate::context::Context;
use crate::orders::kin;

/// Everything that the controllers know of the cluster.
#[derive(Debug, Default)]
pub struct Index {
    /// Pods as the planner sees them; ended ones are left out.
    pub pods: BTreeMap<PodKey, Arc<Pod>>,
    /// Pods by the node they are bound to.
    pub pods_by_node: BTreeMap<String, BTreeSet<PodKey>>,
    /// Pods by the UID of their controlling owner.
    pub pods_by_owner: BTreeMap<String, BTreeSet<PodKey>>,
    /// Pods that cannot be read, with the reason.
    pub unreadable: BTreeMap<PodKey, String>,
    /// When a pod that waits for a node last came.
    pub last_arrival: Option<Timestamp>,
    /// How many such pods have come so far.
    pub arrivals: u64,
    /// When a pod that is no daemon last came to or went from a node.
    pub last_pod_event: BTreeMap<String, Timestamp>,
    /// Whose pods have run on a node, or ended there: UIDs of their owners, or their own.
    pub served: BTreeMap<String, BTreeSet<String>>,
    /// Nodes.
    pub nodes: Mirror<core::Node>,
    /// NodeClaims.
    pub claims: Mirror<NodeClaim>,
    /// NodePools.
    pub pools: Mirror<NodePool>,
    /// Classes of the provider's kind.
    pub classes: Mirror<Class>,
    /// NodeOverlays.
    pub overlays: Mirror<NodeOverlay>,
    /// ReplicaSets, for the pods they still have to create.
    pub replica_sets: Mirror<ReplicaSet>,
    /// Jobs, for the pods they still have to create.
    pub jobs: Mirror<Job>,
    /// DaemonSets, for what they put on each node.
    pub daemon_sets: Mirror<DaemonSet>,
    /// LimitRanges, for what pods ask for that say nothing.
    pub limit_ranges: Mirror<core::LimitRange>,
    /// Namespaces, for terms that select them by label.
    pub namespaces: Mirror<core::Namespace>,
    /// Persistent volumes, their claims and classes.
    pub volumes: Volumes,
    /// VolumeAttachments, for what a draining node still holds.
    pub attachments: Mirror<VolumeAttachment>,
    /// CSINodes, for how many volumes each node can attach.
    pub csi_nodes: Mirror<CSINode>,
    /// PodDisruptionBudgets, for machines whose pods must stay.
    pub pdbs: Mirror<PodDisruptionBudget>,
    /// Names of claims by the provider ID of their machine.
    claims_by_machine: BTreeMap<String, BTreeSet<String>>,
    /// Names of nodes by the provider ID of their machine.
    nodes_by_machine: BTreeMap<String, BTreeSet<String>>,
    /// Generation and template hash of each pool, as claims were last told of.
    templates: BTreeMap<String, (Option<i64>, Option<String>)>,
    /// Watches that have told everything there is.
    synced: BTreeSet<&'static str>,
    listing: BTreeSet<PodKey>,
}

/// How long a pod must have run for its node to have been of use, if it did not end by itself.
const USE: SignedDuration = SignedDuration::from_secs(10);

/// Kinds that must be known before anything is decided.
const KINDS: usize = 17;

/// What one watch says.
enum Change {
    Pod(Event<core::Pod>),
    Node(Event<core::Node>),
    Claim(Event<NodeClaim>),
    Pool(Event<NodePool>),
    Class(Event<Class>),
    Overlay(Event<NodeOverlay>),
    ReplicaSet(Event<ReplicaSet>),
    Job(Event<Job>),
    DaemonSet(Event<DaemonSet>),
    LimitRange(Event<core::LimitRange>),
    Namespace(Event<core::Namespace>),
    VolumeClaim(Event<core::PersistentVolumeClaim>),
    Volume(Event<core::PersistentVolume>),
    StorageClass(Event<StorageClass>),
    CsiNode(Event<CSINode>),
    Attachment(Event<VolumeAttachment>),
    Pdb(Event<PodDisruptionBudget>),
}

/// Follows the cluster until dropped.
pub async fn run(context: &Context, wakers: Wakers) {
    let mut changes: SelectAll<BoxStream<'_, Change>> = stream::select_all([
        follow(context, Change::Pool),
        follow_kind(context, *context.provider.class_kind(), Change::Class),
        follow(context, Change::Overlay),
        follow(context, Change::Node),
        follow(context, Change::Claim),
        follow(context, Change::ReplicaSet),
        follow(context, Change::Job),
        follow(context, Change::DaemonSet),
        follow(context, Change::LimitRange),
        follow(context, Change::Namespace),
        follow(context, Change::StorageClass),
        follow(context, Change::Volume),
        follow(context, Change::VolumeClaim),
        follow(context, Change::CsiNode),
        follow(context, Change::Attachment),
        follow(context, Change::Pdb),
        follow(context, Change::Pod),
    ]);
    while let Some(change) = changes.next().await {
        let now = context.clock.now();
        let is_news = {
            let mut index = context.index();
            let is_news = index.is_news(&change);
            index.apply(change, now, &wakers) && is_news
        };
        if is_news {
            context.changed();
        }
    }
}

fn follow<K>(context: &Context, wrap: fn(Event<K>) -> Change) -> BoxStream<'_, Change>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    follow_kind(context, K::DynamicType::default(), wrap)
}

fn follow_kind<K>(
    context: &Context,
    kind: K::DynamicType,
    wrap: fn(Event<K>) -> Change,
) -> BoxStream<'_, Change>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let api = Api::<K>::all_with(context.client.clone(), &kind);
    let kind = K::kind(&kind).into_owned();
    let events = watch(api, watcher::Config::default()).backoff(Backoff::of(&kind));
    events
        .filter_map(move |event| {
            let change = match event {
                Ok(event) => Some(wrap(event)),
                Err(error) => {
                    tracing::warn!(%kind, %error, "watch failed; will try again");
                    None
                }
            };
            std::future::ready(change)
        })
        .boxed()
}

impl Index {
    /// Whether a change tells something that a plan could depend on; of pods, [`Index::apply`] finds
    /// out.
    fn is_news(&self, change: &Change) -> bool {
        match change {
            Change::Node(event) => self.nodes.is_news(event, news::of_node),
            Change::Pool(event) => self.pools.is_news(event, news::of_pool),
            Change::ReplicaSet(event) => self.replica_sets.is_news(event, news::of_replica_set),
            Change::Job(event) => self.jobs.is_news(event, news::of_job),
            Change::DaemonSet(event) => self.daemon_sets.is_news(event, news::of_daemon_set),
            Change::Pdb(event) => self.pdbs.is_news(event, news::of_budget),
            _ => true,
        }
    }

    /// Whether every watch has told everything there is.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.len() == KINDS
    }

    /// Whether someone has looked at every NodePool: before that nobody can say what may be
    /// launched, and pods are better off waiting a moment.
    #[must_use]
    pub fn pools_are_known(&self) -> bool {
        let known = |pool: &Arc<NodePool>| {
            let conditions = pool.status.iter().flat_map(|status| &status.conditions);
            let mut conditions = conditions.into_iter();
            conditions.any(|c| c.type_ == "Ready" && c.reason != "AwaitingReconciliation")
        };
        self.pools.values().all(known)
    }

    /// Takes a change in. `false`: it is of a pod, and a plan sees nothing of it.
    fn apply(&mut self, change: Change, now: Timestamp, wakers: &Wakers) -> bool {
        match change {
            Change::Pod(event) => return self.apply_pods(event, now, wakers),
            Change::Node(event) => self.apply_nodes(event, wakers),
            Change::Claim(event) => {
                let machines = &mut self.claims_by_machine;
                let done = self.claims.apply(event, |name, old, claim| {
                    relink(
                        machines,
                        name,
                        [old, claim].map(|claim| claim.and_then(machine_of_claim)),
                    );
                    wakers.claim(name, old, claim);
                });
                if done {
                    self.synced.insert("claims");
                }
            }
            Change::Pool(event) => self.apply_pools(event, wakers),
            Change::Class(event) => {
                let (claims, pools) = (&self.claims, &self.pools);
                let done = self.classes.apply(event, |name, _, _| {
                    wakers.class(name);
                    pools.names().for_each(|pool| wakers.pool(pool));
                    let mine = |claim: &&Arc<NodeClaim>| claim.spec.node_class_ref.name == name;
                    let mine = claims.values().filter(mine);
                    mine.for_each(|claim| wakers.claim_named(&claim.name_any()));
                });
                if done {
                    self.synced.insert("classes");
                }
                self.overlays.names().for_each(|overlay| wakers.overlay(overlay));
            }
            Change::Overlay(event) => {
                if self.overlays.apply(event, |_, _, _| ()) {
                    self.synced.insert("overlays");
                }
                // One overlay decides about others.
                self.overlays.names().for_each(|overlay| wakers.overlay(overlay));
            }
            Change::ReplicaSet(event) => {
                if self.replica_sets.apply(event, |_, _, _| ()) {
                    self.synced.insert("replicasets");
                }
            }
            Change::Job(event) => {
                if self.jobs.apply(event, |_, _, _| ()) {
                    self.synced.insert("jobs");
                }
            }
            Change::DaemonSet(event) => {
                if self.daemon_sets.apply(event, |_, _, _| ()) {
                    self.synced.insert("daemonsets");
                }
            }
            Change::LimitRange(event) => {
                if self.limit_ranges.apply(event, |_, _, _| ()) {
                    self.synced.insert("limitranges");
                }
            }
            Change::Namespace(event) => {
                if self.namespaces.apply(event, |_, _, _| ()) {
                    self.synced.insert("namespaces");
                }
            }
            Change::VolumeClaim(event) => {
                if self.volumes.apply_claim(event) {
                    self.synced.insert("persistentvolumeclaims");
                }
            }
            Change::Volume(event) => {
                if self.volumes.apply_volume(event) {
                    self.synced.insert("persistentvolumes");
                }
            }
            Change::StorageClass(event) => {
                if self.volumes.apply_class(event) {
                    self.synced.insert("storageclasses");
                }
            }
            Change::Attachment(event) => {
                let done = self.attachments.apply(event, |_, old, attachment| {
                    // A node that drains may wait for its volumes.
                    if let Some(attachment) = attachment.or(old) {
                        wakers.node_named(&attachment.spec.node_name);
                    }
                });
                if done {
                    self.synced.insert("volumeattachments");
                }
            }
            Change::CsiNode(event) => {
                if self.csi_nodes.apply(event, |_, _, _| ()) {
                    self.synced.insert("csinodes");
                }
            }
            Change::Pdb(event) => {
                if self.pdbs.apply(event, |_, _, _| ()) {
                    self.synced.insert("poddisruptionbudgets");
                }
            }
        }
        true
    }

    fn apply_nodes(&mut self, event: Event<core::Node>, wakers: &Wakers) {
        let (claims, machines) = (&self.claims_by_machine, &mut self.nodes_by_machine);
        let (pod_events, served) = (&mut self.last_pod_event, &mut self.served);
        let done = self.nodes.apply(event, |name, old, node| {
            let ids = [old, node].map(|node| node.and_then(machine_of_node));
            relink(machines, name, ids);
            if old.zip(node).is_some_and(|(old, node)| !news::of_node(old, node)) {
                return;
            }
            // The claim of a node that went waits for just that.
            let names = ids.into_iter().flatten().filter_map(|id| claims.get(id));
            names.flatten().for_each(|claim| wakers.claim_named(claim));
            wakers.node_named(name);
            if node.is_none() {
                pod_events.remove(name);
                served.remove(name);
            }
        });
        if done {
            self.synced.insert("nodes");
        }
    }

    fn apply_pools(&mut self, event: Event<NodePool>, wakers: &Wakers) {
        let (claims, templates) = (&self.claims, &mut self.templates);
        let done = self.pools.apply(event, |name, _, pool| {
            wakers.pool(name);
            let template = pool.map(|pool| {
                let hash = pool.annotations().get(labels::NODEPOOL_HASH).cloned();
                (pool.metadata.generation, hash)
            });
            let before = match template.clone() {
                Some(template) => templates.insert(name.to_owned(), template),
                None => templates.remove(name),
            };
            if before != template {
                // Its claims may have drifted; its counters do not concern them.
                let mine = |claim: &&Arc<NodeClaim>| {
                    claim.labels().get(labels::NODEPOOL).is_some_and(|pool| pool == name)
                };
                let mine = claims.values().filter(mine);
                mine.for_each(|claim| wakers.claim_named(&claim.name_any()));
            }
        });
        if done {
            self.synced.insert("pools");
        }
        self.overlays.names().for_each(|overlay| wakers.overlay(overlay));
    }

    fn apply_pods(&mut self, event: Event<core::Pod>, now: Timestamp, wakers: &Wakers) -> bool {
        match event {
            Event::Apply(pod) => return self.apply_pod(&pod, now, wakers),
            Event::Delete(pod) => return self.remove_pod(&key_of(&pod), now, wakers),
            Event::Init => self.listing.clear(),
            Event::InitApply(pod) => {
                self.listing.insert(key_of(&pod));
                self.apply_pod(&pod, now, wakers);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                let lost: Vec<PodKey> =
                    self.pods.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in lost {
                    self.remove_pod(&key, now, wakers);
                }
                self.synced.insert("pods");
            }
        }
        true
    }

    /// Whether a plan sees something of it.
    fn apply_pod(&mut self, object: &core::Pod, now: Timestamp, wakers: &Wakers) -> bool {
        let key = key_of(object);
        let pod = match Pod::from_k8s(object) {
            Ok(pod) => pod,
            Err(error) => {
                self.remove_pod(&key, now, wakers);
                self.unreadable.insert(key, error);
                return true;
            }
        };
        if pod.terminal {
            self.note_served(&pod);
            return self.remove_pod(&key, now, wakers);
        }
        let was_unreadable = self.unreadable.remove(&key).is_some();
        let old = self.pods.get(&key).cloned();
        let is_news = was_unreadable || old.as_ref().is_none_or(|old| news::of_pod(old, &pod));
        if old.is_none() && pod.node.is_none() {
            self.last_arrival = Some(now);
            self.arrivals += 1;
        }
        let moved = old.as_ref().is_none_or(|old| old.node != pod.node);
        if moved || old.as_ref().is_some_and(|old| old.deleting != pod.deleting) {
            self.unlink(old.as_deref());
            self.note_pod_event(&pod, now, wakers);
        }
        if let Some(node) = &pod.node {
            self.pods_by_node.entry(node.clone()).or_default().insert(key.clone());
        }
        if let Some(owner) = &pod.owner {
            self.pods_by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        self.pods.insert(key, Arc::new(pod));
        is_news
    }

    /// Whether it was there.
    fn remove_pod(&mut self, key: &PodKey, now: Timestamp, wakers: &Wakers) -> bool {
        let was_unreadable = self.unreadable.remove(key).is_some();
        if let Some(pod) = self.pods.remove(key) {
            let ran = pod.started.is_some_and(|at| now.duration_since(at) >= USE);
            if ran {
                self.note_served(&pod);
            }
            self.unlink(Some(&pod));
            self.note_pod_event(&pod, now, wakers);
            return true;
        }
        was_unreadable
    }

    /// A pod made use of its node.
    fn note_served(&mut self, pod: &Pod) {
        if let Some(node) = &pod.node {
            self.served.entry(node.clone()).or_default().insert(kin(pod).to_owned());
        }
    }

    /// Takes a pod out of the maps by node and owner.
    fn unlink(&mut self, pod: Option<&Pod>) {
        let Some(pod) = pod else { return };
        let key = (pod.namespace.clone(), pod.name.clone());
        let owner = pod.owner.as_ref().map(|owner| &owner.uid);
        for (map, of) in
            [(&mut self.pods_by_node, pod.node.as_ref()), (&mut self.pods_by_owner, owner)]
        {
            if let Some(of) = of
                && let Some(set) = map.get_mut(of)
            {
                set.remove(&key);
                if set.is_empty() {
                    map.remove(of);
                }
            }
        }
    }

    /// A pod came to its node or left it: the node is not quiet, and may be waiting to drain.
    fn note_pod_event(&mut self, pod: &Pod, now: Timestamp, wakers: &Wakers) {
        let Some(name) = &pod.node else { return };
        let node = self.nodes.get(name);
        if node.as_ref().is_some_and(|node| node.metadata.deletion_timestamp.is_some()) {
            wakers.node_named(name);
        }
        if pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet") {
            return;
        }
        if !self.synced.contains("pods") {
            // What was there already is no news; claims know when something last happened.
            return;
        }
        self.last_pod_event.insert(name.clone(), now);
        let Some(node) = node else { return };
        let claims = machine_of_node(&node).and_then(|id| self.claims_by_machine.get(id));
        claims.into_iter().flatten().for_each(|claim| wakers.claim_named(claim));
    }

    /// The Nodes of a machine: one, if all is well.
    #[must_use]
    pub fn nodes_of(&self, provider_id: &str) -> Vec<Arc<core::Node>> {
        let names = self.nodes_by_machine.get(provider_id);
        names.into_iter().flatten().filter_map(|name| self.nodes.get(name)).collect()
    }

    /// The class that a pool or claim refers to, if it is of `kind`, the provider's, and there.
    #[must_use]
    pub fn class_of(&self, kind: &ClassKind, reference: &NodeClassRef) -> Option<Arc<Class>> {
        self.classes.get(&reference.name).filter(|_| kind.is_meant_by(reference))
    }

    /// The claim of a machine.
    #[must_use]
    pub fn claim_of_machine(&self, provider_id: &str) -> Option<Arc<NodeClaim>> {
        self.claims.get(self.claims_by_machine.get(provider_id)?.first()?)
    }

    /// The claim of a Node's machine.
    #[must_use]
    pub fn claim_of(&self, node: &core::Node) -> Option<Arc<NodeClaim>> {
        self.claim_of_machine(machine_of_node(node)?)
    }
}

fn machine_of_node(node: &core::Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

fn machine_of_claim(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.provider_id.as_deref()
}

/// Takes `name` from the machine that it was of, and gives it to the one that it is of.
fn relink(
    machines: &mut BTreeMap<String, BTreeSet<String>>,
    name: &str,
    [was, is]: [Option<&str>; 2],
) {
    if let Some(was) = was.filter(|was| is != Some(*was))
        && let Some(names) = machines.get_mut(was)
    {
        names.remove(name);
        if names.is_empty() {
            machines.remove(was);
        }
    }
    if let Some(is) = is {
        machines.entry(is.to_owned()).or_default().insert(name.to_owned());
    }
}

fn key_of(pod: &core::Pod) -> PodKey {
    let metadata = &pod.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;

    use super::*;

    const MACHINE: &str = "aws:///ap-northeast-1a/i-0740e2a4362e88675";

    #[test]
    fn a_claim_hears_that_its_node_has_gone() {
        let (wakers, mut triggers) = wakers();
        let mut index = Index::default();
        let now = Timestamp::UNIX_EPOCH;
        let named =
            |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let mut claim = NodeClaim { metadata: named("general-purpose-x7k2p"), ..claim() };
        claim.status.get_or_insert_default().provider_id = Some(MACHINE.to_owned());
        let mut node = core::Node { metadata: named("i-0740e2a4362e88675"), ..Default::default() };
        node.spec.get_or_insert_default().provider_id = Some(MACHINE.to_owned());
        index.apply(Change::Claim(Event::Apply(claim)), now, &wakers);
        index.apply(Change::Node(Event::Apply(node.clone())), now, &wakers);
        while triggers.claims.try_recv().is_ok() {}
        index.apply(Change::Node(Event::Delete(node)), now, &wakers);
        assert_eq!(triggers.claims.try_recv().as_deref(), Ok("general-purpose-x7k2p"));
        assert!(index.nodes_of(MACHINE).is_empty());
    }

    fn claim() -> NodeClaim {
        let spec = serde_json::json!({"nodeClassRef": {
            "group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"
        }, "requirements": []});
        NodeClaim::new("", serde_json::from_value(spec).expect("it is a spec"))
    }
}
