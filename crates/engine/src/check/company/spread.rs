//! Required topology spread: by the end of the plan no domain that pods were put in has too many
//! more than the emptiest. Counts only grow while pods are bound, so this must hold whatever the
//! order is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Company, Domain};
use crate::check::labels::{bears_cordon, node_allowed, repelling, selects};
use crate::check::machines::Machine;
use crate::check::room::key;
use crate::check::violation::{Misfit, Violation};
use crate::pod::{Pod, Spread};

/// The pods of one domain.
#[derive(Clone, Copy, Default)]
struct Count {
    /// Those that are there and stay.
    there: u64,
    /// Those under the same constraint that go on machines that are there.
    joining: u64,
    /// Those under the same constraint that go on machines that are ordered, or on one that may
    /// still be elsewhere.
    ordered: u64,
    /// All that are certainly here in the end.
    all: u64,
    /// One of those under the constraint: class, machine.
    one: Option<(usize, usize)>,
}

/// The least of the domains' counts.
struct Least {
    /// With machines that are there.
    now: u64,
    /// With those that are ordered.
    then: u64,
}

impl<'a> Company<'a> {
    pub(super) fn check_spread(&self, violations: &mut Vec<Violation>) {
        let mut groups: Vec<(&'a Pod, Vec<usize>)> = Vec::new();
        for (class, pod) in self.samples.iter().enumerate() {
            let has_required = pod.constraints.spread.iter().any(|spread| spread.required);
            if !has_required || !self.joins(class) {
                continue;
            }
            let alike = groups.iter_mut().find(|(other, _)| is_spread_alike(other, pod));
            match alike {
                Some((_, classes)) => classes.push(class),
                None => groups.push((pod, vec![class])),
            }
        }
        for (pod, classes) in &groups {
            for spread in pod.constraints.spread.iter().filter(|spread| spread.required) {
                self.check_group(pod, classes, spread, violations);
            }
        }
    }

    fn check_group(
        &self,
        pod: &'a Pod,
        classes: &[usize],
        spread: &'a Spread,
        violations: &mut Vec<Violation>,
    ) {
        let topology_key = &spread.topology_key;
        let report = |(class, machine): (usize, usize), misfit, violations: &mut Vec<Violation>| {
            violations.push(Violation::Misplaced {
                pod: key(self.samples[class]),
                machine: self.machines[machine].title(None),
                misfit,
            });
        };
        let members: BTreeSet<usize> =
            self.spread_members(&pod.namespace, spread.selector.as_ref()).into_iter().collect();
        let mut counts: BTreeMap<Domain<'a>, Count> = BTreeMap::new();
        for class in classes {
            for party in self.parties[*class].iter().filter(|party| party.is_new) {
                let domains = self.domains(topology_key, party.machine);
                if domains.may_lack || domains.all.is_empty() {
                    let misfit = Misfit::NoTopology(topology_key.clone());
                    report((*class, party.machine), misfit, violations);
                    return;
                }
                let is_there = self.machines[party.machine].state().is_some_and(|s| s.has_node);
                for domain in &domains.all {
                    let count = counts.entry(*domain).or_default();
                    let own = if members.contains(class) { party.count } else { 0 };
                    *(if is_there { &mut count.joining } else { &mut count.ordered }) += own;
                    count.one = count.one.or(Some((*class, party.machine)));
                }
            }
        }
        let is_one = |other: &Pod| {
            other.namespace == pod.namespace
                && spread.selector.as_ref().is_some_and(|s| selects(s, &other.labels))
        };
        if self.awaits(&is_one) {
            return;
        }
        let counted: Vec<bool> =
            self.machines.iter().map(|machine| self.counts(pod, spread, machine)).collect();
        for class in &members {
            for party in self.parties[*class].iter().filter(|p| !p.is_leaving && counted[p.machine])
            {
                let certain = self.domains(topology_key, party.machine).certain();
                let Some(domain) = certain else { continue };
                let count = counts.entry(domain).or_default();
                count.all += party.count;
                count.there += if party.is_new { 0 } else { party.count };
            }
        }
        let least = self.least(spread, &counted, &counts);
        let too_many = |count: u64, least: u64| count > least + u64::from(spread.max_skew);
        for count in counts.values() {
            let Some(one) = count.one else { continue };
            let in_the_end = count.there + count.joining + count.ordered;
            let at_first = count.there + count.joining;
            if too_many(in_the_end, least.then)
                && (count.ordered > 0 || too_many(at_first, least.now))
            {
                let misfit = Misfit::Spread {
                    key: topology_key.clone(),
                    count: in_the_end,
                    least: least.then,
                    max_skew: spread.max_skew,
                };
                report(one, misfit, violations);
                return;
            }
        }
    }

    /// The least of the counts of all domains that machines make.
    fn least(
        &self,
        spread: &Spread,
        counted: &[bool],
        counts: &BTreeMap<Domain<'a>, Count>,
    ) -> Least {
        let (mut now, mut then) = (BTreeSet::new(), BTreeSet::new());
        for (at, machine) in self.machines.iter().enumerate().filter(|(at, _)| counted[*at]) {
            // A machine on its way out makes no domain that pods could go to.
            if machine.state().is_some_and(|state| state.deleting) {
                continue;
            }
            let Some(domain) = self.domains(&spread.topology_key, at).certain() else { continue };
            then.insert(domain);
            if machine.state().is_some_and(|state| state.has_node) {
                now.insert(domain);
            }
        }
        let least = |domains: &BTreeSet<Domain<'_>>, of: &dyn Fn(&Count) -> u64| {
            if domains.len() < spread.min_domains as usize {
                return 0;
            }
            domains.iter().map(|d| counts.get(d).map_or(0, of)).min().unwrap_or(0)
        };
        Least {
            now: least(&now, &|count| count.there + count.joining),
            then: least(&then, &|count| count.all),
        }
    }

    /// Whether a machine makes a domain, and its pods count.
    fn counts(&self, pod: &Pod, spread: &Spread, machine: &Machine<'_>) -> bool {
        let constraints = &pod.constraints;
        let required = constraints.spread.iter().filter(|spread| spread.required);
        let keys: BTreeSet<&str> = required.map(|spread| spread.topology_key.as_str()).collect();
        let is_host = |key: &str| key == aerostat_api::labels::HOSTNAME;
        let is_cordoned = machine.state().is_some_and(|state| state.node.unschedulable);
        let tolerates = || {
            repelling(constraints, machine.taints()).is_none()
                && (!is_cordoned || bears_cordon(constraints))
        };
        !machine.candidates.is_empty()
            && machine.candidates.iter().all(|candidate| {
                keys.iter().all(|key| is_host(key) || candidate.label(key).is_some())
                    && (!spread.honors_affinity || node_allowed(constraints, candidate))
            })
            && (!spread.honors_taints || tolerates())
    }
}

/// Whether two pods' spread constraints come to the same.
fn is_spread_alike(a: &Pod, b: &Pod) -> bool {
    let (c, d) = (&a.constraints, &b.constraints);
    let honors = |f: fn(&Spread) -> bool| c.spread.iter().any(f);
    a.namespace == b.namespace
        && c.spread == d.spread
        && (!honors(|spread| spread.honors_affinity)
            || c.node_selector == d.node_selector && c.node_affinity == d.node_affinity)
        && (!honors(|spread| spread.honors_taints) || c.tolerations == d.tolerations)
}
