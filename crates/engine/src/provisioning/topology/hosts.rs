//! Constraints over host names, as rules for each machine.
//!
//! A machine that is not there yet counts as a domain without pods, so the fewest pods of a host
//! name spread are always none: a new machine is possible. This is stricter than the scheduler,
//! never looser. Source: kubernetes-sigs/karpenter
//! `pkg/controllers/provisioning/scheduling/topologygroup.go`.

use std::collections::BTreeMap;

use aerostat_api::labels::HOSTNAME;

use super::sets::{Sets, Terms};
use crate::pod::Pod;
use crate::provisioning::class::Class;
use crate::provisioning::tally::{Rule, Tally};
use crate::residents::Residents;
use crate::snapshot::{Snapshot, StateNode};

/// Which sets matter to machines, and how many pods of them are on each node.
#[derive(Default)]
pub(crate) struct Hosts {
    /// By node of the snapshot; empty if no set matters.
    pub(crate) tallies: Vec<Tally>,
    /// Sets that a rule is about.
    relevant: Vec<bool>,
    /// Sets that have pods on some node: who needs them follows them there.
    present: Vec<bool>,
}

impl Hosts {
    pub(crate) fn of<'a>(
        classes: &[Class],
        sets: &mut Sets<'a>,
        snapshot: &'a Snapshot,
        residents: &Residents<'a>,
    ) -> Self {
        let mut relevant = vec![false; sets.len()];
        let mut mark = |terms: &Terms| {
            for (key, set) in terms.about() {
                if key == HOSTNAME {
                    relevant[set] = true;
                }
            }
        };
        classes.iter().for_each(|class| mark(&class.terms));
        residents.all().for_each(|pod| mark(&sets.shunned(pod)));
        if !relevant.contains(&true) {
            return Self { present: vec![false; sets.len()], relevant, tallies: Vec::new() };
        }
        let mut hosts = Self { present: vec![false; sets.len()], relevant, tallies: Vec::new() };
        for state in &snapshot.nodes {
            let tally = hosts.count(state, sets, residents);
            hosts.tallies.push(tally);
        }
        hosts
    }

    /// Counts the pods of one node.
    fn count<'a>(
        &mut self,
        state: &StateNode,
        sets: &mut Sets<'a>,
        residents: &Residents<'a>,
    ) -> Tally {
        let mut tally = Tally::default();
        for pod in residents.bound(state).iter().chain(residents.nominated(state)) {
            let pod: &'a Pod = pod;
            let members = sets.members(pod);
            let mut rule = Rule::default();
            for set in members.iter().filter(|set| self.relevant[**set]) {
                self.present[*set] = true;
                rule.counts.push(*set);
            }
            // Those that are needed count twice: see `rule`.
            let alias: Vec<usize> = rule.counts.iter().map(|set| self.alias(*set)).collect();
            rule.counts.extend(alias);
            rule.caps = caps(&sets.shunned(pod), &members);
            tally.join(&rule, 1);
        }
        tally
    }

    /// The number under which pods count that were on a node before the plan.
    fn alias(&self, set: usize) -> usize {
        self.relevant.len() + set
    }

    /// Whether a pod of the set is on a node.
    pub(crate) fn is_present(&self, set: usize) -> bool {
        self.present[set]
    }

    /// What pods of these sets and terms do to a machine. `along` are sets whose pods come along
    /// in the same unit.
    pub(crate) fn rule(&self, members: &[usize], terms: &Terms, along: &[usize]) -> Rule {
        let counts = members.iter().copied().filter(|set| self.relevant[*set]).collect();
        let affinity = terms.affinity.iter().filter(|(key, _)| key == HOSTNAME);
        let mut needs: Vec<usize> = affinity
            .filter_map(|(_, set)| {
                // Where pods of the set run already, others have to follow them there; a machine
                // that only this plan fills does not do.
                let present = self.present[*set].then(|| self.alias(*set));
                present.or_else(|| (!along.contains(set)).then_some(*set))
            })
            .collect();
        needs.sort_unstable();
        needs.dedup();
        Rule { counts, caps: caps(terms, members), needs }
    }
}

/// The most pods of each set that a pod bears on its machine, itself included.
fn caps(terms: &Terms, members: &[usize]) -> Vec<(usize, u32)> {
    let mut caps: BTreeMap<usize, u32> = BTreeMap::new();
    let mut cap = |set: usize, most: u32| {
        let lowest = caps.entry(set).or_insert(most);
        *lowest = most.min(*lowest);
    };
    for (_, set) in terms.anti.iter().filter(|(key, _)| key == HOSTNAME) {
        cap(*set, u32::from(members.binary_search(set).is_ok()));
    }
    for spread in terms.spread.iter().filter(|spread| spread.key == HOSTNAME) {
        cap(spread.set, spread.max_skew);
    }
    caps.into_iter().collect()
}
