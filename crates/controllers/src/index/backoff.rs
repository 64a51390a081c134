//! When a watch that failed is opened again.
//!
//! As `kube`'s own back-off, but the spread between watches follows from their kinds: the same
//! faults lead to the same end.

use std::time::Duration;

use kube::runtime::utils;

/// First and longest wait, in milliseconds.
const WAITS: (u64, u64) = (800, 30_000);
/// So many more milliseconds at most, so that not all watches come back at once.
const SPREAD: u64 = 400;

/// Waits that double, each as long again as the kind says.
#[derive(Debug)]
pub(super) struct Backoff {
    spread: u64,
    next: u64,
}

impl Backoff {
    /// The back-off of a kind's watch.
    pub(super) fn of(kind: &str) -> Self {
        let hash = kind
            .bytes()
            .fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self { spread: hash % SPREAD, next: WAITS.0 }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = Duration::from_millis(self.next + self.spread);
        self.next = (self.next * 2).min(WAITS.1);
        Some(wait)
    }
}

impl utils::Backoff for Backoff {
    fn reset(&mut self) {
        self.next = WAITS.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::runtime::utils::Backoff as _;

    #[test]
    fn waits_double_up_to_a_limit_and_begin_anew() {
        let mut backoff = Backoff::of("Node");
        let spread = backoff.spread;
        assert!(spread < SPREAD);
        let waits: Vec<u64> = backoff
            .by_ref()
            .take(8)
            .map(|wait| u64::try_from(wait.as_millis()).unwrap() - spread)
            .collect();
        assert_eq!(waits, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        backoff.reset();
        assert_eq!(backoff.next(), Some(Duration::from_millis(800 + spread)));
        assert_ne!(Backoff::of("Pod").spread, spread);
    }
}
