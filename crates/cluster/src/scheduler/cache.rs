//! Nodes, what is on them, and what is meant for them; kept up to date change by change.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_engine::node::{Node, Usage};
use aerostat_engine::pod::{Pod, PodKey, Selector};
use aerostat_engine::predicates::topology::{Index, Place};

use super::pod::PodInfo;

/// A node's place in the cache; places of nodes that went are used again.
pub(super) type Slot = Place;

/// A node with its pods.
#[derive(Debug, Default)]
pub(super) struct NodeInfo {
    /// The node; `None` if only its pods are known.
    pub(super) node: Option<Node>,
    /// What its pods use.
    pub(super) usage: Usage,
    /// The pods on it, assumed ones included.
    pub(super) pods: BTreeMap<PodKey, Arc<PodInfo>>,
    /// The pods that a preemption makes room on it for.
    pub(super) nominated: BTreeMap<PodKey, Arc<PodInfo>>,
    /// Changes with every change of it, and is no other node's ever.
    pub(super) generation: u64,
}

impl NodeInfo {
    /// What is used as `pod` sees it: nominated pods of the same or a higher priority count too.
    pub(super) fn usage_for(&self, pod: &PodInfo) -> Usage {
        let mut usage = self.usage.clone();
        for other in self.ahead_of(pod) {
            usage.add(&other.pod);
        }
        usage
    }

    /// The pods that it is kept for and to which `pod` gives way.
    pub(super) fn ahead_of<'a>(&'a self, pod: &'a PodInfo) -> impl Iterator<Item = &'a PodInfo> {
        let ahead = |other: &&Arc<PodInfo>| {
            other.pod.priority >= pod.pod.priority && other.pod.uid != pod.pod.uid
        };
        self.nominated.values().filter(ahead).map(|other| &**other)
    }
}

/// Everything that pods may be placed on.
#[derive(Debug, Default)]
pub(super) struct Cache {
    slots: Vec<Option<NodeInfo>>,
    free: Vec<Slot>,
    by_name: BTreeMap<String, Slot>,
    /// Where each placed pod is.
    placed: BTreeMap<PodKey, Slot>,
    /// Where each nominated pod is meant to go.
    nominated: BTreeMap<PodKey, Slot>,
    generation: u64,
    nodes: usize,
    /// On how many nodes each image is.
    images: BTreeMap<String, usize>,
    images_generation: u64,
    /// The pods on the nodes, counted by what was asked about them.
    topology: Index,
}

impl Cache {
    /// The pods on the nodes, counted by what was asked about them.
    pub(super) fn topology(&self) -> &Index {
        &self.topology
    }

    /// Counts what filters and scores will ask about a pod, as [`Index::prepare`].
    pub(super) fn prepare(&mut self, pod: &Pod, defaults: Option<&[Selector]>) {
        self.topology.prepare(pod, defaults, labels(&self.slots), pods(&self.slots));
    }

    /// Notes a namespace's labels; `None` when it goes.
    pub(super) fn set_namespace(&mut self, name: &str, labels: Option<&BTreeMap<String, String>>) {
        if self.topology.set_namespace(name, labels, pods(&self.slots)) {
            self.generation += 1;
        }
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes
    }

    /// Changes with every change of anything.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Changes when images come to nodes or leave them, or the number of nodes changes.
    pub(super) fn images_generation(&self) -> u64 {
        self.images_generation
    }

    /// On how many nodes an image is.
    pub(super) fn nodes_with_image(&self, image: &str) -> usize {
        self.images.get(image).copied().unwrap_or(0)
    }

