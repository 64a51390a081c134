//! What the API server does not let the provisioner do: it is tried again later each time, and what
//! has nothing to do with it goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// First and longest wait until a refused write is tried again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// For how long a refusal is remembered of something that is not tried any more.
const MEMORY: SignedDuration = SignedDuration::from_mins(10);

/// What a write was about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A new claim of a pool.
    Pool(String),
    /// A claim that is to be marked, released, rolled back or deleted.
    Claim(String),
}

/// Writes that were refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals(BTreeMap<Subject, Refusal>);

#[derive(Debug)]
struct Refusal {
    why: String,
    until: Timestamp,
    count: u32,
}

impl Refusals {
    /// A write was refused.
    pub(crate) fn note(&mut self, subject: Subject, why: String, now: Timestamp) {
        let refusal =
            self.0.entry(subject).or_insert(Refusal { why: String::new(), until: now, count: 0 });
        refusal.why = why;
        // Several writes of one plan count once.
        if refusal.until <= now {
            let wait = BACKOFF.0.saturating_mul(1 << refusal.count.min(16)).min(BACKOFF.1);
            refusal.until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
            refusal.count += 1;
        }
    }

    /// A write was done.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.0.remove(subject);
    }

    /// Forgets what has not been tried for long.
    pub(crate) fn fade(&mut self, now: Timestamp) {
        self.0.retain(|_, refusal| now.duration_since(refusal.until) < MEMORY);
    }

    /// Why a write is not to be tried yet.
    pub(crate) fn why(&self, subject: &Subject, now: Timestamp) -> Option<&str> {
        let refusal = self.0.get(subject).filter(|refusal| refusal.until > now)?;
        Some(&refusal.why)
    }

    /// When the next write is to be tried again.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.0.values().map(|refusal| refusal.until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_waits_longer_each_time_and_alone() {
        let pool = |name: &str| Subject::Pool(name.to_owned());
        let (mut refusals, mut now) = (Refusals::default(), Timestamp::UNIX_EPOCH);
        let mut waits = Vec::new();
        for _ in 0..8 {
            refusals.note(pool("a"), "no".to_owned(), now);
            refusals.note(pool("a"), "no".to_owned(), now);
            assert_eq!(refusals.why(&pool("a"), now), Some("no"));
            assert_eq!(refusals.why(&pool("b"), now), None);
            let next = refusals.next(now).unwrap();
            waits.push(next.duration_since(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(
            (refusals.why(&pool("a"), now), refusals.next(now)),
            (None, None),
            "tried again"
        );
        refusals.note(pool("b"), "no".to_owned(), now);
        refusals.forget(&pool("b"));
        assert_eq!(refusals.next(now), None);
        refusals.fade(now + SignedDuration::from_mins(11));
        assert!(refusals.0.is_empty());
    }
}
