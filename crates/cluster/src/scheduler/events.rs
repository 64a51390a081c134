//! Events as kube-scheduler writes them: repeats make a series, the event time is the first's.
//!
//! Source: client-go `tools/events/event_recorder.go`, `event_broadcaster.go`. Three things differ.
//! First and last time are there too, because kubectl sorts by the last time, and events without
//! one, as kube-scheduler's, come before what led to them. Repeats are counted at once, not every
//! six minutes. And a series goes on as long as the message stays; upstream begins a new one with
//! every version of the pod, also those that the scheduler itself writes.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use super::pod::NAME;
use crate::registry::{Cluster, Part, WriteOptions, timestamp};
use crate::status::Status;
use crate::store::Object;

/// A repeat within this time counts up.
const SAME_WITHIN: SignedDuration = SignedDuration::from_mins(6);

/// An event and its repeats.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    name: String,
    note: String,
    count: i64,
    last: Timestamp,
}

impl Series {
    /// Whether this is its note.
    pub(super) fn says(&self, note: &str) -> bool {
        self.note == note
    }
}

/// How fast repeats may be written: a hundred per second, and as many at once.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Up to when the writes so far use it up.
    used: Option<Timestamp>,
}

impl Pace {
    const EACH: SignedDuration = SignedDuration::from_millis(10);
    const AT_ONCE: SignedDuration = SignedDuration::from_secs(1);

    /// Whether one more may be written.
    fn allows(&mut self, now: Timestamp) -> bool {
        let used = self.used.map_or(now, |used| used.max(now));
        let allowed = used.duration_since(now) < Self::AT_ONCE;
        if allowed {
            self.used = Some(used + Self::EACH);
        }
        allowed
    }
}

/// What an event says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'a> {
    pub(super) event_type: &'static str,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: &'a str,
    /// The other pod that it is about.
    pub(super) related: Option<&'a Object>,
}

/// Writes an event about `pod`. As upstream, one that cannot be written (its namespace goes) is
/// dropped.
pub(super) fn record(cluster: &Cluster, pod: &Object, said: &Said<'_>) -> Option<Series> {
    let now = cluster.clock().now();
    let name = create(cluster, pod, said, now).map_err(|error| dropped(&error, pod, said)).ok()?;
    Some(Series { name, note: said.note.to_owned(), count: 1, last: now })
}

/// Writes an event about `pod`, or counts `told` up if it says the same. A repeat for which `pace`
/// has no time is counted, but written only with the next.
pub(super) fn repeat(
    cluster: &Cluster,
    pod: &Object,
    said: &Said<'_>,
    told: Option<Series>,
    pace: &mut Pace,
) -> Option<Series> {
    let now = cluster.clock().now();
    let same = |told: &Series| told.says(said.note) && now.duration_since(told.last) <= SAME_WITHIN;
    let Some(mut told) = told.filter(same) else { return record(cluster, pod, said) };
    told.count += 1;
    told.last = now;
    if pace.allows(now) {
        write(cluster, pod.namespace(), &told).map_err(|error| dropped(&error, pod, said)).ok()?;
    }
    Some(told)
}

fn dropped(error: &Status, pod: &Object, said: &Said<'_>) {
    tracing::debug!(%error, reason = said.reason, pod = pod.name(), "event dropped");
}

fn create(
    cluster: &Cluster,
    pod: &Object,
    said: &Said<'_>,
    now: Timestamp,
) -> Result<String, Status> {
    let kind = cluster.kind_of::<Event>();
    let mut event = json!({
        "action": said.action,
        "eventTime": micro(now),
        "firstTimestamp": timestamp(now),
        "involvedObject": reference(pod),
        "lastTimestamp": timestamp(now),
        "message": said.note,
        "metadata": {},
        "reason": said.reason,
        "reportingComponent": NAME,
        "reportingInstance": format!("{NAME}-aerostat"),
        "source": {},
        "type": said.event_type,
    });
    if let Some(related) = said.related {
        event["related"] = reference(related);
    }
    let mut nanoseconds = now.as_nanosecond();
    loop {
        let name = format!("{}.{nanoseconds:x}", pod.name());
        event["metadata"]["name"] = name.as_str().into();
        let options = WriteOptions::default();
        match cluster.create_object(&kind, pod.namespace(), event.clone(), options) {
            Err(status) if status.reason == "AlreadyExists" => nanoseconds += 1,
            Err(status) => return Err(status),
            Ok(_) => return Ok(name),
        }
    }
}

fn write(cluster: &Cluster, namespace: &str, series: &Series) -> Result<(), Status> {
    let kind = cluster.kind_of::<Event>();
    let options = WriteOptions::default();
    cluster.update_object(&kind, namespace, &series.name, Part::Main, options, |old| {
        let mut event = old.value.clone();
        event["lastTimestamp"] = timestamp(series.last).into();
        event["series"] = json!({"count": series.count, "lastObservedTime": micro(series.last)});
        Ok(event)
    })?;
    Ok(())
}

fn reference(pod: &Object) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name(),
        "namespace": pod.namespace(),
        "resourceVersion": pod.revision.to_string(),
        "uid": pod.uid(),
    })
}

/// As a `MicroTime` shows it.
fn micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
