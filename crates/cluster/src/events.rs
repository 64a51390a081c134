//! Event objects: what controllers and kubelets tell the people who look.
//!
//! Counting, summing up and limiting follow client-go `tools/record/events_cache.go`, but without
//! a cache: an object's events share a name prefix, so the store itself is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::informer::Change;
use crate::registry::{Cluster, DeleteOptions, Typed};
use crate::store::Key;

#[cfg(test)]
mod tests;

/// Within this time, the same event counts up instead of coming again.
const SAME_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// So many different messages of one reason are summed up in one event.
const SIMILAR: usize = 10;
/// So many events one component may write about one object at once.
const BURST: i32 = 25;
/// After the burst, one event in this time.
const REFILL: SignedDuration = SignedDuration::from_mins(5);
/// Events are kept this long after their last write. Source: kube-apiserver's `--event-ttl`.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Whether an event is part of ordinary life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It is.
    Normal,
    /// Someone may want to look.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A reference to `object`, as events carry it.
#[must_use]
pub fn reference<K>(object: &K) -> ObjectReference
where
    K: Typed + Metadata<Ty = ObjectMeta>,
{
    let metadata = object.metadata();
    ObjectReference {
        api_version: Some(K::API_VERSION.to_owned()),
        kind: Some(K::KIND.to_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Writes an event about `regarding`: a new one, or one more of an equal one of the last ten
/// minutes. From the tenth message of one reason on they are summed up, and a component that
/// writes more than 25 events about one object is slowed to one in five minutes.
///
/// `component` as in `job-controller`; `host` is the node that a kubelet speaks from.
pub fn record(
    cluster: &Cluster,
    component: &str,
    host: Option<&str>,
    regarding: &ObjectReference,
    event_type: EventType,
    reason: &str,
    message: &str,
) {
    let now = cluster.clock().now();
    let namespace = regarding.namespace.as_deref().filter(|ns| !ns.is_empty());
    let namespace = namespace.unwrap_or("default");
    let name = regarding.name.as_deref().unwrap_or_default();
    let source =
        EventSource { component: Some(component.to_owned()), host: host.map(str::to_owned) };
    let kind = cluster.kind_of::<Event>();
    let mine: Vec<Arc<Event>> = cluster
        .store()
        .list_prefix(&kind.resource(), namespace, &format!("{name}."))
        .iter()
        .filter_map(|object| object.typed::<Event>().ok())
        .filter(|event| {
            event.source.as_ref() == Some(&source)
                && event.involved_object.uid == regarding.uid
                && event.involved_object.kind == regarding.kind
        })
        .collect();
    if !admits(&mine, now) {
        return;
    }
    let mut similar = mine.iter().filter(|event| {
        event.reason.as_deref() == Some(reason)
            && event.type_.as_deref() == Some(event_type.as_str())
            && last_seen(event).is_some_and(|at| now.duration_since(at) <= SAME_WITHIN)
    });
    let similar_count = similar.clone().count();
    let combined = format!("(combined from similar events): {message}");
    let same = similar
        .clone()
        .find(|event| {
            event.involved_object.field_path == regarding.field_path
                && event.message.as_deref() == Some(message)
        })
        .or_else(|| {
            let prefix = "(combined from similar events): ";
            similar.find(|event| event.message.as_deref().is_some_and(|m| m.starts_with(prefix)))
        });
    let result = if let Some(same) = same {
        count_up(cluster, namespace, same, message, &combined, now)
    } else {
        let message = if similar_count + 1 >= SIMILAR { &combined } else { message };
        let event = Event {
            involved_object: regarding.clone(),
            type_: Some(event_type.as_str().to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            source: Some(source),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            reporting_component: Some(component.to_owned()),
            reporting_instance: Some(host.unwrap_or_default().to_owned()),
            ..Event::default()
        };
        create(cluster, namespace, name, event, now)
    };
    // As upstream, an event that cannot be written (its namespace goes, for example) is dropped.
    if let Err(error) = result {
        tracing::debug!(%error, reason, name, namespace, "event dropped");
    }
}

/// Whether the component that wrote `events` may write one more.
fn admits(events: &[Arc<Event>], now: Timestamp) -> bool {
    let written: i32 = events.iter().map(|event| event.count.unwrap_or(1)).sum();
    let latest = events.iter().filter_map(|event| last_seen(event)).max();
    written < BURST || latest.is_none_or(|at| now.duration_since(at) >= REFILL)
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    event.last_timestamp.as_ref().map(|time| time.0)
}

fn count_up(
    cluster: &Cluster,
    namespace: &str,
    same: &Event,
    message: &str,
    combined: &str,
    now: Timestamp,
) -> Result<(), crate::Status> {
    let name = same.metadata.name.as_deref().unwrap_or_default();
    cluster.modify::<Event>(namespace, name, |event| {
        event.count = Some(event.count.unwrap_or(1) + 1);
        event.last_timestamp = Some(Time(now));
        if event.message.as_deref() != Some(message) {
            event.message = Some(combined.to_owned());
        }
    })?;
    Ok(())
}

/// The name is the object's and the time in nanoseconds, the next free one.
fn create(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    mut event: Event,
    now: Timestamp,
) -> Result<(), crate::Status> {
    let mut nanoseconds = now.as_nanosecond();
    loop {
        event.metadata.name = Some(format!("{name}.{nanoseconds:x}"));
        event.metadata.namespace = Some(namespace.to_owned());
        match cluster.create(namespace, &event) {
            Err(status) if status.reason == "AlreadyExists" => nanoseconds += 1,
            Err(status) => return Err(status),
            Ok(_) => return Ok(()),
        }
    }
}

/// Removes events an hour after their last write. Sleeps while there are none.
pub async fn run(cluster: Cluster) {
    let mut informer = cluster.informer::<Event>();
    let mut by_key: BTreeMap<Key, Timestamp> = BTreeMap::new();
    let mut by_time: BTreeSet<(Timestamp, Key)> = BTreeSet::new();
    loop {
        let due = by_time.first().map(|(time, _)| *time);
        let expiry = async {
            match due {
                Some(due) => cluster.clock().sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            change = informer.next() => {
                let Some(change) = change else { return };
                let (event, time) = match change {
                    Change::Applied { new, .. } => (new, Some(cluster.clock().now() + KEPT)),
                    Change::Deleted(event) => (event, None),
                };
                let metadata = &event.metadata;
                let key: Key = (
                    metadata.namespace.clone().unwrap_or_default(),
                    metadata.name.clone().unwrap_or_default(),
                );
                if let Some(old) = by_key.remove(&key) {
                    by_time.remove(&(old, key.clone()));
                }
                if let Some(time) = time {
                    by_time.insert((time, key.clone()));
                    by_key.insert(key, time);
                }
            }
            () = expiry => {
                let now = cluster.clock().now();
                while let Some((time, (namespace, name))) = by_time.pop_first() {
                    if time > now {
                        by_time.insert((time, (namespace, name)));
                        break;
                    }
                    by_key.remove(&(namespace.clone(), name.clone()));
                    let options = DeleteOptions::default();
                    // Someone else may have deleted it: it is gone either way.
                    let _ = cluster.delete::<Event>(&namespace, &name, &options);
                }
            }
        }
    }
}
