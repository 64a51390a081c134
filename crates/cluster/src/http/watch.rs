//! Watches: what changes, as it changes, one JSON object a line.

use std::sync::Arc;

use aerostat_clock::Clock;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use http::Response;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::body::ResponseBody;
use super::list::{Selection, expired, parse_revision};
use super::negotiate::Form;
use super::path::Target;
use super::present::Presentation;
use super::resource::Served;
use super::{Call, Service, reply};
use crate::status::{FieldError, Status};
use crate::store::{Event, EventKind, Object, RevisionError};

/// How often a watch that asked for it learns how far it has come.
const BOOKMARK_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// How long a watch stays open when the client does not say, in seconds.
const DEFAULT_TIMEOUT: u64 = 45 * 60;
/// How many events are sent in one piece: a watch that fell behind must not hold all of them in one
/// buffer.
const PIECE: usize = 64;
/// Marks the bookmark that ends the initial events. Source: apimachinery `pkg/apis/meta/v1`.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Opens a watch.
pub(super) fn start(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = Presentation::of(call, served)?;
    let selection = Selection::of(call, served, target)?;
    let bookmarks = call.query.flag("allowWatchBookmarks");
    let streaming = call.query.given("sendInitialEvents");
    check_options(call, streaming, bookmarks)?;
    let from = call.query.get("resourceVersion").map(parse_revision).transpose()?.unwrap_or(0);
    let timeout = call.query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);

    let service = call.service.clone();
    let store = service.cluster().store();
    let resource = served.kind.resource();
    let latest = store.latest(&resource);
    // Timeouts are the client's own seconds: the cluster's clock may run faster.
    let clock = Clock::simulated(service.cluster().clock().now());
    let after = |seconds: u64| {
        let duration = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        clock.now().checked_add(duration).unwrap_or(Timestamp::MAX)
    };
    let mut watch = Watch {
        closing: service.0.closing.subscribe(),
        _open: service.0.watches.clone(),
        latest,
        clock,
        ends: after(timeout.unwrap_or(DEFAULT_TIMEOUT)),
        bookmark: bookmarks.then(|| clock.now() + BOOKMARK_EVERY),
        sent: from,
        initial: None,
        header: true,
        over: false,
        service,
        presentation,
        selection,
    };
    if streaming.unwrap_or(from == 0) {
        watch.send_initial(streaming.is_some());
    } else if from == 0 {
        watch.sent = watch.service.cluster().store().revision();
    }
    let stream = stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    });
    Ok(reply::with(200, "application/json", ResponseBody::stream(stream.boxed())))
}

/// Source: apimachinery `pkg/apis/meta/internalversion/validation/validation.go`.
fn check_options(call: &Call<'_>, streaming: Option<bool>, bookmarks: bool) -> Result<(), Status> {
    let matching = call.query.get("resourceVersionMatch");
    let mut errors = Vec::new();
    if streaming.is_some() {
        if matching != Some("NotOlderThan") {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden("resourceVersionMatch", why));
        }
        if streaming == Some(true) && !bookmarks {
            let why = "sendInitialEvents requires allowWatchBookmarks";
            errors.push(FieldError::forbidden("allowWatchBookmarks", why));
        }
    } else if matching.is_some() {
        let why =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(FieldError::forbidden("resourceVersionMatch", why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors))
}

struct Watch {
    service: Service,
    presentation: Presentation,
    selection: Selection,
    latest: Receiver<u64>,
    closing: Receiver<bool>,
    clock: Clock,
    ends: Timestamp,
    /// When the next bookmark is due; `None` if none are wanted.
    bookmark: Option<Timestamp>,
    /// Everything up to this revision has been sent.
    sent: u64,
    /// What is there already, and not yet sent.
    initial: Option<Bytes>,
    /// Whether the next table still has to tell its columns.
    header: bool,
    over: bool,
    _open: Arc<()>,
}

impl Watch {
    /// Everything there is, and perhaps a mark that this was it.
    fn send_initial(&mut self, mark: bool) {
        let cluster = self.service.cluster();
        let resource = self.presentation.served.kind.resource();
        let (objects, revision) = cluster.store().list(&resource, &self.selection.namespace);
        self.sent = revision;
        let mut out = BytesMut::new();
        for object in objects.iter().filter(|object| self.selection.matches(object)) {
            write_event(&self.presentation, &mut self.header, "ADDED", object, &mut out);
        }
        if mark {
            let annotations = json!({INITIAL_EVENTS_END: "true"});
            self.write_bookmark(revision, Some(annotations), &mut out);
        }
        self.initial = Some(out.freeze()).filter(|bytes| !bytes.is_empty());
    }

