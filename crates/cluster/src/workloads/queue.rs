//! Which objects a controller still has to look at, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aerostat_clock::Clock;
use jiff::Timestamp;

/// First pause after a failure; each further one is twice as long.
const RETRY: Duration = Duration::from_millis(5);
/// The longest pause. Source: client-go `util/workqueue/default_rate_limiters.go`.
const LONGEST: Duration = Duration::from_secs(1000);

/// Keys that are due now or later. A key is in it once, however often it is added.
#[derive(Debug)]
pub(super) struct Queue<K> {
    ready: BTreeSet<K>,
    later: BTreeSet<(Timestamp, K)>,
    /// When each key in `later` is due.
    due: BTreeMap<K, Timestamp>,
    failures: BTreeMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Due now.
    pub(super) fn add(&mut self, key: K) {
        self.ready.insert(key);
    }

    /// Due at `when`, unless it is due earlier.
    pub(super) fn add_at(&mut self, when: Timestamp, key: K) {
        if let Some(due) = self.due.get(&key).copied() {
            if due <= when {
                return;
            }
            self.later.remove(&(due, key.clone()));
        }
        self.due.insert(key.clone(), when);
        self.later.insert((when, key));
    }

    /// Due after a pause that grows with each failure in a row.
    pub(super) fn retry(&mut self, key: K, now: Timestamp) {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let pause = RETRY.saturating_mul(1 << (*failures).min(20)).min(LONGEST);
        *failures += 1;
        self.add_at(now + pause, key);
    }

    /// It went well: the next failure pauses shortly again.
    pub(super) fn succeeded(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// The next key that is due, if any.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<K> {
        while self.later.first().is_some_and(|(when, _)| *when <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                self.due.remove(&key);
                self.ready.insert(key);
            }
        }
        self.ready.pop_first()
    }

    /// Waits until a key is due; forever if none will be.
    pub(super) async fn due(&self, clock: Clock) {
        if !self.ready.is_empty() {
            return;
        }
        match self.later.first() {
            Some((when, _)) => clock.sleep_until(*when).await,
            None => std::future::pending().await,
        }
    }
}
