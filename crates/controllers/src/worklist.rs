//! Runs reconciles: one per object at a time, with timers and back-off, in a fixed order.
//!
//! What `kube::runtime::Controller` does, without its hash maps: under the same seed the same
//! objects are reconciled in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use aerostat_clock::Clock;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Error;

/// First and longest wait after a failed reconcile.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What a reconcile asks for: to be called again after a while, or only on a change.
pub type Outcome = Result<Option<Duration>, Error>;

/// Reconciles every name that `triggers` sends, until its sender is gone.
pub async fn run<F, R>(
    controller: &'static str,
    clock: Clock,
    mut triggers: UnboundedReceiver<String>,
    reconcile: F,
) where
    F: Fn(String) -> R,
    R: Future<Output = Outcome>,
{
    let mut list = Worklist::default();
    let mut running = FuturesUnordered::new();
    loop {
        while let Ok(name) = triggers.try_recv() {
            list.trigger(name);
        }
        for name in list.take_due(clock.now()) {
            let future = reconcile(name.clone());
            running.push(async move { (name, future.await) });
        }
        let next = list.next_timer();
        tokio::select! {
            biased;
            name = triggers.recv() => match name {
                Some(name) => list.trigger(name),
                None => return,
            },
            Some((name, outcome)) = running.next(), if !running.is_empty() => {
                if let Err(error) = &outcome
                    && !error.is_conflict()
                {
                    tracing::warn!(controller, %name, %error, "reconcile failed; will try again");
                }
                list.finish(name, outcome, clock.now());
            }
            () = sleep_until(clock, next) => {}
        }
    }
}

async fn sleep_until(clock: Clock, when: Option<Timestamp>) {
    match when {
        Some(when) => clock.sleep_until(when).await,
        None => std::future::pending().await,
    }
}

#[derive(Debug, Default)]
struct Worklist {
    due: BTreeSet<String>,
    running: BTreeSet<String>,
    /// Triggered while running.
    again: BTreeSet<String>,
    timers: BTreeSet<(Timestamp, String)>,
    failures: BTreeMap<String, u32>,
}

impl Worklist {
    fn trigger(&mut self, name: String) {
        if self.running.contains(&name) {
            self.again.insert(name);
        } else {
            self.due.insert(name);
        }
    }

    fn take_due(&mut self, now: Timestamp) -> BTreeSet<String> {
        while self.timers.first().is_some_and(|(when, _)| *when <= now) {
            if let Some((_, name)) = self.timers.pop_first() {
                self.trigger(name);
            }
        }
        let due = std::mem::take(&mut self.due);
        self.timers.retain(|(_, name)| !due.contains(name));
        self.running.extend(due.iter().cloned());
        due
    }

    fn next_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(when, _)| *when)
    }

    fn finish(&mut self, name: String, outcome: Outcome, now: Timestamp) {
        self.running.remove(&name);
        let wait = match outcome {
            Ok(wait) => {
                self.failures.remove(&name);
                wait
            }
            Err(error) if error.is_conflict() => Some(Duration::from_millis(10)),
            Err(_) => {
                let failures = self.failures.entry(name.clone()).or_default();
                *failures += 1;
                let wait = BACKOFF.0.saturating_mul(1 << (*failures - 1).min(6));
                Some(wait.min(BACKOFF.1))
            }
        };
        if self.again.remove(&name) {
            self.due.insert(name);
        } else if let Some(wait) = wait {
            let when = now.checked_add(wait).unwrap_or(Timestamp::MAX);
            self.timers.insert((when, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn clock() -> Clock {
        Clock::simulated(Timestamp::UNIX_EPOCH)
    }

    #[tokio::test(start_paused = true)]
    async fn one_reconcile_per_object_at_a_time_and_none_is_lost() {
        let clock = clock();
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let log = RefCell::new(Vec::new());
        let reconcile = |name: String| {
            let log = &log;
            async move {
                log.borrow_mut().push(format!("{name} begins"));
                clock.sleep(Duration::from_secs(1)).await;
                log.borrow_mut().push(format!("{name} ends"));
                Ok(None)
            }
        };
        sender.send("b".to_owned()).unwrap();
        sender.send("a".to_owned()).unwrap();
        let drive = async {
            clock.sleep(Duration::from_millis(500)).await;
            sender.send("a".to_owned()).unwrap();
            clock.sleep(Duration::from_secs(5)).await;
        };
        tokio::select! {
            biased;
            () = run("test", clock, receiver, reconcile) => {}
            () = drive => {}
        }
        let log = log.borrow();
        let of = |name: &str| -> Vec<String> {
            log.iter().filter(|line| line.starts_with(name)).cloned().collect()
        };
        // The trigger that came while `a` ran is not lost, and waits for its end.
        assert_eq!(of("a"), ["a begins", "a ends", "a begins", "a ends"]);
        assert_eq!(of("b"), ["b begins", "b ends"]);
        assert_eq!(log[..2], ["a begins", "b begins"], "different objects run side by side");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_success_forgets_them() {
        let clock = clock();
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let times = RefCell::new(Vec::new());
        let reconcile = |_| {
            let times = &times;
            async move {
                times.borrow_mut().push(clock.now().as_second());
                if times.borrow().len() == 4 {
                    return Ok(Some(Duration::from_secs(100)));
                }
                Err(aerostat_provider::ProviderError::Other("no".to_owned()).into())
            }
        };
        sender.send("a".to_owned()).unwrap();
        tokio::select! {
            biased;
            () = run("test", clock, receiver, reconcile) => {}
            () = clock.sleep(Duration::from_secs(109)) => {}
        }
        assert_eq!(*times.borrow(), [0, 1, 3, 7, 107, 108]);
    }
}
