//! Machines whose replacement came to nothing: who tries again at once would never rest.

use std::collections::BTreeMap;
use std::time::Duration;

use aerostat_engine::plan::Plan;
use jiff::{SignedDuration, Timestamp};

use crate::index::Index;

/// For how long a machine is left alone after its first failed command; twice as long after each
/// other one.
const FIRST: Duration = Duration::from_secs(60);
/// But no longer than this.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// A machine that was left alone for so long begins anew.
const MEMORY: SignedDuration = SignedDuration::from_hours(2);

/// What came to nothing, by the claim that stays.
#[derive(Debug, Default)]
pub(crate) struct Spared(BTreeMap<String, Failure>);

#[derive(Debug)]
struct Failure {
    until: Timestamp,
    count: u32,
}

impl Spared {
    /// Takes in which machines a plan leaves where they are though they were to go.
    pub(crate) fn note(&mut self, plan: &Plan, now: Timestamp) {
        let rolled_back = plan.rollbacks.iter().flat_map(|rollback| &rollback.stays);
        for claim in plan.releases.iter().map(|marking| &marking.claim).chain(rolled_back) {
            let failure = self.0.entry(claim.clone()).or_insert(Failure { until: now, count: 0 });
            // A plan that could not be carried out says it again.
            if failure.until <= now {
                let wait = FIRST.saturating_mul(1 << failure.count.min(16)).min(LONGEST);
                failure.until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
                failure.count += 1;
            }
        }
    }

    /// Until when which claims are left alone.
    pub(crate) fn until(&mut self, index: &Index, now: Timestamp) -> BTreeMap<String, Timestamp> {
        self.0.retain(|claim, failure| {
            index.claims.get(claim).is_some() && now.duration_since(failure.until) < MEMORY
        });
        let spared = self.0.iter().filter(|(_, failure)| failure.until > now);
        spared.map(|(claim, failure)| (claim.clone(), failure.until)).collect()
    }
}

#[cfg(test)]
mod tests {
    use aerostat_engine::plan::Marking;

    use super::*;

    #[test]
    fn a_machine_is_left_alone_for_longer_each_time() {
        let release = Marking { claim: "a".to_owned(), node: None, reason: String::new() };
        let plan = Plan { releases: vec![release], ..Plan::default() };
        let (mut spared, mut now) = (Spared::default(), Timestamp::UNIX_EPOCH);
        let mut waits = Vec::new();
        for _ in 0..8 {
            spared.note(&plan, now);
            // Said again, as the mark could not be taken away.
            spared.note(&plan, now + SignedDuration::from_secs(1));
            let until = spared.0["a"].until;
            waits.push(until.duration_since(now).as_secs() / 60);
            now = until;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
