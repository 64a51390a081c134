//! How many pods of which kind may share a machine.
//!
//! Hostname anti-affinity and hostname spread come down to one thing: a machine counts the pods of
//! some sets, and a pod that joins caps some of these counts. Anti-affinity against a set that the
//! pod belongs to is a cap of one, against another set a cap of zero, a spread with
//! `maxSkew: n` a cap of n (a machine that is not there yet counts as one with none). Since caps
//! only fall and counts only rise, a machine that is filled in any order is right in every order.

/// What one pod does to the counts of the machine that it joins. Sets are numbered over the whole
/// plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// The sets that the pod counts in, ascending.
    pub(crate) counts: Vec<usize>,
    /// How often it counts in each of them, if it stands for several pods; else empty.
    pub(crate) weights: Vec<u32>,
    /// The most pods of a set that it bears beside and including itself, by set, ascending.
    pub(crate) caps: Vec<(usize, u32)>,
    /// Sets of which a pod must be there already, or come along, ascending: affinity to other
    /// pods on the same machine.
    pub(crate) needs: Vec<usize>,
}

/// The counts of one machine: only sets that somebody counts in or caps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Set, pods counted, cap; ascending by set.
    entries: Vec<(usize, u32, u32)>,
}

impl Rule {
    /// Whether pods under this rule are free to join any number on any machine, and no other pod
    /// is affected.
    pub(crate) fn is_free(&self) -> bool {
        self.counts.is_empty() && self.caps.is_empty() && self.needs.is_empty()
    }

    /// The sets that a pod counts in, and how often.
    fn weighed(&self) -> impl Iterator<Item = (usize, u32)> {
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1));
        self.counts.iter().copied().zip(weights)
    }

    /// The cap that this rule puts on a set.
    fn cap(&self, set: usize) -> u32 {
        let found = self.caps.binary_search_by_key(&set, |(set, _)| *set);
        found.map_or(u32::MAX, |at| self.caps[at].1)
    }
}

impl Tally {
    /// How many of `count` pods under `rule` may join.
    pub(crate) fn room(&self, rule: &Rule, count: u32) -> u32 {
        if rule.is_free() {
            return count;
        }
        if rule.needs.iter().any(|set| self.count(*set) == 0 && !rule.counts.contains(set)) {
            return 0;
        }
        for (set, cap) in &rule.caps {
            if self.count(*set) > *cap {
                return 0;
            }
        }
        let of = |(set, weight): (usize, u32)| {
            let (_, count, cap) = self.entry(set);
            cap.min(rule.cap(set)).saturating_sub(count) / weight.max(1)
        };
        rule.weighed().map(of).min().unwrap_or(count).min(count)
    }

    /// Counts `count` pods under `rule` in; they must have room.
    pub(crate) fn join(&mut self, rule: &Rule, count: u32) {
        for (set, weight) in rule.weighed() {
            let entry = self.entry_mut(set);
            entry.1 = entry.1.saturating_add(count.saturating_mul(weight));
        }
        for (set, cap) in &rule.caps {
            let entry = self.entry_mut(*set);
            entry.2 = entry.2.min(*cap);
        }
    }

    /// Whether a machine may hold these pods together: each rule with how many pods are under it.
    pub(crate) fn holds<'r>(pods: impl Iterator<Item = (&'r Rule, u32)> + Clone) -> bool {
        let mut tally = Self::default();
        let some = || pods.clone().filter(|(rule, count)| *count > 0 && !rule.is_free());
        some().for_each(|(rule, count)| tally.join(rule, count));
        tally.entries.iter().all(|(_, count, cap)| count <= cap)
            && some().all(|(rule, _)| rule.needs.iter().all(|set| tally.count(*set) > 0))
    }

    /// How many pods of a set are there.
    pub(crate) fn count(&self, set: usize) -> u32 {
        self.entry(set).1
    }

    fn entry(&self, set: usize) -> (usize, u32, u32) {
        let found = self.entries.binary_search_by_key(&set, |entry| entry.0);
        found.map_or((set, 0, u32::MAX), |at| self.entries[at])
    }

    fn entry_mut(&mut self, set: usize) -> &mut (usize, u32, u32) {
        let at = match self.entries.binary_search_by_key(&set, |entry| entry.0) {
            Ok(at) => at,
            Err(at) => {
                self.entries.insert(at, (set, 0, u32::MAX));
                at
            }
        };
        &mut self.entries[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(counts: &[usize], caps: &[(usize, u32)], needs: &[usize]) -> Rule {
        let (counts, caps, needs) = (counts.to_vec(), caps.to_vec(), needs.to_vec());
        Rule { counts, caps, needs, ..Rule::default() }
    }

    #[test]
    fn a_pod_that_shuns_its_like_is_alone() {
        let shy = rule(&[0], &[(0, 1)], &[]);
        let mut tally = Tally::default();
        assert_eq!(tally.room(&shy, 5), 1);
        tally.join(&shy, 1);
        assert_eq!(tally.room(&shy, 5), 0);
        assert_eq!(tally.room(&rule(&[0], &[], &[]), 5), 0, "its like may not join either");
        assert_eq!(tally.room(&rule(&[1], &[], &[]), 5), 5, "others may");
    }

    #[test]
    fn a_pod_that_shuns_others_keeps_them_off_and_stays_off() {
        let shy = rule(&[], &[(0, 0)], &[]);
        let other = rule(&[0], &[], &[]);
        let mut tally = Tally::default();
        tally.join(&shy, 3);
        assert_eq!(tally.room(&other, 1), 0);
        assert_eq!(tally.room(&shy, 2), 2);
        let mut tally = Tally::default();
        tally.join(&other, 1);
        assert_eq!(tally.room(&shy, 1), 0);
    }

    #[test]
    fn a_pod_that_needs_company_waits_for_it() {
        let needy = rule(&[1], &[], &[0]);
        let mut tally = Tally::default();
        assert_eq!(tally.room(&needy, 2), 0);
        tally.join(&rule(&[0], &[], &[]), 1);
        assert_eq!(tally.room(&needy, 2), 2);
        assert_eq!(Tally::default().room(&rule(&[0], &[], &[0]), 2), 2, "it is its own company");
    }

    #[test]
    fn who_stands_for_several_counts_as_several() {
        let three = Rule { weights: vec![3], ..rule(&[0], &[], &[]) };
        let mut tally = Tally::default();
        tally.join(&rule(&[], &[(0, 4)], &[]), 1);
        assert_eq!(tally.room(&three, 2), 1);
        tally.join(&three, 1);
        assert_eq!((tally.count(0), tally.room(&three, 2)), (3, 0));
        assert_eq!(tally.room(&rule(&[0], &[], &[]), 2), 1);
    }

    #[test]
    fn a_machine_is_judged_as_a_whole() {
        let (shy, like, needy) =
            (rule(&[0], &[(0, 1)], &[]), rule(&[0], &[], &[]), rule(&[], &[], &[0]));
        let holds = |pods: &[(&Rule, u32)]| Tally::holds(pods.iter().copied());
        assert!(holds(&[(&shy, 1)]) && holds(&[(&like, 5)]) && holds(&[(&shy, 0), (&like, 2)]));
        assert!(!holds(&[(&shy, 2)]) && !holds(&[(&like, 1), (&shy, 1)]));
        assert!(!holds(&[(&needy, 1)]) && holds(&[(&needy, 3), (&shy, 1)]));
    }
}