    /// The next piece to send; `None` when the watch ends.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.initial.take() {
                return Some(chunk);
            }
            if self.over || self.clock.now() > self.ends {
                return None;
            }
            self.latest.mark_unchanged();
            let kind = &self.presentation.served.kind;
            let cluster = self.service.cluster();
            cluster.renew_leases(kind);
            let renewal = cluster.next_renewal().filter(|_| kind.plural == "leases");
            let known = self.service.cluster().store().revision();
            if let Some(chunk) = self.new_events() {
                return Some(chunk);
            }
            let cluster_clock = self.service.cluster().clock();
            let timer = self.bookmark.unwrap_or(self.ends).min(self.ends);
            let timed_out = tokio::select! {
                biased;
                _ = self.closing.wait_for(|closing| *closing) => return None,
                changed = self.latest.changed() => {
                    changed.ok()?;
                    false
                }
                () = self.clock.sleep_until(timer) => true,
                () = renewal_due(cluster_clock, renewal) => false,
            };
            if timed_out {
                self.over = self.clock.now() >= self.ends;
                // Whatever was known before the wait has been sent.
                self.sent = self.sent.max(known);
                if self.bookmark.is_some() {
                    self.bookmark = Some(self.clock.now() + BOOKMARK_EVERY);
                    let mut out = BytesMut::new();
                    self.write_bookmark(self.sent, None, &mut out);
                    return Some(out.freeze());
                }
            }
        }
    }

    /// Lines for what has happened since the last call.
    fn new_events(&mut self) -> Option<Bytes> {
        let store = self.service.cluster().store();
        let resource = self.presentation.served.kind.resource();
        let mut out = BytesMut::new();
        match store.events_after(&resource, self.sent, PIECE) {
            Ok(events) => {
                self.sent = events.last()?.revision.max(self.sent);
                self.presentation.set_time(self.service.cluster().clock().now());
                for event in &events {
                    if let Some((kind, object)) = seen(event, &self.selection) {
                        write_event(&self.presentation, &mut self.header, kind, &object, &mut out);
                    }
                }
            }
            Err(RevisionError::Compacted(oldest) | RevisionError::Future(oldest)) => {
                let message = format!("too old resource version: {} ({oldest})", self.sent);
                let status = expired(&message).to_value();
                out.extend_from_slice(
                    json!({"type": "ERROR", "object": status}).to_string().as_bytes(),
                );
                out.extend_from_slice(b"\n");
                self.over = true;
            }
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    fn write_bookmark(&mut self, revision: u64, annotations: Option<Value>, out: &mut BytesMut) {
        let served = &self.presentation.served;
        let mut metadata = json!({"creationTimestamp": null});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let value = json!({
            "apiVersion": served.api_version(),
            "kind": served.kind.kind,
            "metadata": metadata,
        });
        let object = Object::new(value, revision);
        if self.presentation.accept.form == Form::Whole {
            out.extend_from_slice(br#"{"type":"BOOKMARK","object":"#);
            out.extend_from_slice(&object.json());
            out.extend_from_slice(b"}\n");
        } else {
            write_event(&self.presentation, &mut self.header, "BOOKMARK", &object, out);
        }
    }
}

/// Waits until leases are to be renewed, which nobody else may write.
async fn renewal_due(clock: Clock, at: Option<Timestamp>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What a watch of `selection` sees of an event: objects come and go as they begin and cease to
/// match.
fn seen(event: &Event, selection: &Selection) -> Option<(&'static str, Arc<Object>)> {
    let before = event.previous.as_ref().filter(|object| selection.matches(object));
    if event.kind == EventKind::Deleted {
        return before.map(|_| ("DELETED", event.object.clone()));
    }
    match (before, selection.matches(&event.object)) {
        (None, true) => Some(("ADDED", event.object.clone())),
        (Some(_), true) => Some(("MODIFIED", event.object.clone())),
        (Some(before), false) => {
            Some(("DELETED", Arc::new(Object::new(before.value.clone(), event.revision))))
        }
        (None, false) => None,
    }
}

fn write_event(
    presentation: &Presentation,
    header: &mut bool,
    kind: &str,
    object: &Object,
    out: &mut BytesMut,
) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    presentation.write(object, std::mem::take(header), out);
    out.extend_from_slice(b"}\n");
}
