//! What was decided about each pod, for whoever asks.
//!
//! A plan is only about the pods that wait at its time. The journal keeps what the last plan that
//! was about a pod said of it, for as long as the pod is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_engine::cost;
use aerostat_engine::plan::Plan;
use aerostat_engine::pod::{Pod, PodKey};
use aerostat_engine::report::{Kept, LaunchReport, PoolReason, Report};
use aerostat_engine::resources::Resources;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::context::Context;

/// How many entries of pods that are gone are put up with.
const SLACK: usize = 1000;

/// The last word on each pod, and on the machines that the last plan looked at.
#[derive(Debug, Default)]
pub struct Journal {
    pods: BTreeMap<PodKey, Entry>,
    /// By claim, why a machine stays.
    kept: BTreeMap<String, Kept>,
    /// When the last plan was made.
    at: Timestamp,
}

/// What was decided about a pod, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What.
    pub verdict: Verdict,
}

/// What was decided about a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A machine was ordered for it.
    Ordered {
        /// The claim; `None` if it could not be created.
        claim: Option<String>,
        /// How the machine was chosen.
        launch: Arc<LaunchReport>,
        /// The pod's part of its price, USD per hour; see [`cost::shares`].
        price: f64,
    },
    /// Capacity that is there, or on its way, takes it: it costs nothing more.
    Fits {
        /// The claim, if Aerostat manages the machine.
        claim: Option<String>,
        /// The node, if there is one.
        node: Option<String>,
    },
    /// The scheduler may make room for it: nothing is ordered before it had the time to.
    Waits,
    /// There is no place for it.
    Unplaced {
        /// What its event says.
        message: String,
        /// What stands against it in each pool, the closest first.
        reasons: Vec<PoolReason>,
    },
}

impl Journal {
    /// Notes what a plan says of its pods; `claims` are those that were created for its launches.
    pub fn note(
        &mut self,
        at: Timestamp,
        plan: &Plan,
        report: &Report,
        claims: &[Option<String>],
        pods: &BTreeMap<PodKey, Arc<Pod>>,
    ) {
        for ((launch, choice), claim) in plan.launches.iter().zip(&report.launches).zip(claims) {
            let nothing = Resources::default();
            let requests: Vec<&Resources> = launch
                .pods
                .iter()
                .map(|pod| pods.get(pod).map_or(&nothing, |pod| &pod.requests))
                .collect();
            let prices = cost::shares(choice.price, &choice.allocatable, &requests, choice.pods);
            let choice = Arc::new(choice.clone());
            for (pod, price) in launch.pods.iter().zip(prices) {
                let (claim, launch) = (claim.clone(), choice.clone());
                self.set(pod, at, Verdict::Ordered { claim, launch, price });
            }
        }
        for nomination in &plan.nominations {
            let (claim, node) = (nomination.claim.clone(), nomination.node.clone());
            // That its own machine is still under way is no news.
            let ordered = self.pods.get(&nomination.pod).is_some_and(|entry| {
                matches!(&entry.verdict, Verdict::Ordered { claim: Some(own), .. } if claim.as_ref() == Some(own))
            });
            if !ordered {
                self.set(&nomination.pod, at, Verdict::Fits { claim, node });
            }
        }
        for pod in &report.waiting {
            self.set(pod, at, Verdict::Waits);
        }
        for unplaced in &report.unplaced {
            let (message, reasons) = (unplaced.message.clone(), unplaced.reasons.clone());
            self.set(&unplaced.pod, at, Verdict::Unplaced { message, reasons });
        }
        self.kept = report.kept.iter().map(|kept| (kept.claim.clone(), kept.clone())).collect();
        self.at = at;
        if self.pods.len() > 2 * pods.len() + SLACK {
            self.pods.retain(|pod, _| pods.contains_key(pod));
        }
    }

    fn set(&mut self, pod: &PodKey, at: Timestamp, verdict: Verdict) {
        let same = |entry: &Entry| entry.verdict == verdict;
        if !self.pods.get(pod).is_some_and(same) {
            self.pods.insert(pod.clone(), Entry { at, verdict });
        }
    }

    /// Why the last plan leaves a machine alone, if it looked at it, and when that was.
    #[must_use]
    pub fn why_kept(&self, claim: &str) -> (Option<&Kept>, Timestamp) {
        (self.kept.get(claim), self.at)
    }

    /// The last word on a pod, if any plan was about it.
    #[must_use]
    pub fn about(&self, pod: &PodKey) -> Option<&Entry> {
        self.pods.get(pod)
    }
}

/// What is known of a pod, as JSON: `outcome` is `ordered`, `fits`, `waits`, `unplaced` or
/// `unplanned`, and what else there is depends on it. `None` if there is no such pod.
#[must_use]
pub fn document(context: &Context, pod: &PodKey) -> Option<Value> {
    let node = context.index().pods.get(pod)?.node.clone();
    let mut document = match context.journal().about(pod) {
        None => json!({"outcome": "unplanned"}),
        Some(entry) => {
            let mut told = told(&entry.verdict);
            told["at"] = entry.at.to_string().into();
            told
        }
    };
    document["pod"] = format!("{}/{}", pod.0, pod.1).into();
    document["boundTo"] = node.into();
    Some(document)
}

fn told(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Ordered { claim, launch, price } => json!({
            "outcome": "ordered",
            "nodeClaim": claim,
            "nodePool": launch.pool,
            "instanceType": launch.instance_type,
            "zones": launch.zones,
            "capacityType": launch.capacity_type,
            "pricePerHour": launch.price,
            "podPricePerHour": price,
            "pods": launch.pods,
            "feasible": launch.feasible,
            "weighed": launch.weighed,
            "alternatives": launch.alternatives.iter().map(|other| json!({
                "instanceType": other.instance_type,
                "capacityType": other.capacity_type,
                "pricePerHour": other.price,
            })).collect::<Vec<_>>(),
        }),
        Verdict::Fits { claim, node } => {
            json!({"outcome": "fits", "nodeClaim": claim, "node": node})
        }
        Verdict::Waits => json!({"outcome": "waits"}),
        Verdict::Unplaced { message, reasons } => json!({
            "outcome": "unplaced",
            "message": message,
            "reasons": reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aerostat_engine::plan::Nomination;
    use aerostat_engine::report::Unplaced;

    fn key(name: &str) -> PodKey {
        ("default".to_owned(), name.to_owned())
    }

    #[test]
    fn the_last_word_is_kept_until_the_pod_is_gone() {
        let mut journal = Journal::default();
        let unplaced = |message: &str| Report {
            unplaced: vec![Unplaced { pod: key("a"), message: message.into(), reasons: vec![] }],
            ..Report::default()
        };
        let at = Timestamp::UNIX_EPOCH;
        let later = Timestamp::from_second(60).unwrap();
        let pods = BTreeMap::new();
        journal.note(at, &Plan::default(), &unplaced("no"), &[], &pods);
        journal.note(later, &Plan::default(), &unplaced("no"), &[], &pods);
        assert_eq!(journal.about(&key("a")).unwrap().at, at, "nothing new");
        journal.note(later, &Plan::default(), &Report::default(), &[], &pods);
        assert!(journal.about(&key("a")).is_some(), "this plan was not about it");
        let node = Some("n".to_owned());
        let nominations = vec![Nomination { pod: key("a"), claim: None, node: node.clone() }];
        let plan = Plan { nominations, ..Plan::default() };
        journal.note(later, &plan, &Report::default(), &[], &pods);
        let verdict = Verdict::Fits { claim: None, node };
        assert_eq!(journal.about(&key("a")), Some(&Entry { at: later, verdict }));
    }
}