    /// The nodes that are there, by place.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Slot, &Node, &NodeInfo)> {
        self.slots.iter().enumerate().filter_map(|(slot, info)| {
            let info = info.as_ref()?;
            Some((slot, info.node.as_ref()?, info))
        })
    }

    /// The node at a place, if it is there.
    pub(super) fn at(&self, slot: Slot) -> Option<(&Node, &NodeInfo)> {
        let info = self.slots.get(slot)?.as_ref()?;
        Some((info.node.as_ref()?, info))
    }

    /// The place of a node that is there.
    pub(super) fn slot(&self, name: &str) -> Option<Slot> {
        let slot = *self.by_name.get(name)?;
        self.at(slot).map(|_| slot)
    }

    /// Takes a node in, or its new state; returns its state before.
    pub(super) fn set_node(&mut self, node: Node) -> Option<Node> {
        let slot = self.slot_of(&node.name);
        let info = self.slots[slot].as_mut()?;
        self.topology.set_node(slot, Some(&node.labels));
        let images: Vec<String> = node.images.keys().cloned().collect();
        let old = info.node.replace(node);
        let gone: Vec<String> = old.iter().flat_map(|old| old.images.keys().cloned()).collect();
        if old.is_none() {
            self.nodes += 1;
            self.images_generation += 1;
        }
        if images != gone {
            self.count_images(&gone, &images);
        }
        self.touch(slot);
        old
    }

    /// Lets a node go; returns its last state. Its pods stay known until they go themselves.
    pub(super) fn remove_node(&mut self, name: &str) -> Option<Node> {
        let slot = self.slot(name)?;
        let node = self.slots[slot].as_mut()?.node.take()?;
        self.topology.set_node(slot, None);
        self.nodes -= 1;
        self.images_generation += 1;
        let gone: Vec<String> = node.images.keys().cloned().collect();
        self.count_images(&gone, &[]);
        self.touch(slot);
        self.tidy(name, slot);
        Some(node)
    }

    /// Takes a placed pod in, or its new state; returns its state before.
    pub(super) fn place(&mut self, pod: &Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let node = pod.pod.node.as_ref()?;
        let key = pod.key();
        let old = self.remove_pod(&key);
        let slot = self.slot_of(node);
        self.topology.add(slot, &pod.pod, labels(&self.slots), pods(&self.slots));
        if let Some(info) = self.slots[slot].as_mut() {
            info.usage.add(&pod.pod);
            info.pods.insert(key.clone(), pod.clone());
        }
        self.placed.insert(key, slot);
        self.touch(slot);
        old
    }

    /// Lets a placed pod go; returns its last state.
    pub(super) fn remove_pod(&mut self, key: &PodKey) -> Option<Arc<PodInfo>> {
        let slot = self.placed.remove(key)?;
        let info = self.slots[slot].as_mut()?;
        let pod = info.pods.remove(key)?;
        info.usage.remove(&pod.pod);
        self.topology.remove(slot, &pod.pod);
        self.touch(slot);
        self.tidy(pod.pod.node.as_deref()?, slot);
        Some(pod)
    }

    /// Notes which node a pod is meant for; `None` for none. Returns the node that it no longer
    /// is meant for.
    pub(super) fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<&str>) -> Option<String> {
        let key = pod.key();
        if self.keeps_nomination(&key, pod, node) {
            return None;
        }
        let old = self.nominated.remove(&key).and_then(|slot| {
            let name = self.name_of(slot);
            let info = self.slots[slot].as_mut();
            if let Some(pod) = info.and_then(|info| info.nominated.remove(&key)) {
                self.topology.withdraw(&pod.pod);
            }
            self.touch(slot);
            if let Some(name) = &name {
                self.tidy(name, slot);
            }
            name
        });
        if let Some(node) = node {
            let slot = self.slot_of(node);
            self.topology.announce(&pod.pod, labels(&self.slots), pods(&self.slots));
            if let Some(info) = self.slots[slot].as_mut() {
                info.nominated.insert(key.clone(), pod.clone());
            }
            self.nominated.insert(key, slot);
            self.touch(slot);
        }
        old.filter(|old| Some(old.as_str()) != node)
    }

    /// Whether a nomination is as it was, so that nothing has to be looked at again.
    fn keeps_nomination(&self, key: &PodKey, pod: &PodInfo, node: Option<&str>) -> bool {
        let Some(slot) = self.nominated.get(key) else { return node.is_none() };
        node.is_some_and(|node| self.by_name.get(node) == Some(slot))
            && self.slots[*slot].as_ref().and_then(|info| info.nominated.get(key)).is_some_and(
                |old| old.pod.uid == pod.pod.uid && old.pod.requests == pod.pod.requests,
            )
    }

    /// The node that a pod is meant for.
    pub(super) fn nomination(&self, key: &PodKey) -> Option<Slot> {
        self.nominated.get(key).copied()
    }

    fn name_of(&self, slot: Slot) -> Option<String> {
        // Nominations are few, and those on a node that is not there fewer.
        let named = self.at(slot).map(|(node, _)| node.name.clone());
        named.or_else(|| {
            self.by_name.iter().find(|(_, at)| **at == slot).map(|(name, _)| name.clone())
        })
    }

    fn slot_of(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(NodeInfo::default());
        self.by_name.insert(name.to_owned(), slot);
        slot
    }

    /// Frees the place of a node that is not there and that nobody is on or meant for.
    fn tidy(&mut self, name: &str, slot: Slot) {
        let empty = self.slots[slot].as_ref().is_some_and(|info| {
            info.node.is_none() && info.pods.is_empty() && info.nominated.is_empty()
        });
        if empty {
            self.slots[slot] = None;
            self.by_name.remove(name);
            self.free.push(slot);
        }
    }

    fn touch(&mut self, slot: Slot) {
        self.generation += 1;
        if let Some(info) = self.slots[slot].as_mut() {
            info.generation = self.generation;
        }
    }

    fn count_images(&mut self, gone: &[String], come: &[String]) {
        self.images_generation += 1;
        for image in gone {
            if let Some(count) = self.images.get_mut(image) {
                *count -= 1;
                if *count == 0 {
                    self.images.remove(image);
                }
            }
        }
        for image in come {
            *self.images.entry(image.clone()).or_default() += 1;
        }
    }
}

