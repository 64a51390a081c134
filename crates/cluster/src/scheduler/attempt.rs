//! One attempt to place one pod: find a node, or say why there is none and who would have to go.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_engine::node::Node;
use aerostat_engine::pod::PodKey;
use aerostat_engine::predicates::Reason;
use aerostat_engine::predicates::topology::{Eligible, Filters};

use super::Scheduler;
use super::cache::{NodeInfo, Slot};
use super::class::ClassId;
use super::filter::{self, Verdict};
use super::messages::{self, Counts};
use super::pod::PodInfo;
use super::preemption::{self, Outcome};
use super::score::{self, Wishes};

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
    /// Takes in how a pod fares on a node; `others` is why other pods keep it off.
    fn count(&mut self, slot: Slot, verdict: &Verdict, others: impl FnOnce() -> Option<Reason>) {
        match verdict {
            Verdict::Fits(scores) => match others() {
                None => self.fits.push((slot, *scores)),
                Some(reason) => self.fail(slot, std::slice::from_ref(&reason)),
            },
            Verdict::Fails(reasons) => self.fail(slot, reasons),
        }
    }

    fn fail(&mut self, slot: Slot, reasons: &[Reason]) {
        if reasons.iter().all(Reason::preemption_may_help) {
            self.helpful.push(slot);
        }
        for reason in reasons {
            match self.reasons.get_mut(reason) {
                Some(count) => *count += 1,
                None => drop(self.reasons.insert(reason.clone(), 1)),
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
    /// The class of a pod that is tried: another one than before if pods came that shun it, or
    /// went.
    pub(super) fn class_of(&mut self, key: &PodKey) -> Option<ClassId> {
        let queued = self.queue.get(key)?;
        let (info, old) = (queued.info.clone(), queued.class);
        let shunned = self.cache.topology().shunned_sets(&info.pod);
        if self.classes.get(old).is_some_and(|class| class.shunned == shunned) {
            return Some(old);
        }
        let class = self.classes.join(&info, self.cache.topology());
        self.queue.reclass(key, class, self.cluster.clock().now());
        self.classes.leave(old);
        Some(class)
    }

    /// Looks for a node for a pod.
    pub(super) fn find(&mut self, info: &PodInfo, class: ClassId) -> Found {
        if self.cache.len() == 0 {
            return Found::NoNodes;
        }
        if !info.pod.unsupported.is_empty() {
            return self.nowhere(info, &messages::unsupported(&info.pod.unsupported));
        }
        if let Some(problem) = &info.problem {
            let nodes = self.cache.len();
            // What is left of the plugins that look for a way out.
            let message = messages::fit_error(nodes, Some(problem), &Counts::new(), "not found");
            let failure = Failure { message: message.into(), tainted: false };
            return Found::Nothing(failure, Nomination::Clear);
        }
        let names = info.named_nodes();
        if names.as_ref().is_some_and(|names| names.is_empty()) {
            return self.nowhere(info, messages::NAMES_CONFLICT);
        }
        let nominated = self.cache.nomination(&info.key());
        if let Some(failure) = self.known_failure(class, nominated) {
            return failure;
        }
        let defaults = self.services.defaults(&info.pod, &self.cluster);
        self.cache.prepare(&info.pod, defaults.as_deref());
        if names.is_none()
            && let Some(class) = self.classes.get_mut(class)
        {
            class.verdicts.refresh(&class.sample, &self.cache);
        }
        // Of few nodes the class keeps no verdicts.
        let whole = names.is_none().then_some(class);
        let topology = self.cache.topology();
        let filters = topology.filters(&info.pod, |slot| self.eligible(info, whole, slot));
        // The node that room was made on is tried first.
        if let Some((slot, node, at)) = nominated.and_then(|slot| self.node_at(slot))
            && let Verdict::Fits(_) = filter::judge(info, node, at, &self.cache)
            && filter::others(&filters, info, slot, at, &self.cache).is_none()
        {
            return Found::Node(node.name.clone());
        }
        let mut search = Search::default();
        if let Some(names) = names {
            search.not_named = self.cache.len();
            for slot in names.iter().filter_map(|name| self.cache.slot(name)) {
                let Some((slot, node, at)) = self.node_at(slot) else { continue };
                let others = || filter::others(&filters, info, slot, at, &self.cache);
                search.count(slot, &filter::judge(info, node, at, &self.cache), others);
                search.not_named -= 1;
            }
        } else {
            self.search_all(info, class, nominated, &filters, &mut search);
        }
        let places: Vec<Slot> = search.fits.iter().map(|(slot, _)| *slot).collect();
        let wishes = if places.len() > 1 {
            Wishes {
                affinity: topology.affinity_scores(&info.pod, &places),
                spread: topology.spread_scores(&info.pod, defaults.as_deref(), &places, |slot| {
                    self.eligible(info, whole, slot)
                }),
            }
        } else {
            Wishes::default()
        };
        let best = score::best(&search.fits, &wishes, &mut self.stream);
        if let Some((node, _)) = best.and_then(|slot| self.cache.at(slot)) {
            return Found::Node(node.name.clone());
        }
        self.post_filter(info, class, nominated, &search, &filters)
    }

    fn search_all(
        &self,
        info: &PodInfo,
        class: ClassId,
        nominated: Option<Slot>,
        filters: &Filters,
        search: &mut Search,
    ) {
        let Some(class) = self.classes.get(class) else { return };
        for (slot, node, at) in self.cache.nodes() {
            let others = || filter::others(filters, info, slot, at, &self.cache);
            if nominated == Some(slot) {
                // Only for itself the pod's own nomination does not count.
                search.count(slot, &filter::judge(info, node, at, &self.cache), others);
            } else if let Some(verdict) = class.verdicts.get(slot) {
                search.count(slot, verdict, others);
            }
        }
    }

    fn node_at(&self, slot: Slot) -> Option<(Slot, &Node, &NodeInfo)> {
        self.cache.at(slot).map(|(node, at)| (slot, node, at))
    }

    /// Which of a pod's demands a node meets that spread constraints may heed; `class` if its
    /// verdicts are up to date.
    fn eligible(&self, info: &PodInfo, class: Option<ClassId>, slot: Slot) -> Eligible {
        let Some((node, _)) = self.cache.at(slot) else {
            return Eligible { affinity: false, taints: false };
        };
        let class = class.and_then(|class| self.classes.get(class));
        match class.and_then(|class| class.verdicts.get(slot)) {
            Some(verdict) => verdict.eligible(info, node),
            None => Eligible::of(&info.pod.constraints, node),
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
        filters: &Filters,
    ) -> Found {
        let nodes = self.cache.len();
        let hopeless = nominated.is_none_or(|slot| !search.helpful.contains(&slot));
        let outcome = match preemption::not_eligible(info, &self.cache, hopeless) {
            Some(why) => Outcome::NotEligible(why),
            None => {
                let budgets = self.budgets.values();
                let nodes = preemption::Nodes { cache: &self.cache, helpful: &search.helpful };
                preemption::find(info, filters, &nodes, budgets, &mut self.stream)
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
