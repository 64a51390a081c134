//! Status conditions with the semantics that Karpenter's objects have.
//!
//! Source: awslabs/operatorpkg `status/condition_set.go`.

use aerostat_api::Condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The conditions of one object while they are being worked on.
#[derive(Clone, Debug)]
pub struct ConditionSet {
    conditions: Vec<Condition>,
    dependents: &'static [&'static str],
    generation: Option<i64>,
    now: Timestamp,
}

impl ConditionSet {
    /// The conditions of an object of `generation`, born at `created`. Those in `dependents`, and
    /// their root `Ready`, are Unknown until someone has looked.
    #[must_use]
    pub fn new(
        conditions: &[Condition],
        dependents: &'static [&'static str],
        generation: Option<i64>,
        created: Timestamp,
        now: Timestamp,
    ) -> Self {
        let mut set = Self { conditions: conditions.to_vec(), dependents, generation, now };
        for name in dependents.iter().chain(&["Ready"]) {
            if set.get(name).is_none() {
                set.conditions.push(Condition {
                    type_: (*name).to_owned(),
                    status: "Unknown".to_owned(),
                    reason: "AwaitingReconciliation".to_owned(),
                    message: "object is awaiting reconciliation".to_owned(),
                    last_transition_time: Time(created),
                    observed_generation: generation,
                });
            }
        }
        set
    }

    fn get(&self, name: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == name)
    }

    /// Sets a condition to True; its reason is its own name.
    pub fn set_true(&mut self, name: &str) {
        self.set(name, "True", name, "");
    }

    /// Sets a condition; its transition time moves only with its status.
    pub fn set(&mut self, name: &str, status: &str, reason: &str, message: &str) {
        let now = Time(self.now);
        let generation = self.generation;
        let position = self.conditions.iter().position(|condition| condition.type_ == name);
        let condition = match position {
            Some(position) => &mut self.conditions[position],
            None => {
                self.conditions.push(Condition {
                    type_: name.to_owned(),
                    status: String::new(),
                    reason: String::new(),
                    message: String::new(),
                    last_transition_time: now.clone(),
                    observed_generation: generation,
                });
                self.conditions.last_mut().expect("a condition was just added")
            }
        };
        if condition.status != status {
            condition.last_transition_time = now;
        }
        status.clone_into(&mut condition.status);
        reason.clone_into(&mut condition.reason);
        message.clone_into(&mut condition.message);
        condition.observed_generation = generation;
    }

    /// Takes a condition away.
    pub fn clear(&mut self, name: &str) {
        self.conditions.retain(|condition| condition.type_ != name);
    }

    /// Whether a condition is True.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        is_true(&self.conditions, name)
    }

    /// When a condition became True, if it is.
    #[must_use]
    pub fn true_since(&self, name: &str) -> Option<Timestamp> {
        true_since(&self.conditions, name)
    }

    /// The conditions with `Ready` derived from its dependents: oldest transition first, the root
    /// last.
    #[must_use]
    pub fn finish(mut self) -> Vec<Condition> {
        let mut unhappy: Vec<(Timestamp, String)> = Vec::new();
        let mut any_false = false;
        for name in self.dependents {
            if let Some(condition) = self.get(name)
                && condition.status != "True"
            {
                any_false |= condition.status == "False";
                let text = format!("{name}={}", condition.status);
                unhappy.push((condition.last_transition_time.0, text));
            }
        }
        if unhappy.is_empty() {
            self.set_true("Ready");
        } else {
            // Most recent first; equal times in the order of the dependents.
            unhappy.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
            let message = unhappy.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ");
            if any_false {
                self.set("Ready", "False", "UnhealthyDependents", &message);
            } else {
                self.set("Ready", "Unknown", "ReconcilingDependents", &message);
            }
        }
        self.conditions.sort_by_key(|condition| {
            (condition.type_ == "Ready", condition.last_transition_time.0)
        });
        self.conditions
    }
}

/// Whether the condition called `name` is True.
#[must_use]
pub fn is_true(conditions: &[Condition], name: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == name && condition.status == "True")
}

/// When the condition called `name` became what it is, if it is True.
#[must_use]
pub fn true_since(conditions: &[Condition], name: &str) -> Option<Timestamp> {
    conditions
        .iter()
        .find(|condition| condition.type_ == name && condition.status == "True")
        .map(|condition| condition.last_transition_time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENTS: &[&str] = &["Launched", "Registered"];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn ready_follows_its_dependents() {
        let mut set = ConditionSet::new(&[], DEPENDENTS, Some(1), at(1), at(5));
        set.set_true("Launched");
        let conditions = set.finish();
        let ready = conditions.last().unwrap();
        assert_eq!((ready.type_.as_str(), ready.status.as_str()), ("Ready", "Unknown"));
        assert_eq!(ready.reason, "ReconcilingDependents");
        assert_eq!(ready.message, "Registered=Unknown");
        assert_eq!(ready.last_transition_time.0, at(1), "Unknown since birth");

        let mut set = ConditionSet::new(&conditions, DEPENDENTS, Some(1), at(1), at(9));
        set.set("Registered", "False", "MultipleNodesFound", "two");
        let ready = set.clone().finish().pop().unwrap();
        assert_eq!(
            (ready.status.as_str(), ready.reason.as_str()),
            ("False", "UnhealthyDependents")
        );
        set.set_true("Registered");
        let conditions = set.finish();
        assert_eq!(true_since(&conditions, "Ready"), Some(at(9)));
        assert_eq!(true_since(&conditions, "Launched"), Some(at(5)), "keeps its own time");
    }
}
