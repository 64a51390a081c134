//! Whether the machines that a pool orders become nodes: the condition `NodeRegistrationHealthy`.
//!
//! Source: kubernetes-sigs/karpenter `pkg/state/nodepoolhealth/tracker.go`,
//! `pkg/controllers/nodepool/registrationhealth/`.

use std::collections::{BTreeMap, VecDeque};

use aerostat_api::{Condition, NodeClaim};

/// So many outcomes count.
const OUTCOMES: usize = 4;
/// So many failures among them are too many.
const TOO_MANY: usize = 2;

/// How the last launches of each pool went, by the pool's UID. Lost in a restart; then the
/// conditions stand for it.
#[derive(Debug, Default)]
pub struct RegistrationHealth(BTreeMap<String, Track>);

#[derive(Debug, Default)]
struct Track {
    outcomes: VecDeque<bool>,
    /// Reason and message of the last failure.
    failure: (String, String),
}

/// What the last launches say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Most become nodes.
    Healthy,
    /// Too many do not: reason and message.
    Unhealthy(String, String),
}

impl RegistrationHealth {
    /// A claim's machine became a node.
    pub(crate) fn registered(&mut self, claim: &NodeClaim) {
        self.note(claim, true);
    }

    /// A claim's machine did not become a node in time.
    pub(crate) fn failed(&mut self, claim: &NodeClaim, reason: &str, message: &str) {
        if let Some(track) = self.note(claim, false) {
            track.failure = (reason.to_owned(), message.to_owned());
        }
    }

    fn note(&mut self, claim: &NodeClaim, outcome: bool) -> Option<&mut Track> {
        let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
        let pool = owners.iter().find(|owner| owner.kind == "NodePool")?;
        let track = self.0.entry(pool.uid.clone()).or_default();
        if track.outcomes.len() == OUTCOMES {
            track.outcomes.pop_front();
        }
        track.outcomes.push_back(outcome);
        Some(track)
    }

    /// Forgets how it went with a pool as it was.
    pub(crate) fn reset(&mut self, pool: &str) {
        self.0.remove(pool);
    }

    /// What is known of a pool, after a restart from its condition; `None` if nothing is.
    pub(crate) fn verdict(&mut self, pool: &str, condition: Option<&Condition>) -> Option<Verdict> {
        let track = self.0.entry(pool.to_owned()).or_default();
        if track.outcomes.is_empty() {
            match condition.map(|condition| (condition.status.as_str(), condition)) {
                Some(("True", _)) => track.outcomes.push_back(true),
                Some(("False", condition)) => {
                    track.outcomes.extend([false; TOO_MANY]);
                    track.failure = (condition.reason.clone(), condition.message.clone());
                }
                _ => {}
            }
        }
        let failures = track.outcomes.iter().filter(|outcome| !**outcome).count();
        let (reason, message) = &track.failure;
        if failures >= TOO_MANY {
            return Some(Verdict::Unhealthy(reason.clone(), message.clone()));
        }
        track.outcomes.contains(&true).then_some(Verdict::Healthy)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn claim() -> NodeClaim {
        let spec = serde_json::json!({
            "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": [],
        });
        let mut claim = NodeClaim::new("one", serde_json::from_value(spec).unwrap());
        let owner = OwnerReference {
            kind: "NodePool".to_owned(),
            uid: "1".to_owned(),
            ..OwnerReference::default()
        };
        claim.metadata.owner_references = Some(vec![owner]);
        claim
    }

    #[test]
    fn two_failures_of_four_are_too_many_until_they_are_long_ago() {
        let mut health = RegistrationHealth::default();
        assert_eq!(health.verdict("1", None), None);
        health.failed(&claim(), "RegistrationFailed", "Failed to register node");
        assert_eq!(health.verdict("1", None), None, "one failure says nothing");
        health.registered(&claim());
        assert_eq!(health.verdict("1", None), Some(Verdict::Healthy));
        health.failed(&claim(), "LaunchFailed", "no");
        let unhealthy = Verdict::Unhealthy("LaunchFailed".to_owned(), "no".to_owned());
        assert_eq!(health.verdict("1", None), Some(unhealthy.clone()));
        health.registered(&claim());
        assert_eq!(health.verdict("1", None), Some(unhealthy));
        health.registered(&claim());
        assert_eq!(health.verdict("1", None), Some(Verdict::Healthy));
        health.reset("1");
        assert_eq!(health.verdict("1", None), None);
    }

    #[test]
    fn after_a_restart_the_condition_stands_for_what_was_known() {
        let condition = |status: &str| Condition {
            type_: "NodeRegistrationHealthy".to_owned(),
            status: status.to_owned(),
            reason: "RegistrationFailed".to_owned(),
            message: "Failed to register node".to_owned(),
            last_transition_time: serde_json::from_value("2025-01-06T08:00:00Z".into()).unwrap(),
            observed_generation: None,
        };
        let verdict = |status| RegistrationHealth::default().verdict("1", Some(&condition(status)));
        assert_eq!(verdict("Unknown"), None);
        assert_eq!(verdict("True"), Some(Verdict::Healthy));
        let text = |text: &str| text.to_owned();
        let unhealthy =
            Verdict::Unhealthy(text("RegistrationFailed"), text("Failed to register node"));
        assert_eq!(verdict("False"), Some(unhealthy));
    }
}
