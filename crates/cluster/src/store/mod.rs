//! Objects by kind and name, revisions, and the events that watches read.
//!
//! One revision counter for everything, as in etcd. Each kind keeps a ring of its latest events:
//! a watch resumes from any revision that the ring still covers, a list can be taken as of any.

mod object;
mod ring;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::{mpsc, watch};

pub use object::Object;
use ring::Ring;
pub use ring::{Event, EventKind};

/// Group and plural of a kind: `("apps", "deployments")`.
pub type Resource = (String, String);

/// Namespace (empty for cluster-scoped objects) and name.
pub type Key = (String, String);

/// The revision that was asked for is no longer, or not yet, known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionError {
    /// Older than the ring reaches; the oldest known.
    Compacted(u64),
    /// Newer than the store; the newest known.
    Future(u64),
}

/// Every object of the cluster, in memory.
#[derive(Debug, Default)]
pub struct Store {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    revision: u64,
    tables: BTreeMap<Resource, Table>,
}

impl Default for Inner {
    fn default() -> Self {
        // A fresh cluster starts at 1: "0" means "any" to clients.
        Self { revision: 1, tables: BTreeMap::new() }
    }
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Key, Arc<Object>>,
    ring: Ring,
    latest: watch::Sender<u64>,
    informers: Vec<mpsc::UnboundedSender<Arc<Event>>>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            ring: Ring::default(),
            latest: watch::channel(0).0,
            informers: Vec::new(),
        }
    }
}

/// What a commit does to an object.
#[derive(Debug)]
pub enum Write {
    /// Stores it; its `metadata.resourceVersion` is set to the new revision.
    Put(Value),
    /// Removes it.
    Remove,
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A poisoned lock only says that another thread panicked between two complete writes.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// One object.
    pub fn get(&self, resource: &Resource, key: &Key) -> Option<Arc<Object>> {
        self.lock().tables.get(resource)?.objects.get(key).cloned()
    }

    /// All objects of a kind, in one namespace or (with `""`) in all, by namespace and name; and
    /// the revision that the list is of.
    pub fn list(&self, resource: &Resource, namespace: &str) -> (Vec<Arc<Object>>, u64) {
        let inner = self.lock();
        let objects = inner
            .tables
            .get(resource)
            .map(|table| in_namespace(&table.objects, namespace).cloned().collect())
            .unwrap_or_default();
        (objects, inner.revision)
    }

    /// The objects of a namespace whose name begins with `prefix`, by name.
    pub fn list_prefix(
        &self,
        resource: &Resource,
        namespace: &str,
        prefix: &str,
    ) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let Some(table) = inner.tables.get(resource) else { return Vec::new() };
        table
            .objects
            .range((namespace.to_owned(), prefix.to_owned())..)
            .take_while(|((of, name), _)| of == namespace && name.starts_with(prefix))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// As [`Store::list`], as of `revision`.
    ///
    /// # Errors
    ///
    /// If the ring no longer reaches back to `revision`, or it is in the future.
    pub fn list_at(
        &self,
        resource: &Resource,
        namespace: &str,
        revision: u64,
    ) -> Result<Vec<Arc<Object>>, RevisionError> {
        let inner = self.lock();
        if revision > inner.revision {
            return Err(RevisionError::Future(inner.revision));
        }
        let Some(table) = inner.tables.get(resource) else { return Ok(Vec::new()) };
        let objects = table.ring.rewind(&table.objects, revision)?;
        Ok(in_namespace(&objects, namespace).cloned().collect())
    }

    /// Writes one object if it is still at `expected` (`None`: not there); `None` on a conflict.
    /// Returns the object as stored, or as it was when it was removed (with the new revision).
    pub fn commit(
        &self,
        resource: &Resource,
        key: Key,
        expected: Option<u64>,
        write: Write,
    ) -> Option<Arc<Object>> {
        let mut inner = self.lock();
        let revision = inner.revision + 1;
        let table = inner.tables.entry(resource.clone()).or_default();
        let previous = table.objects.get(&key).cloned();
        if previous.as_ref().map(|object| object.revision) != expected {
            return None;
        }
        let (kind, object) = match write {
            Write::Put(value) => {
                let object = Arc::new(Object::new(value, revision));
                table.objects.insert(key, object.clone());
                let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
                (kind, object)
            }
            Write::Remove => {
                let last = table.objects.remove(&key)?;
                (EventKind::Deleted, Arc::new(Object::new(last.value.clone(), revision)))
            }
        };
        let event = Arc::new(Event { revision, kind, object: object.clone(), previous });
        table.informers.retain(|informer| informer.send(event.clone()).is_ok());
        table.ring.push(event);
        table.latest.send_replace(revision);
        inner.revision = revision;
        Some(object)
    }

    /// Follows a kind: everything there is as `Added`, then every event, without loss.
    pub fn subscribe(&self, resource: &Resource) -> mpsc::UnboundedReceiver<Arc<Event>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        let table = inner.tables.entry(resource.clone()).or_default();
        for object in table.objects.values() {
            let event = Event {
                revision: object.revision,
                kind: EventKind::Added,
                object: object.clone(),
                previous: None,
            };
            // The receiver is at hand: sending cannot fail.
            let _ = sender.send(Arc::new(event));
        }
        table.informers.push(sender);
        receiver
    }

    /// The events of a kind after `revision`, oldest first, `most` of them at most.
    ///
    /// # Errors
    ///
    /// If the ring no longer reaches back to `revision`.
    pub fn events_after(
        &self,
        resource: &Resource,
        revision: u64,
        most: usize,
    ) -> Result<Vec<Arc<Event>>, RevisionError> {
        let inner = self.lock();
        inner.tables.get(resource).map_or_else(|| Ok(Vec::new()), |t| t.ring.after(revision, most))
    }

    /// Tells the revision of the kind's newest event, for watches to wait on.
    pub fn latest(&self, resource: &Resource) -> watch::Receiver<u64> {
        self.lock().tables.entry(resource.clone()).or_default().latest.subscribe()
    }

    /// Forgets all events up to now, as a compaction would: older watches get 410.
    pub fn compact(&self) {
        let mut inner = self.lock();
        let revision = inner.revision;
        for table in inner.tables.values_mut() {
            table.ring.compact(revision);
        }
    }
}

fn in_namespace<'a>(
    objects: &'a BTreeMap<Key, Arc<Object>>,
    namespace: &str,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let from = Bound::Included((namespace.to_owned(), String::new()));
    let namespace = namespace.to_owned();
    objects
        .range((from, Bound::Unbounded))
        .take_while(move |((of, _), _)| namespace.is_empty() || *of == namespace)
        .map(|(_, object)| object)
}
