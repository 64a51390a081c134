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
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listing: BTreeSet::new() }
    }
}

impl<K: Resource> Mirror<K> {
    /// Applies an event; `changed` hears of each object that came, changed or went (`None`).
    /// Returns whether a full list has just ended.
    pub fn apply(&mut self, event: Event<K>, mut changed: impl FnMut(&str, Option<&K>)) -> bool {
        match event {
            Event::Apply(object) => self.put(object, &mut changed),
            Event::Delete(object) => {
                let name = name_of(&object);
                self.objects.remove(&name);
                changed(&name, None);
            }
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                self.listing.insert(name_of(&object));
                self.put(object, &mut changed);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                self.objects.retain(|name, _| {
                    let keep = listed.contains(name);
                    if !keep {
                        changed(name, None);
                    }
                    keep
                });
                return true;
            }
        }
        false
    }

    fn put(&mut self, object: K, changed: &mut impl FnMut(&str, Option<&K>)) {
        let name = name_of(&object);
        changed(&name, Some(&object));
        self.objects.insert(name, Arc::new(object));
    }

    /// Takes in an object that was just written, before its watch tells of it; an older version
    /// never replaces a newer one.
    pub fn learn(&mut self, object: K) {
        let version = |object: &K| {
            object.resource_version().and_then(|version| version.parse::<u64>().ok()).unwrap_or(0)
        };
        let name = name_of(&object);
        if self.objects.get(&name).is_none_or(|old| version(old) < version(&object)) {
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

fn name_of<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}
