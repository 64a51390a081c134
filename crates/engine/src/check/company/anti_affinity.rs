//! Required anti-affinity, both ways: what a pod that joins excludes, and what those that are
//! there exclude.

use std::collections::BTreeMap;

use super::{Company, Domain};
use crate::check::room::key;
use crate::check::violation::{Misfit, Violation};
use crate::pod::PodTerm;

/// One of some pods: its class, its machine.
type One = (usize, usize);

/// The pods of one domain that one term is about.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Pods with the term that the plan places, and one of them.
    new_carriers: u64,
    carrier: Option<One>,
    /// Pods with the term that are there.
    old_carriers: u64,
    old_carrier: Option<One>,
    /// Pods that the term excludes, and those of them that the plan places.
    targets: u64,
    target: Option<One>,
    new_targets: u64,
    new_target: Option<One>,
    /// Pods that the plan places which are both.
    new_both: u64,
}

impl Tally {
    /// Two pods that exclude each other, one of them placed by the plan: that one first.
    fn clash(&self) -> Option<(One, One)> {
        let alone = self.new_carriers == 1 && self.targets == 1 && self.new_both == 1;
        if self.new_carriers > 0 && self.targets > 0 && !alone {
            return self.carrier.zip(self.target);
        }
        if self.old_carriers > 0 && self.new_targets > 0 {
            return self.new_target.zip(self.old_carrier);
        }
        None
    }
}

impl Company<'_> {
    pub(super) fn check_anti_affinity(&self, violations: &mut Vec<Violation>) {
        let mut carriers: BTreeMap<&PodTerm, Vec<usize>> = BTreeMap::new();
        for (class, pod) in self.samples.iter().enumerate() {
            for term in &pod.constraints.pod_anti_affinity {
                carriers.entry(term).or_default().push(class);
            }
        }
        for (term, mut carriers) in carriers {
            carriers.dedup();
            let targets = self.members(&term.pods);
            let is_new = carriers.iter().chain(&targets).any(|class| self.joins(*class));
            if is_new {
                self.check_term(term, &carriers, &targets, violations);
            }
        }
    }

    fn check_term(
        &self,
        term: &PodTerm,
        carriers: &[usize],
        targets: &[usize],
        violations: &mut Vec<Violation>,
    ) {
        let mut tallies: BTreeMap<Domain<'_>, Tally> = BTreeMap::new();
        let mut visit = |class: usize, count: &dyn Fn(&mut Tally, bool, u64, One)| {
            // What is on its way out excludes nobody for long.
            for party in self.parties[class].iter().filter(|party| !party.is_leaving) {
                for domain in &self.domains(&term.topology_key, party.machine).all {
                    let tally = tallies.entry(*domain).or_default();
                    count(tally, party.is_new, party.count, (class, party.machine));
                }
            }
        };
        for class in carriers {
            let is_target = targets.binary_search(class).is_ok();
            visit(*class, &|tally, is_new, count, at| {
                if is_new {
                    tally.new_carriers += count;
                    tally.new_both += if is_target { count } else { 0 };
                    tally.carrier = tally.carrier.or(Some(at));
                } else {
                    tally.old_carriers += count;
                    tally.old_carrier = tally.old_carrier.or(Some(at));
                }
            });
        }
        for class in targets {
            visit(*class, &|tally, is_new, count, at| {
                tally.targets += count;
                tally.target = Some(at);
                if is_new {
                    tally.new_targets += count;
                    tally.new_target = tally.new_target.or(Some(at));
                }
            });
        }
        if let Some((one, other)) = tallies.values().find_map(Tally::clash) {
            let misfit = Misfit::AntiAffinity {
                key: term.topology_key.clone(),
                other: key(self.samples[other.0]),
            };
            let machine = self.machines[one.1].title(None);
            violations.push(Violation::Misplaced {
                pod: key(self.samples[one.0]),
                machine,
                misfit,
            });
        }
    }
}
