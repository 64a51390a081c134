//! Pods that wait: which is next, and which wait for something to change.
//!
//! Source: kubernetes `pkg/scheduler/backend/queue`. Two things differ. A change wakes at most
//! [`Wake`]'s number of equal pods, and the next of them only when one of those leaves the queue.
//! What fails for one would fail for all, and ten thousand failures would tell nobody more. So that
//! this is fair, who came first stays first, however often it was tried. And the back-off after an
//! error, or without any node, ends with the whole second in which it is over, as until v1.32;
//! since then it may take a second more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_engine::pod::PodKey;
use jiff::{SignedDuration, Timestamp};

use super::class::ClassId;
use super::events::Series;
use super::messages;
use super::pod::PodInfo;

const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const LAST_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
/// Nothing waits longer without another look.
const FLUSH_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Priority first, then who came first.
type Order = (Reverse<i32>, Timestamp, u64);

/// How many equal pods a change wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// One, and the next when it leaves.
    One,
    /// Up to a hundred, and the next when one of them leaves.
    Many,
}

/// A pod that waits.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) info: Arc<PodInfo>,
    pub(super) class: ClassId,
    /// The events that its last failure was told with.
    pub(super) told: Option<Series>,
    added: Timestamp,
    sequence: u64,
    /// When it was last tried.
    tried: Timestamp,
    failures: u32,
    errors: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Active,
    Backoff(Timestamp),
    ErrorBackoff(Timestamp),
    Unschedulable,
    Gated,
    /// It is being scheduled.
    Taken,
}

impl Queued {
    /// Whether it comes from the back-off of a cluster without nodes.
    pub(super) fn found_no_nodes(&self) -> bool {
        self.errors > 0 && self.told.as_ref().is_some_and(|told| told.says(messages::NO_NODES))
    }

    fn order(&self) -> Order {
        (Reverse(self.info.pod.priority), self.added, self.sequence)
    }
}

/// Every pod that waits.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pods: BTreeMap<PodKey, Queued>,
    active: BTreeMap<Order, PodKey>,
    backoff: BTreeMap<(Timestamp, Order), PodKey>,
    errors: BTreeMap<(Timestamp, Order), PodKey>,
    unschedulable: BTreeMap<ClassId, BTreeMap<Order, PodKey>>,
    /// The unschedulable pods by the time they have been so.
    since: BTreeMap<(Timestamp, u64), PodKey>,
    /// Classes of which more might have been woken.
    held_back: BTreeSet<ClassId>,
    next_sequence: u64,
}

impl Queue {
    /// A pod begins to wait.
    pub(super) fn add(&mut self, info: Arc<PodInfo>, class: ClassId, now: Timestamp) {
        let key = info.key();
        self.next_sequence += 1;
        let place = if info.pod.gated { Place::Gated } else { Place::Active };
        let queued = Queued {
            info,
            class,
            told: None,
            added: now,
            sequence: self.next_sequence,
            tried: now,
            failures: 0,
            errors: 0,
            place,
        };
        self.insert(key, queued);
    }

    /// A pod waits no longer; the next of its kind may be woken for it.
    pub(super) fn remove(&mut self, key: &PodKey, now: Timestamp) -> Option<Queued> {
        let queued = self.take_out(key)?;
        if queued.place != Place::Unschedulable && self.held_back.contains(&queued.class) {
            self.wake_class(queued.class, Wake::One, now);
        }
        Some(queued)
    }

    /// A pod that is being scheduled turns out to be of another class. For its old one it is as if
    /// it had left.
    pub(super) fn reclass(&mut self, key: &PodKey, class: ClassId, now: Timestamp) {
        let Some(queued) = self.pods.get_mut(key) else { return };
        let old = std::mem::replace(&mut queued.class, class);
        if self.held_back.contains(&old) {
            self.wake_class(old, Wake::One, now);
        }
    }

    pub(super) fn get(&self, key: &PodKey) -> Option<&Queued> {
        self.pods.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &PodKey) -> Option<&mut Queued> {
        self.pods.get_mut(key)
    }

