//! Events as kube-scheduler writes them: through `events.k8s.io/v1`, so that the core view has a
//! reporting component and an event time, and neither source nor first and last time.
//!
//! Source: client-go `tools/events/event_recorder.go`, `event_broadcaster.go`.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use super::pod::NAME;
use crate::registry::{Cluster, Part, WriteOptions};
use crate::status::Status;
use crate::store::Object;

/// A repeat within this time counts up.
const SAME_WITHIN: SignedDuration = SignedDuration::from_mins(6);

/// An event that may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LastEvent {
    name: String,
    /// The version of the pod that it is about: a new one begins a new event.
    version: String,
    at: Timestamp,
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

/// Writes an event about `pod`, or counts up the one that `last` names if it says the same again.
/// As upstream, an event that cannot be written (its namespace goes) is dropped.
pub(super) fn record(
    cluster: &Cluster,
    pod: &Object,
    said: &Said<'_>,
    last: Option<&LastEvent>,
) -> Option<LastEvent> {
    let now = cluster.clock().now();
    let version = pod.revision.to_string();
    let again = last.filter(|l| l.version == version && now.duration_since(l.at) <= SAME_WITHIN);
    let result = match again {
        Some(last) => count_up(cluster, pod.namespace(), &last.name, now),
        None => create(cluster, pod, said, now),
    };
    match result {
        Ok(name) => Some(LastEvent { name, version, at: now }),
        Err(error) => {
            tracing::debug!(%error, reason = said.reason, pod = pod.name(), "event dropped");
            None
        }
    }
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
        "firstTimestamp": null,
        "involvedObject": reference(pod),
        "lastTimestamp": null,
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

fn count_up(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<String, Status> {
    let kind = cluster.kind_of::<Event>();
    let options = WriteOptions::default();
    cluster.update_object(&kind, namespace, name, Part::Main, options, |old| {
        let mut event = old.value.clone();
        let count = event["series"]["count"].as_i64().unwrap_or(1) + 1;
        event["series"] = json!({"count": count, "lastObservedTime": micro(now)});
        Ok(event)
    })?;
    Ok(name.to_owned())
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
