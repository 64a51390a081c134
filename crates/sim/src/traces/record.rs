//! A trace of what a cluster's users ask of it, made from what its watches tell.
//!
//! Recorded is what makes pods (Deployments, ReplicaSets, DaemonSets, Jobs), pods that nothing of
//! these makes, and what decides about them (PriorityClasses, PodDisruptionBudgets, NodePools). Jobs
//! are told how long their pods ran; a Job that has not ended runs for ever. Of a StatefulSet, which
//! nothing acts on here, its pods are recorded. NodeClasses are not: NodePools use the default one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::anonymise::Anonymiser;
use super::dump::{has_ended, owner};
use super::simkube::{Event, Trace};
use super::transplant;
use crate::arrivals::template::{ARRIVED, DURATION};

/// What is recorded, what others need first.
const KINDS: [&str; 8] = [
    "PriorityClass",
    "NodePool",
    "PodDisruptionBudget",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "Job",
    "Pod",
];
/// Whose pods come from them.
const MAKERS: [&str; 4] = ["Deployment", "ReplicaSet", "DaemonSet", "Job"];

/// Gathers a trace.
#[derive(Debug)]
pub struct Recorder {
    start: Timestamp,
    /// By UID: the object as it was last recorded.
    known: BTreeMap<String, Value>,
    /// What happened, by seconds since 1970.
    seconds: BTreeMap<i64, Second>,
    /// How long the pods of a Job, or a pod, ran, by UID.
    runs: BTreeMap<String, Run>,
    /// What was over when it was first seen.
    over: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Second {
    /// With their UIDs.
    applied: Vec<(String, Value)>,
    deleted: Vec<Value>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The longest, in milliseconds; `None` as long as none has ended.
    longest: Option<i64>,
    ended: Option<Timestamp>,
    deleted: Option<Timestamp>,
}

impl Recorder {
    /// A recorder that begins now.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            known: BTreeMap::new(),
            seconds: BTreeMap::new(),
            runs: BTreeMap::new(),
            over: BTreeSet::new(),
        }
    }

    /// How many objects it knows.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.known.len()
    }

    /// An object is there, or has changed.
    pub fn applied(&mut self, value: &Value, now: Timestamp) {
        let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
        if !KINDS.iter().any(|kind| value["kind"] == *kind) || self.over.contains(uid) {
            return;
        }
        let is_first = !self.known.contains_key(uid);
        let made_by = owner(value).filter(|(kind, _)| MAKERS.contains(kind) || *kind == "Node");
        if value["kind"] == "Pod" {
            let whose = match made_by {
                Some(("Job", Some(job))) => Some(job),
                Some(_) => None,
                None => Some(uid),
            };
            self.note_run(whose, value);
        }
        if made_by.is_some() {
            return;
        }
        if has_ended(value) {
            if is_first {
                self.over.insert(uid.to_owned());
            } else {
                self.runs.entry(uid.to_owned()).or_default().ended.get_or_insert(now);
            }
            return;
        }
        let Some(mut fresh) = transplant::fresh(value) else { return };
        if fresh["kind"] == "NodePool" {
            fresh["spec"]["template"]["spec"]["nodeClassRef"] =
                json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
        }
        if self.known.get(uid) != Some(&fresh) {
            self.known.insert(uid.to_owned(), fresh.clone());
            self.second(now).applied.push((uid.to_owned(), fresh));
        }
    }

    /// An object is gone.
    pub fn deleted(&mut self, value: &Value, now: Timestamp) {
        let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
        let Some(last) = self.known.remove(uid) else { return };
        let run = self.runs.entry(uid.to_owned()).or_default();
        if run.ended.is_some() {
            // It goes by itself, some time after it has ended.
            run.deleted = Some(now);
        } else {
            self.second(now).deleted.push(last);
        }
    }

    fn second(&mut self, now: Timestamp) -> &mut Second {
        self.seconds.entry(now.as_second()).or_default()
    }

    /// How long a pod has run counts for its Job, or for itself.
    fn note_run(&mut self, whose: Option<&str>, pod: &Value) {
        let Some(whose) = whose else { return };
        let statuses = pod["status"]["containerStatuses"].as_array();
        let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        for ended in statuses.into_iter().flatten().map(|status| &status["state"]["terminated"]) {
            let (Some(from), Some(to)) = (time(&ended["startedAt"]), time(&ended["finishedAt"]))
            else {
                continue;
            };
            // Of what ran before, only the rest is in the trace.
            let millis = to.duration_since(from.max(self.start)).as_millis().max(0);
            let millis = i64::try_from(millis).unwrap_or(i64::MAX);
            let run = self.runs.entry(whose.to_owned()).or_default();
            run.longest = Some(run.longest.unwrap_or(0).max(millis));
        }
    }

    /// The trace, with made-up names unless `names` are to be kept. Values of environment variables
    /// are never in it.
    #[must_use]
    pub fn finish(self, names: bool) -> Trace {
        let mut anonymiser = (!names).then(Anonymiser::default);
        let mut events = Vec::new();
        let mut show = |mut value: Value| match &mut anonymiser {
            Some(anonymiser) => anonymiser.object(&value),
            None => {
                forget_environment(&mut value);
                value
            }
        };
        for (ts, Second { mut applied, deleted }) in self.seconds {
            applied.sort_by_key(|(_, value)| {
                KINDS.iter().position(|kind| value["kind"] == *kind).unwrap_or(KINDS.len())
            });
            let timed = applied.into_iter().map(|(uid, value)| {
                let run = self.runs.get(&uid).copied().unwrap_or_default();
                timed(value, run)
            });
            let applied_objs = timed.map(&mut show).collect();
            let deleted_objs = deleted.into_iter().map(&mut show).collect();
            events.push(Event { ts, applied_objs, deleted_objs });
        }
        Trace::new(events)
    }
}

/// A Job or a pod, and how long it ran.
fn timed(mut value: Value, run: Run) -> Value {
    let length = match run.longest {
        Some(millis) => format!("{}ms", millis.max(1)),
        None => "forever".to_owned(),
    };
    match value["kind"].as_str() {
        Some("Job") => {
            value["spec"]["template"]["metadata"]["annotations"][DURATION] = length.into();
            if let (Some(ended), Some(deleted)) = (run.ended, run.deleted) {
                let seconds = deleted.duration_since(ended).as_secs().max(0);
                value["spec"]["ttlSecondsAfterFinished"] = seconds.into();
            }
        }
        Some("Pod") => {
            value["metadata"]["annotations"][DURATION] = length.into();
            if run.deleted.is_some() {
                value["metadata"]["annotations"][ARRIVED] = "true".into();
            }
        }
        _ => {}
    }
    value
}

/// Takes away what may hold secrets and decides nothing.
fn forget_environment(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("env");
            fields.remove("envFrom");
            fields.values_mut().for_each(forget_environment);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_environment),
        _ => {}
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
