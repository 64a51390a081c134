//! Why machines stay that were looked at, and why pods find no place.
//!
//! A decision's report holds until the next one, which comes when anything in it has changed.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_engine::pod::PodKey;
use aerostat_engine::report::{Kept, Report};
use jiff::Timestamp;

/// What stood in the way, so far.
#[derive(Debug)]
pub(crate) struct Blockers {
    at: Timestamp,
    /// How many machines are held now, and their USD per hour, by the blocker's kind.
    now: BTreeMap<&'static str, (f64, f64)>,
    /// By the blocker's kind.
    pub(crate) machines: BTreeMap<&'static str, Held>,
    /// Pods that are without a place now, by why.
    pub(crate) unplaced: BTreeMap<String, BTreeSet<PodKey>>,
}

/// Machines that one kind of blocker has held.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Held {
    /// How long, all of them together.
    pub(crate) seconds: f64,
    /// What they have cost meanwhile.
    pub(crate) usd: f64,
    /// What was said of the first of them.
    pub(crate) example: String,
}

impl Blockers {
    pub(crate) fn new(start: Timestamp) -> Self {
        let (now, machines, unplaced) = Default::default();
        Self { at: start, now, machines, unplaced }
    }

    /// What was reported holds from now on.
    pub(crate) fn take(&mut self, report: &Report, now: Timestamp) {
        self.advance(now);
        self.now.clear();
        for Kept { claim, blocker, price } in &report.kept {
            let held = self.machines.entry(blocker.kind()).or_default();
            if held.example.is_empty() {
                held.example = format!("{claim}: {blocker}");
            }
            let (count, rate) = self.now.entry(blocker.kind()).or_default();
            *count += 1.0;
            *rate += price;
        }
        self.unplaced.clear();
        for unplaced in &report.unplaced {
            let pods = self.unplaced.entry(unplaced.message.clone()).or_default();
            pods.insert(unplaced.pod.clone());
        }
    }

    /// Counts what holds until `to`.
    pub(crate) fn advance(&mut self, to: Timestamp) {
        let seconds = to.duration_since(self.at).as_secs_f64();
        self.at = to;
        for (kind, (count, rate)) in &self.now {
            let held = self.machines.entry(kind).or_default();
            held.seconds += count * seconds;
            held.usd += rate * seconds / 3600.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use aerostat_engine::report::Blocker;

    use super::*;

    #[test]
    fn a_blocker_counts_until_the_next_report() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let kept = |claim: &str, blocker| Kept { claim: claim.to_owned(), blocker, price: 3.6 };
        let mut blockers = Blockers::new(at(0));
        let both = vec![kept("a", Blocker::Node), kept("b", Blocker::NotCheaper)];
        blockers.take(&Report { kept: both, ..Report::default() }, at(10));
        let one = vec![kept("b", Blocker::NotCheaper)];
        blockers.take(&Report { kept: one, ..Report::default() }, at(30));
        blockers.advance(at(100));
        let seconds = |kind: &str| blockers.machines[kind].seconds;
        assert_eq!((seconds("node"), seconds("notCheaper")), (20.0, 90.0));
        assert!((blockers.machines["node"].usd - 0.02).abs() < 1e-9);
        assert_eq!(blockers.machines["notCheaper"].example, "b: Can't replace with a cheaper node");
    }
}