    /// The next pod to schedule. With nothing else to do, a pod that fitted nowhere need not wait
    /// for its backoff.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<PodKey> {
        // Backoffs of pods that fitted nowhere last until their whole second is over.
        let ends = window(now) - SignedDuration::from_nanos(1);
        for (queue, ends) in [(&mut self.backoff, ends), (&mut self.errors, now)] {
            while let Some(entry) = queue.first_entry()
                && entry.key().0 <= ends
            {
                let ((_, order), key) = entry.remove_entry();
                if let Some(queued) = self.pods.get_mut(&key) {
                    queued.place = Place::Active;
                }
                self.active.insert(order, key);
            }
        }
        let first = self.active.pop_first().map(|(_, key)| key);
        let key = first.or_else(|| self.backoff.pop_first().map(|(_, key)| key))?;
        self.pods.get_mut(&key)?.place = Place::Taken;
        Some(key)
    }

    /// The pod fits nowhere: it waits until something changes.
    pub(super) fn put_unschedulable(&mut self, key: &PodKey, now: Timestamp) {
        self.put_back(key, now, |queued| {
            queued.failures += 1;
            queued.errors = 0;
            Place::Unschedulable
        });
        if let Some(queued) = self.pods.get(key) {
            self.held_back.remove(&queued.class);
        }
    }

    /// Something went wrong with the pod, or there are no nodes: it is tried again after a while,
    /// and no change makes that sooner.
    pub(super) fn put_after_error(&mut self, key: &PodKey, now: Timestamp) {
        self.put_back(key, now, |queued| {
            queued.errors += 1;
            // All but the first try were due at a whole second: that this one came some milliseconds
            // late must not cost it another second.
            let tried = if queued.errors > 1 { window(now) } else { now };
            Place::ErrorBackoff(whole_second(tried + backoff(queued.errors)))
        });
    }

    fn put_back(&mut self, key: &PodKey, now: Timestamp, place: impl FnOnce(&mut Queued) -> Place) {
        let Some(mut queued) = self.take_out(key) else { return };
        queued.tried = now;
        queued.place = place(&mut queued);
        self.insert(key.clone(), queued);
    }

    /// A change may help a pod that fits nowhere.
    pub(super) fn wake(&mut self, key: &PodKey, now: Timestamp) {
        let waits = self.pods.get(key).is_some_and(|q| q.place == Place::Unschedulable);
        if !waits {
            return;
        }
        let Some(mut queued) = self.take_out(key) else { return };
        let until = window(queued.tried + backoff(queued.failures));
        queued.place = if until < window(now) { Place::Active } else { Place::Backoff(until) };
        self.insert(key.clone(), queued);
    }

    /// A change may help the pods of a class.
    pub(super) fn wake_class(&mut self, class: ClassId, wake: Wake, now: Timestamp) {
        let limit = match wake {
            Wake::One => 1,
            Wake::Many => 100,
        };
        let Some(waiting) = self.unschedulable.get(&class) else {
            self.held_back.remove(&class);
            return;
        };
        let more = waiting.len() > limit;
        let first: Vec<PodKey> = waiting.values().take(limit).cloned().collect();
        for key in first {
            self.wake(&key, now);
        }
        if more {
            self.held_back.insert(class);
        } else {
            self.held_back.remove(&class);
        }
    }

    /// The classes of the pods that fit nowhere.
    pub(super) fn unschedulable_classes(&self) -> Vec<ClassId> {
        self.unschedulable.keys().copied().collect()
    }

    /// Wakes what has waited too long for a change.
    pub(super) fn flush(&mut self, now: Timestamp) {
        while let Some((&(since, _), key)) = self.since.first_key_value() {
            if since + FLUSH_AFTER > now {
                break;
            }
            let key = key.clone();
            self.wake(&key, now);
        }
    }

    /// When something is to be done although nothing changes.
    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        let flush = self.since.first_key_value().map(|((since, _), _)| *since + FLUSH_AFTER);
        let error = self.errors.first_key_value().map(|((until, _), _)| *until);
        [flush, error].into_iter().flatten().min()
    }

    fn insert(&mut self, key: PodKey, queued: Queued) {
        let order = queued.order();
        match queued.place {
            Place::Active => {
                self.active.insert(order, key.clone());
            }
            Place::Backoff(until) => {
                self.backoff.insert((until, order), key.clone());
            }
            Place::ErrorBackoff(until) => {
                self.errors.insert((until, order), key.clone());
            }
            Place::Unschedulable => {
                self.unschedulable.entry(queued.class).or_default().insert(order, key.clone());
                self.since.insert((queued.tried, queued.sequence), key.clone());
            }
            Place::Gated | Place::Taken => {}
        }
        self.pods.insert(key, queued);
    }

    fn take_out(&mut self, key: &PodKey) -> Option<Queued> {
        let queued = self.pods.remove(key)?;
        let order = queued.order();
        match queued.place {
            Place::Active => {
                self.active.remove(&order);
            }
            Place::Backoff(until) => {
                self.backoff.remove(&(until, order));
            }
            Place::ErrorBackoff(until) => {
                self.errors.remove(&(until, order));
            }
            Place::Unschedulable => {
                if let Some(waiting) = self.unschedulable.get_mut(&queued.class) {
                    waiting.remove(&order);
                    if waiting.is_empty() {
                        self.unschedulable.remove(&queued.class);
                    }
                }
                self.since.remove(&(queued.tried, queued.sequence));
            }
            Place::Gated | Place::Taken => {}
        }
        Some(queued)
    }
}

/// One second doubling up to ten.
fn backoff(failures: u32) -> SignedDuration {
    if failures == 0 {
        return SignedDuration::ZERO;
    }
    let doubled = FIRST_BACKOFF.checked_mul(1_i32.checked_shl(failures - 1).unwrap_or(i32::MAX));
    doubled.filter(|d| d.is_positive()).unwrap_or(LAST_BACKOFF).min(LAST_BACKOFF)
}

/// The first whole second that is not before `time`.
fn whole_second(time: Timestamp) -> Timestamp {
    window(time + SignedDuration::from_nanos(999_999_999))
}

/// Backoffs end in whole seconds, so that those of one second are ordered by priority.
fn window(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
