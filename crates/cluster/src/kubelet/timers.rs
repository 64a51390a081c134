//! What is to happen when.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// A queue of actions by time; actions of one time come in the order they were put.
#[derive(Debug)]
pub(super) struct Timers<A> {
    queue: BTreeMap<(Timestamp, u64), A>,
    sequence: u64,
}

impl<A> Default for Timers<A> {
    fn default() -> Self {
        Self { queue: BTreeMap::new(), sequence: 0 }
    }
}

impl<A> Timers<A> {
    pub(super) fn put(&mut self, at: Timestamp, action: A) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), action);
    }

    /// When the next action is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next action that is due at `now`, and when it was due.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, A)> {
        if self.next()? > now {
            return None;
        }
        let ((at, _), action) = self.queue.pop_first()?;
        Some((at, action))
    }
}
