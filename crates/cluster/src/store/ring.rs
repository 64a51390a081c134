//! The latest events of one kind.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Key, Object, RevisionError};

/// How many events a kind keeps for watches to resume from.
const CAPACITY: usize = 10_000;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It came.
    Added,
    /// It changed.
    Modified,
    /// It went.
    Deleted,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision that the write made.
    pub revision: u64,
    /// What happened.
    pub kind: EventKind,
    /// The object after the write; for `Deleted` its last state with the new revision.
    pub object: Arc<Object>,
    /// The object before it.
    pub previous: Option<Arc<Object>>,
}

#[derive(Debug, Default)]
pub(super) struct Ring {
    events: VecDeque<Arc<Event>>,
    /// Events up to here are forgotten.
    forgotten: u64,
}

impl Ring {
    pub(super) fn push(&mut self, event: Arc<Event>) {
        if self.events.len() == CAPACITY
            && let Some(oldest) = self.events.pop_front()
        {
            self.forgotten = oldest.revision;
        }
        self.events.push_back(event);
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.forgotten = revision;
        self.events.retain(|event| event.revision > revision);
    }

    /// The events after `revision`, oldest first, `most` of them at most.
    pub(super) fn after(
        &self,
        revision: u64,
        most: usize,
    ) -> Result<Vec<Arc<Event>>, RevisionError> {
        if revision < self.forgotten {
            return Err(RevisionError::Compacted(self.forgotten));
        }
        let start = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(start..).take(most).cloned().collect())
    }

    /// `objects` with every event after `revision` undone.
    pub(super) fn rewind(
        &self,
        objects: &BTreeMap<Key, Arc<Object>>,
        revision: u64,
    ) -> Result<BTreeMap<Key, Arc<Object>>, RevisionError> {
        let mut objects = objects.clone();
        for event in self.after(revision, usize::MAX)?.into_iter().rev() {
            let key = (event.object.namespace().to_owned(), event.object.name().to_owned());
            match &event.previous {
                Some(previous) => objects.insert(key, previous.clone()),
                None => objects.remove(&key),
            };
        }
        Ok(objects)
    }
}
