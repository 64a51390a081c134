//! One kind of object, as its watch tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

/// One kind of object by name (`namespace/name` if it lives in namespaces).
#[derive(Debug)]
pub struct Mirror<K> {
    objects: BTreeMap<String, Known<K>>,
    listing: BTreeSet<String>,
    /// The newest version that the watch has told of, deletions included.
    seen: u64,
}

/// An object, and what the watch last told of it: they differ while a write of our own is ahead.
#[derive(Debug)]
struct Known<K> {
    current: Arc<K>,
    told: Option<Arc<K>>,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listing: BTreeSet::new(), seen: 0 }
    }
}

impl<K: Resource> Mirror<K> {
    /// Applies an event; `changed` hears of each object as the watch last told of it (`None` if it is
    /// new) and as it is (`None` if it went). Returns whether a full list has just ended.
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
                let old = self.objects.remove(&name).map(Known::last);
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
                        changed(name, Some(old.told.as_ref().unwrap_or(&old.current)), None);
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
        let old = self.objects.get(&name);
        // What was learned stays until the watch has caught up with it.
        let newer = old.map(|old| &old.current).filter(|old| is_newer(old.as_ref(), &object));
        let current = newer.cloned().unwrap_or_else(|| Arc::new(object));
        changed(&name, old.and_then(|old| old.told.as_deref()), Some(&current));
        self.objects.insert(name, Known { told: Some(current.clone()), current });
    }

    /// Takes in an object that was just written, before its watch tells of it. An older version
    /// never replaces a newer one, nor brings back what the watch has seen go.
    pub fn learn(&mut self, object: K) {
        let name = name_of(&object);
        let known = self.objects.get(&name);
        let is_news = match known {
            Some(known) => is_newer(&object, &known.current),
            None => version_of(&object) > self.seen,
        };
        if is_news {
            let told = known.and_then(|known| known.told.clone());
            self.objects.insert(name, Known { current: Arc::new(object), told });
        }
    }

    /// One object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.objects.get(name).map(|known| known.current.clone())
    }

    /// Whether an event tells of something else than what is known, by `differs`.
    pub fn is_news(&self, event: &Event<K>, differs: impl Fn(&K, &K) -> bool) -> bool {
        let Event::Apply(new) = event else { return true };
        self.objects.get(&name_of(new)).is_none_or(|old| differs(&old.current, new))
    }

    /// All objects, by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values().map(|known| &known.current)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }
}

impl<K> Known<K> {
    /// What the watch last told of it, or what was learned.
    fn last(self) -> Arc<K> {
        self.told.unwrap_or(self.current)
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
        mirror.apply(Event::Apply(node(4)), |_, old, node| {
            told.push([old.map(version_of), node.map(version_of)]);
        });
        // Whoever waits for what was learned has not heard of it yet.
        assert_eq!((version(&mirror), told), (Some(5), vec![[Some(3), Some(5)]]));
        mirror.apply(Event::Delete(node(6)), |_, _, _| ());
        assert_eq!(version(&mirror), None);
    }
}