type Labels = BTreeMap<String, String>;

fn labels(slots: &[Option<NodeInfo>]) -> impl Iterator<Item = (Slot, &Labels)> + Clone {
    let nodes = slots.iter().enumerate();
    nodes.filter_map(|(slot, info)| Some((slot, &info.as_ref()?.node.as_ref()?.labels)))
}

fn pods(slots: &[Option<NodeInfo>]) -> impl Iterator<Item = (Slot, &Pod)> + Clone {
    let nodes = slots.iter().enumerate().filter_map(|(slot, info)| Some((slot, info.as_ref()?)));
    nodes.flat_map(|(slot, info)| info.pods.values().map(move |pod| (slot, &pod.pod)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str) -> Node {
        Node { name: name.into(), ..Node::default() }
    }

    fn pod(name: &str, node: Option<&str>, priority: i32) -> Arc<PodInfo> {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"nodeName": node, "priority": priority, "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }))
        .unwrap();
        Arc::new(PodInfo::read(&pod).unwrap())
    }

    #[test]
    fn places_are_used_again_and_usage_follows() {
        let mut cache = Cache::default();
        cache.set_node(node("a"));
        let placed = pod("p", Some("a"), 0);
        cache.place(&placed);
        let slot = cache.slot("a").unwrap();
        assert_eq!(cache.at(slot).unwrap().1.usage.requested.cpu, 1000);
        cache.remove_node("a");
        assert_eq!((cache.len(), cache.slot("a")), (0, None));
        assert!(cache.remove_pod(&placed.key()).is_some());
        cache.set_node(node("b"));
        assert_eq!(cache.slot("b"), Some(slot));
        assert_eq!(cache.at(slot).unwrap().1.usage, Usage::default());
    }

    #[test]
    fn nominations_count_for_others_of_no_higher_priority() {
        let mut cache = Cache::default();
        cache.set_node(node("a"));
        let nominated = pod("p", None, 5);
        assert_eq!(cache.nominate(&nominated, Some("a")), None);
        let generation = cache.generation();
        assert_eq!(cache.nominate(&nominated, Some("a")), None);
        assert_eq!(cache.generation(), generation);
        let used = |cache: &Cache, pod: &PodInfo| {
            let (_, info) = cache.at(cache.slot("a").unwrap()).unwrap();
            info.usage_for(pod).requested.cpu
        };
        let cases = [("lower", 0, 1000), ("equal", 5, 1000), ("higher", 6, 0), ("p", 5, 0)];
        for (name, priority, expected) in cases {
            assert_eq!(used(&cache, &pod(name, None, priority)), expected, "{name}");
        }
        assert_eq!(cache.nominate(&nominated, None).as_deref(), Some("a"));
        assert_eq!(used(&cache, &pod("lower", None, 0)), 0);
    }
}
