//! One attempt to place one pod: find a node, or say why there is none and who would have to go.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_engine::predicates::Reason;

use super::Scheduler;
use super::cache::Slot;
use super::class::ClassId;
use super::filter::{self, Verdict};
use super::messages::{self, Counts};
use super::pod::PodInfo;
use super::preemption::{self, Outcome};
use super::score;

/// What an attempt found.
#[derive(Debug)]
pub(super) enum Found {
    /// The node to bind to.
    Node(String),
    /// The cluster has no nodes.
    NoNodes,
    /// None; why, and what becomes of the pod's nomination.
    Nothing(Failure, Nomination),
}

/// Why no node can take a pod.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// What is told.
    pub(super) message: Arc<str>,
    /// Whether it is taints that keep the pod off every node.
    pub(super) tainted: bool,
}

/// What becomes of the nomination of a pod that fits nowhere.
#[derive(Debug)]
pub(super) enum Nomination {
    /// It stays as it is.
    Keep,
    /// It ends.
    Clear,
    /// This node is meant for the pod, and these pods go from it.
    Preempt {
        /// The node.
        node: String,
        /// Who goes.
        victims: Vec<Arc<PodInfo>>,
    },
}

/// What looking at the nodes came to.
#[derive(Default)]
struct Search {
    fits: Vec<(Slot, score::Scores)>,
    /// Nodes where removing pods may help.
    helpful: Vec<Slot>,
    reasons: BTreeMap<Reason, usize>,
    /// Nodes that affinity to node names leaves out.
    not_named: usize,
}

impl Search {
    fn count(&mut self, slot: Slot, verdict: &Verdict) {
        match verdict {
            Verdict::Fits(scores) => self.fits.push((slot, *scores)),
            Verdict::Fails(reasons) => {
                if verdict.preemption_may_help() {
                    self.helpful.push(slot);
                }
                for reason in reasons {
                    match self.reasons.get_mut(reason) {
                        Some(count) => *count += 1,
                        None => drop(self.reasons.insert(reason.clone(), 1)),
                    }
                }
            }
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for (reason, count) in &self.reasons {
            // Two reasons may read the same.
            *counts.entry(reason.to_string()).or_default() += count;
        }
        if self.not_named > 0 {
            counts.insert(messages::NOT_NAMED.to_owned(), self.not_named);
        }
        counts
    }
}

impl Scheduler {
    /// Looks for a node for a pod.
    pub(super) fn find(&mut self, info: &PodInfo, class: ClassId) -> Found {
        if self.cache.len() == 0 {
            return Found::NoNodes;
        }
        if !info.pod.unsupported.is_empty() {
            return self.nowhere(info, &messages::unsupported(&info.pod.unsupported));
        }
        let names = info.named_nodes();
        if names.as_ref().is_some_and(|names| names.is_empty()) {
            return self.nowhere(info, messages::NAMES_CONFLICT);
        }
        let nominated = self.cache.nomination(&info.key());
        // The node that room was made on is tried first.
        if let Some((node, at)) = nominated.and_then(|slot| self.cache.at(slot))
            && let Verdict::Fits(_) = filter::judge(info, node, at, &self.cache)
        {
            return Found::Node(node.name.clone());
        }
        if let Some(failure) = self.known_failure(class, nominated) {
            return failure;
        }
        let mut search = Search::default();
        if let Some(names) = names {
            search.not_named = self.cache.len();
            for slot in names.iter().filter_map(|name| self.cache.slot(name)) {
                let Some((node, at)) = self.cache.at(slot) else { continue };
                search.count(slot, &filter::judge(info, node, at, &self.cache));
                search.not_named -= 1;
            }
        } else {
            self.search_all(info, class, nominated, &mut search);
        }
        let best = score::best(&search.fits, &mut self.stream);
        if let Some((node, _)) = best.and_then(|slot| self.cache.at(slot)) {
            return Found::Node(node.name.clone());
        }
        self.post_filter(info, class, nominated, &search)
    }

    fn search_all(
        &mut self,
        info: &PodInfo,
        class: ClassId,
        nominated: Option<Slot>,
        search: &mut Search,
    ) {
        let Some(class) = self.classes.get_mut(class) else { return };
        class.verdicts.refresh(&class.sample, &self.cache);
        for (slot, node, at) in self.cache.nodes() {
            if nominated == Some(slot) {
                // Only for itself the pod's own nomination does not count.
                search.count(slot, &filter::judge(info, node, at, &self.cache));
            } else if let Some(verdict) = class.verdicts.get(slot) {
                search.count(slot, verdict);
            }
        }
    }

    /// The failure of an equal pod, if nothing has changed since.
    fn known_failure(&self, class: ClassId, nominated: Option<Slot>) -> Option<Found> {
        let (generation, failure) = self.classes.get(class)?.failure.as_ref()?;
        let known = nominated.is_none() && *generation == self.cache.generation();
        known.then(|| Found::Nothing(failure.clone(), Nomination::Clear))
    }

    /// The pod fits nowhere: would it after others have gone?
    fn post_filter(
        &mut self,
        info: &PodInfo,
        class: ClassId,
        nominated: Option<Slot>,
        search: &Search,
    ) -> Found {
        let nodes = self.cache.len();
        let hopeless = nominated.is_none_or(|slot| !search.helpful.contains(&slot));
        let outcome = match preemption::not_eligible(info, &self.cache, hopeless) {
            Some(why) => Outcome::NotEligible(why),
            None => {
                let budgets = self.budgets.values();
                preemption::find(info, &search.helpful, &self.cache, budgets, &mut self.stream)
            }
        };
        let failure = |after: &str| Failure {
            message: messages::fit_error(nodes, None, &search.counts(), after).into(),
            tainted: search.reasons.get(&Reason::Taint) == Some(&nodes),
        };
        let (failure, nomination) = match outcome {
            Outcome::Preempt { node, victims } => {
                return Found::Nothing(failure(""), Nomination::Preempt { node, victims });
            }
            Outcome::Useless(why) => (failure(&messages::preemption(&why)), Nomination::Clear),
            Outcome::NotEligible(why) => (failure(&messages::preemption(why)), Nomination::Keep),
        };
        if nominated.is_none()
            && let Some(class) = self.classes.get_mut(class)
        {
            class.failure = Some((self.cache.generation(), failure.clone()));
        }
        Found::Nothing(failure, nomination)
    }

    /// The pod was ruled out before any node was looked at.
    fn nowhere(&self, info: &PodInfo, whole: &str) -> Found {
        let nodes = self.cache.len();
        let none = Counts::from([(messages::NOT_HELPFUL.to_owned(), nodes)]);
        let useless = messages::fit_error(nodes, None, &none, "");
        let (after, nomination) = match preemption::not_eligible(info, &self.cache, true) {
            Some(why) => (why, Nomination::Keep),
            None => (useless.as_str(), Nomination::Clear),
        };
        let after = messages::preemption(after);
        let message = messages::fit_error(nodes, Some(whole), &Counts::new(), &after);
        Found::Nothing(Failure { message: message.into(), tainted: false }, nomination)
    }
}
