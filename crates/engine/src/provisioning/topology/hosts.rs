//! Constraints over host names, as rules for each machine.
//!
//! A machine that is not there yet counts as a domain without pods, so the fewest pods of a host
//! name spread are always none: a new machine is possible. This is stricter than the scheduler,
//! never looser. Source: kubernetes-sigs/karpenter
//! `pkg/controllers/provisioning/scheduling/topologygroup.go`.

use std::collections::BTreeMap;

use aerostat_api::labels::HOSTNAME;

use super::Item;
use super::sets::{Sets, Terms};
use crate::pod::Pod;
use crate::provisioning::class::Class;
use crate::provisioning::lot::Lot;
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
            return Self { present: vec![false; sets.len()], relevant, ..Self::default() };
        }
        let mut hosts = Self { present: vec![false; sets.len()], relevant, ..Self::default() };
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

    /// Gives each item its rule: what its pods do to a machine. `order` is the order in which the
    /// items could be bound.
    ///
    /// Pods that follow others onto a machine need one that can be there before them: not one that
    /// could itself only come after them. So sets that have such pods exist twice.
    pub(super) fn rule(&self, items: &mut [Item], order: &[usize]) {
        let mut position = vec![0; items.len()];
        order.iter().enumerate().for_each(|(at, item)| position[*item] = at);
        let mut without: BTreeMap<(usize, Vec<usize>), usize> = BTreeMap::new();
        let mut needs: Vec<Option<usize>> = vec![None; items.len()];
        for (at, item) in items.iter().enumerate() {
            let Some((_, set)) = item.terms.affinity.iter().find(|(key, _)| key == HOSTNAME) else {
                continue;
            };
            needs[at] = match (self.present[*set], item.lot.bundle) {
                // Where pods of the set run already, others have to follow them there; a machine
                // that only this plan fills does not do.
                (true, _) => Some(self.alias(*set)),
                (false, true) => None,
                (false, false) => {
                    let comes_later = |(other, them): &(usize, &Item)| {
                        them.sets.contains(set)
                            && !them.terms.affinity.is_empty()
                            && position[*other] >= position[at]
                    };
                    let later = items.iter().enumerate().filter(comes_later);
                    let later: Vec<usize> = later.map(|(other, _)| other).collect();
                    let next = 2 * self.relevant.len() + without.len();
                    Some(match later.is_empty() {
                        true => *set,
                        false => *without.entry((*set, later)).or_insert(next),
                    })
                }
            };
        }
        for (at, item) in items.iter_mut().enumerate() {
            let counts = item.sets.iter().copied().filter(|set| self.relevant[*set]);
            let early = without
                .iter()
                .filter(|((set, later), _)| item.sets.contains(set) && !later.contains(&at));
            let mut counts: Vec<usize> = counts.chain(early.map(|(_, number)| *number)).collect();
            counts.sort_unstable();
            let (caps, needs) = (caps(&item.terms, &item.sets), needs[at].into_iter().collect());
            item.lot.rule = Rule { counts, weights: Vec::new(), caps, needs };
            self.weigh(&mut item.lot);
        }
    }

    /// Lets a bundle count as often as it has pods in each set.
    pub(super) fn weigh(&self, lot: &mut Lot) {
        if !lot.bundle {
            return;
        }
        let is_in = |part: &&Class, set: usize| {
            set >= self.relevant.len() || part.sets.binary_search(&set).is_ok()
        };
        let pods = |set: &usize| {
            let parts = lot.parts.iter().filter(|part| is_in(part, *set));
            parts.map(Class::count).fold(0, u32::saturating_add)
        };
        lot.rule.weights = lot.rule.counts.iter().map(pods).collect();
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
