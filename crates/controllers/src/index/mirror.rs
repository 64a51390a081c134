//! One kind of object, as its watch tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

/// One kind of object by name (`namespace/name` if it lives in namespaces).
#[derive(Debug)]
pub struct Mirror<K> {
    objects: BTreeMap<String, Arc<K>>,
    listing: BTreeSet<String>,
    /// The newest version that the watch has told of, deletions included.
    seen: u64,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listing: BTreeSet::new(), seen: 0 }
    }
}

impl<K: Resource> Mirror<K> {
    /// Applies an event; `changed` hears of each object as it was (`None` if it is new) and as it is
    /// (`None` if it went). Returns whether a full list has just ended.
    pub fn apply(
        &mut self,
        event: Event<K>,
        mut changed: impl FnMut(&str, Option<&K>, Option<&K>),
    ) -> bool {
        match event {
            Event::Apply(object) => self.put(object, &mut changed),
            Event::Delete(object) => {
                let name = name_of(&object);
                self.seen = self.seen.max(version_of(&object));
                let old = self.objects.remove(&name);
                changed(&name, old.as_deref().or(Some(&object)), None);
            }
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                self.listing.insert(name_of(&object));
                self.put(object, &mut changed);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                self.objects.retain(|name, old| {
                    let keep = listed.contains(name);
                    if !keep {
                        changed(name, Some(old), None);
                    }
                    keep
                });
                return true;
            }
        }
        false
    }

    fn put(&mut self, object: K, changed: &mut impl FnMut(&str, Option<&K>, Option<&K>)) {
        let name = name_of(&object);
        self.seen = self.seen.max(version_of(&object));
        let old = self.objects.get(&name).cloned();
        // What was learned stays until the watch has caught up with it.
        let newer = old.clone().filter(|old| is_newer(old.as_ref(), &object));
        let current = newer.unwrap_or_else(|| Arc::new(object));
        changed(&name, old.as_deref(), Some(&current));
        self.objects.insert(name, current);
    }

    /// Takes in an object that was just written, before its watch tells of it. An older version
    /// never replaces a newer one, nor brings back what the watch has seen go.
    pub fn learn(&mut self, object: K) {
        let name = name_of(&object);
        let is_news = match self.objects.get(&name) {
            Some(known) => is_newer(&object, known),
            None => version_of(&object) > self.seen,
        };
        if is_news {
            self.objects.insert(name, Arc::new(object));
        }
    }

    /// One object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.objects.get(name).cloned()
    }

    /// All objects, by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }
}

/// Versions are numbers that grow from write to write.
/// Source: kubernetes/enhancements `keps/sig-api-machinery/5504-comparable-resource-version`.
fn version_of<K: Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn is_newer<K: Resource>(one: &K, other: &K) -> bool {
    version_of(one) > version_of(other)
}

fn name_of<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn node(version: u64) -> Node {
        let name = Some("one".to_owned());
        let resource_version = Some(version.to_string());
        let metadata = ObjectMeta { name, resource_version, ..ObjectMeta::default() };
        Node { metadata, ..Node::default() }
    }

    fn version(mirror: &Mirror<Node>) -> Option<u64> {
        mirror.get("one").map(|node| version_of(&*node))
    }

    #[test]
    fn an_answer_that_comes_late_does_not_bring_back_what_has_gone() {
        let mut mirror = Mirror::default();
        mirror.apply(Event::Apply(node(3)), |_, _, _| ());
        mirror.apply(Event::Delete(node(5)), |_, _, _| ());
        mirror.learn(node(4));
        assert_eq!(version(&mirror), None);
        mirror.learn(node(6));
        assert_eq!(version(&mirror), Some(6), "a namesake that came later is another");
    }

    #[test]
    fn a_watch_that_lags_does_not_take_back_what_was_learned() {
        let mut mirror = Mirror::default();
        mirror.apply(Event::Apply(node(3)), |_, _, _| ());
        mirror.learn(node(5));
        let mut told = Vec::new();
        mirror.apply(Event::Apply(node(4)), |_, _, node| told.push(node.map(version_of)));
        assert_eq!((version(&mirror), told), (Some(5), vec![Some(5)]));
        mirror.apply(Event::Delete(node(6)), |_, _, _| ());
        assert_eq!(version(&mirror), None);
    }
}
