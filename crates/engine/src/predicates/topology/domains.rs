//! Topology keys and their values as numbers, so that counting needs no strings.

use std::collections::BTreeMap;

use super::{Labels, Place};

/// Names a topology key.
pub(super) type KeyId = usize;
/// Names a value of a key; names of values that no node has are used again.
pub(super) type Value = usize;

/// The domains that the nodes are in.
#[derive(Clone, Debug, Default)]
pub(super) struct Domains {
    ids: BTreeMap<String, KeyId>,
    keys: Vec<Key>,
}

#[derive(Clone, Debug, Default)]
struct Key {
    values: BTreeMap<String, Value>,
    /// Each value's name, and how many nodes have it.
    names: Vec<(String, usize)>,
    free: Vec<Value>,
    of: Vec<Option<Value>>,
}

impl Domains {
    /// The number of a key that is known.
    pub(super) fn key(&self, name: &str) -> Option<KeyId> {
        self.ids.get(name).copied()
    }

    /// The number of a key; `nodes` are those that there are, in case it is new.
    pub(super) fn learn<'a>(
        &mut self,
        name: &str,
        nodes: impl Iterator<Item = (Place, &'a Labels)>,
    ) -> KeyId {
        if let Some(id) = self.key(name) {
            return id;
        }
        let id = self.keys.len();
        let mut key = Key::default();
        for (place, labels) in nodes {
            key.set(place, labels.get(name));
        }
        self.keys.push(key);
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// Notes a node's labels; `None` when it goes.
    pub(super) fn set_node(&mut self, place: Place, labels: Option<&Labels>) {
        for (name, id) in &self.ids {
            self.keys[*id].set(place, labels.and_then(|labels| labels.get(name)));
        }
    }

    /// The domain that a node is in.
    pub(super) fn of(&self, key: KeyId, place: Place) -> Option<Value> {
        self.keys[key].of.get(place).copied().flatten()
    }

    /// Values are less than this.
    pub(super) fn values(&self, key: KeyId) -> usize {
        self.keys[key].names.len()
    }

    /// Places of nodes with a key are less than this.
    pub(super) fn places(&self, key: KeyId) -> usize {
        self.keys[key].of.len()
    }
}

impl Key {
    fn set(&mut self, place: Place, value: Option<&String>) {
        let old = self.of.get(place).copied().flatten();
        if old.map(|old| &self.names[old].0) == value {
            return;
        }
        if let Some(old) = old {
            let (name, nodes) = &mut self.names[old];
            *nodes -= 1;
            if *nodes == 0 {
                self.values.remove(&std::mem::take(name));
                self.free.push(old);
            }
        }
        if self.of.len() <= place {
            self.of.resize(place + 1, None);
        }
        self.of[place] = value.map(|name| self.enter(name));
    }

    /// One more node has a value.
    fn enter(&mut self, name: &str) -> Value {
        let value = match self.values.get(name) {
            Some(value) => *value,
            None => {
                let value = self.free.pop().unwrap_or_else(|| {
                    self.names.push((String::new(), 0));
                    self.names.len() - 1
                });
                self.names[value] = (name.to_owned(), 0);
                self.values.insert(name.to_owned(), value);
                value
            }
        };
        self.names[value].1 += 1;
        value
    }
}
