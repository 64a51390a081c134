//! Events, as Karpenter writes them: from `karpenter`, not twice within a while, and never a flood.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aerostat_clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};

/// Who the events are from.
const COMPONENT: &str = "karpenter";

/// Writes events about objects.
pub struct Recorder {
    client: Client,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was said, and until when it is not said again.
    said: BTreeMap<(String, &'static str, String), Timestamp>,
    /// When the next `Nominated` may be written at the earliest, as a token bucket.
    bucket: Option<Timestamp>,
    /// Nanoseconds of the last event, so that names differ.
    last: i128,
}

/// What an event says.
#[derive(Clone, Debug)]
pub struct Note {
    /// `Normal` or `Warning`.
    pub type_: &'static str,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// How long the same is not said again of the same object.
    pub quiet: Duration,
}

impl Note {
    /// A `Normal` event that is not repeated within two minutes.
    #[must_use]
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        let quiet = Duration::from_secs(120);
        Self { type_: "Normal", reason, message: message.into(), quiet }
    }

    /// A `Warning` event that is not repeated within two minutes.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_: "Warning", ..Self::normal(reason, message) }
    }

    /// The same, quiet for `quiet` after it was said.
    #[must_use]
    pub fn quiet_for(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }
}

/// `Nominated` events: five a second, ten at once.
/// Source: kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling/events.go`.
const NOMINATED_EVERY: Duration = Duration::from_millis(200);
const NOMINATED_BURST: u32 = 10;

impl Recorder {
    /// A recorder that has said nothing yet.
    #[must_use]
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, state: Mutex::default() }
    }

    /// Writes an event, unless the same was said lately. An event that cannot be written is
    /// logged: events are for people, no controller depends on them.
    pub async fn publish(&self, regarding: ObjectReference, note: Note) {
        let now = self.clock.now();
        let Some(nanos) = self.admit(&regarding, &note, now) else { return };
        let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let name = regarding.name.clone().unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{nanos:x}")),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: regarding,
            type_: Some(note.type_.to_owned()),
            reason: Some(note.reason.to_owned()),
            message: Some(note.message),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            reporting_component: Some(COMPONENT.to_owned()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::warn!(%name, reason = note.reason, %error, "event could not be written");
        }
    }

    /// Whether to write it, and the number that makes its name unique.
    fn admit(&self, regarding: &ObjectReference, note: &Note, now: Timestamp) -> Option<i128> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let object = regarding.uid.clone().or_else(|| regarding.name.clone()).unwrap_or_default();
        // What concerns one pod is said once, however its target changes.
        let once = matches!(note.reason, "Nominated" | "FailedScheduling");
        let message = if once { String::new() } else { note.message.clone() };
        let key = (object, note.reason, message);
        if state.said.get(&key).is_some_and(|until| now < *until) {
            return None;
        }
        if note.reason == "Nominated" {
            let earliest = state.bucket.unwrap_or(now);
            let ahead = now.checked_add(NOMINATED_EVERY * (NOMINATED_BURST - 1)).ok()?;
            if earliest > ahead {
                return None;
            }
            state.bucket = earliest.max(now).checked_add(NOMINATED_EVERY).ok();
        }
        if state.said.len() >= 10_000 {
            state.said.retain(|_, until| now < *until);
        }
        state.said.insert(key, now.checked_add(note.quiet).unwrap_or(Timestamp::MAX));
        state.last = now.as_nanosecond().max(state.last + 1);
        Some(state.last)
    }
}
