//! Required affinity: pods are bound where company is, until no more can be.

use std::collections::{BTreeMap, BTreeSet};

use super::{Company, Domain, Domains, Party};
use crate::check::labels::belongs;
use crate::check::room::key;
use crate::check::violation::{Misfit, Violation};
use crate::pod::PodTerm;

/// Pods of one class that ask for company, on one machine.
struct Guest {
    class: usize,
    machine: usize,
    /// Which set of terms they have.
    wish: usize,
}

/// The terms of some classes.
struct Wish<'a> {
    terms: &'a [PodTerm],
    /// The classes whose pods match all terms.
    company: BTreeSet<usize>,
    /// Whether pods of the company are there before the plan is carried out.
    is_met_somewhere: bool,
    /// By term: the domains where the company is.
    domains: Vec<BTreeSet<Domain<'a>>>,
}

impl<'a> Company<'a> {
    pub(super) fn check_affinity(&self, violations: &mut Vec<Violation>) {
        let (mut wishes, mut guests) = self.guests();
        if guests.is_empty() {
            return;
        }
        let waiting: BTreeSet<(usize, usize)> =
            guests.iter().map(|guest| (guest.class, guest.machine)).collect();
        for (class, parties) in self.parties.iter().enumerate() {
            for party in parties {
                if !(party.is_new && waiting.contains(&(class, party.machine))) {
                    self.bind(&mut wishes, class, party);
                }
            }
        }
        loop {
            let before = guests.len();
            self.bind_where_company_is(&mut wishes, &mut guests);
            if guests.is_empty() {
                return;
            }
            if guests.len() == before && !self.bind_first(&mut wishes, &mut guests) {
                break;
            }
        }
        let mut told = BTreeSet::new();
        for guest in guests.iter().filter(|guest| told.insert(guest.class)) {
            let wish = &wishes[guest.wish];
            let unmet = |(term, domains): (&'a PodTerm, &BTreeSet<Domain<'_>>)| {
                let here = self.domains(&term.topology_key, guest.machine);
                (!is_met(here, domains, guest.machine)).then_some((term, here))
            };
            let Some((term, here)) = wish.terms.iter().zip(&wish.domains).find_map(unmet) else {
                continue;
            };
            let topology_key = term.topology_key.clone();
            let misfit = if here.may_lack || here.all.is_empty() {
                Misfit::NoTopology(topology_key)
            } else {
                Misfit::Affinity { key: topology_key }
            };
            violations.push(Violation::Misplaced {
                pod: key(self.samples[guest.class]),
                machine: self.machines[guest.machine].title(None),
                misfit,
            });
        }
    }

    fn guests(&self) -> (Vec<Wish<'a>>, Vec<Guest>) {
        let mut wishes: Vec<Wish<'a>> = Vec::new();
        let mut by_terms: BTreeMap<&[PodTerm], usize> = BTreeMap::new();
        let mut guests = Vec::new();
        for (class, pod) in self.samples.iter().enumerate() {
            let terms = pod.constraints.pod_affinity.as_slice();
            if terms.is_empty() || !self.joins(class) {
                continue;
            }
            let namespaces = &self.snapshot.namespaces;
            if self.awaits(&|pod| terms.iter().all(|term| belongs(pod, &term.pods, namespaces))) {
                continue;
            }
            let wish = *by_terms.entry(terms).or_insert_with(|| {
                wishes.push(self.wish(terms));
                wishes.len() - 1
            });
            for party in self.parties[class].iter().filter(|party| party.is_new) {
                guests.push(Guest { class, machine: party.machine, wish });
            }
        }
        (wishes, guests)
    }

    fn wish(&self, terms: &'a [PodTerm]) -> Wish<'a> {
        let mut sets = terms.iter().map(|term| self.members(&term.pods));
        let first: BTreeSet<usize> = sets.next().unwrap_or_default().into_iter().collect();
        let company =
            sets.fold(first, |all, set| set.into_iter().filter(|c| all.contains(c)).collect());
        let is_there = |class: &usize| self.parties[*class].iter().any(|party| !party.is_new);
        let is_met_somewhere = company.iter().any(is_there);
        Wish { terms, company, is_met_somewhere, domains: vec![BTreeSet::new(); terms.len()] }
    }

    /// Counts a party in as company: on its machine, whatever domain that will be in, and in its
    /// domain if there is no doubt which that is.
    fn bind(&self, wishes: &mut [Wish<'a>], class: usize, party: &Party) {
        for wish in wishes.iter_mut().filter(|wish| wish.company.contains(&class)) {
            for (term, domains) in wish.terms.iter().zip(&mut wish.domains) {
                domains.insert(Domain::Machine(party.machine));
                domains.extend(self.domains(&term.topology_key, party.machine).certain());
            }
        }
    }

    fn bind_where_company_is(&self, wishes: &mut [Wish<'a>], guests: &mut Vec<Guest>) {
        let mut left = Vec::new();
        for guest in guests.drain(..) {
            let wish = &wishes[guest.wish];
            let meets = |(term, domains): (&PodTerm, &BTreeSet<Domain<'_>>)| {
                let here = self.domains(&term.topology_key, guest.machine);
                is_met(here, domains, guest.machine)
            };
            if wish.terms.iter().zip(&wish.domains).all(meets) {
                self.bind_guest(wishes, &guest);
            } else {
                left.push(guest);
            }
        }
        *guests = left;
    }

    fn bind_guest(&self, wishes: &mut [Wish<'a>], guest: &Guest) {
        let here = |party: &&Party| party.is_new && party.machine == guest.machine;
        for party in self.parties[guest.class].iter().filter(here) {
            self.bind(wishes, guest.class, party);
        }
    }

    /// The first of pods that are each other's company may go anywhere, if no such pod is there
    /// yet and the machine has all labels.
    fn bind_first(&self, wishes: &mut [Wish<'a>], guests: &mut Vec<Guest>) -> bool {
        let may_begin = |guest: &Guest| {
            let wish = &wishes[guest.wish];
            !wish.is_met_somewhere
                && wish.company.contains(&guest.class)
                && wish.terms.iter().all(|term| {
                    let here = self.domains(&term.topology_key, guest.machine);
                    !here.may_lack && !here.all.is_empty()
                })
        };
        let Some(at) = guests.iter().position(may_begin) else { return false };
        let guest = guests.remove(at);
        wishes[guest.wish].is_met_somewhere = true;
        self.bind_guest(wishes, &guest);
        true
    }
}

/// Whether there is company on a machine or in every domain that it may be in.
fn is_met(here: &Domains<'_>, company: &BTreeSet<Domain<'_>>, machine: usize) -> bool {
    !here.may_lack
        && !here.all.is_empty()
        && (company.contains(&Domain::Machine(machine))
            || here.all.iter().all(|domain| company.contains(domain)))
}
