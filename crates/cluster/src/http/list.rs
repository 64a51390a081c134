//! Getting one object, listing many.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Response;
use serde_json::{Value, json};

use super::Call;
use super::body::ResponseBody;
use super::path::Target;
use super::present::{ListMeta, Presentation};
use super::resource::Served;
use crate::selectors::{Fields, Labels};
use crate::status::{FieldError, Status};
use crate::store::{Object, RevisionError};

/// Which objects of a kind a request is about.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// Empty: all.
    pub namespace: String,
    pub labels: Labels,
    pub fields: Fields,
}

impl Selection {
    pub(super) fn of(call: &Call<'_>, served: &Served, target: &Target) -> Result<Self, Status> {
        let labels = call.query.get("labelSelector").unwrap_or_default();
        let labels = Labels::parse(labels).map_err(Status::bad_request)?;
        let query = served.view.stored_field(call.query.get("fieldSelector").unwrap_or_default());
        let mut fields = Fields::parse(&query, &served.kind).map_err(Status::bad_request)?;
        if let Some(name) = &target.name {
            fields = Fields::named(name).and(fields);
        }
        Ok(Self { namespace: target.namespace.clone(), labels, fields })
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || object.namespace() == self.namespace)
            && self.labels.matches(&object.value["metadata"]["labels"])
            && self.fields.matches(&object.value)
    }

    fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// One object.
pub(super) fn get(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = Presentation::of(call, served)?;
    let object = call.service.cluster().get_object(&served.kind, &target.namespace, name)?;
    presentation.object(200, &object)
}

/// Many objects, perhaps a page of them.
pub(super) fn list(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = Presentation::of(call, served)?;
    let selection = Selection::of(call, served, target)?;
    let (objects, meta) = page(call, served, &selection)?;
    presentation.list(objects, &meta)
}

fn page(
    call: &Call<'_>,
    served: &Served,
    selection: &Selection,
) -> Result<(Vec<Arc<Object>>, ListMeta), Status> {
    let store = call.service.cluster().store();
    let resource = served.kind.resource();
    let version = call.query.get("resourceVersion");
    let matching = call.query.get("resourceVersionMatch");
    let token = call.query.get("continue").map(Token::parse).transpose()?;
    check_match(version, matching, token.is_some())?;
    let mut limit = call.query.number("limit")?.and_then(|limit| usize::try_from(limit).ok());

    let at = |revision| {
        store.list_at(&resource, &selection.namespace, revision).map_err(|error| match error {
            RevisionError::Compacted(_) if token.is_some() => expired(
                "The provided continue parameter is too old to display a consistent list result. \
                 You must start a new list without the continue parameter.",
            ),
            RevisionError::Compacted(oldest) => {
                expired(&format!("too old resource version: {revision} ({oldest})"))
            }
            RevisionError::Future(newest) => too_large(revision, newest),
        })
    };
    let (objects, revision) = if let Some(token) = &token {
        (at(token.revision)?, token.revision)
    } else {
        let wanted = version.map(parse_revision).transpose()?.unwrap_or(0);
        if matching == Some("Exact") {
            (at(wanted)?, wanted)
        } else {
            // As upstream's watch cache: who takes any version gets the whole list.
            if version == Some("0") {
                limit = None;
            }
            let (objects, revision) = store.list(&resource, &selection.namespace);
            if wanted > revision {
                return Err(too_large(wanted, revision));
            }
            (objects, revision)
        }
    };
    if limit.is_none_or(|limit| limit == 0) && token.is_none() && selection.is_everything() {
        return Ok((objects, ListMeta { revision, ..ListMeta::default() }));
    }

    let after = token.as_ref().map(|token| token.start.as_str());
    let mut rest = objects
        .into_iter()
        .skip_while(|object| after.is_some_and(|after| *key(object) <= *after))
        .filter(|object| selection.matches(object));
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let objects: Vec<Arc<Object>> = rest.by_ref().take(limit).collect();
    let mut meta = ListMeta { revision, ..ListMeta::default() };
    if let (Some(last), Some(_)) = (objects.last().filter(|_| objects.len() == limit), rest.next())
    {
        meta.next = Some(Token { revision, start: key(last) }.to_text());
        meta.remaining = selection.is_everything().then(|| rest.count() + 1);
    }
    Ok((objects, meta))
}

/// Namespace and name, in the order of lists.
fn key(object: &Object) -> String {
    // Zero sorts below everything that names consist of.
    format!("{}\0{}", object.namespace(), object.name())
}

/// Where the next page begins.
struct Token {
    revision: u64,
    /// Key of the last object of the page before.
    start: String,
}

impl Token {
    fn to_text(&self) -> String {
        let token = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn parse(text: &str) -> Result<Self, Status> {
        let parsed = BASE64_URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
            })
            .and_then(|value| {
                let revision =
                    value["rv"].as_u64().ok_or("incorrect encoded start resourceVersion")?;
                let start = value["start"].as_str().ok_or("incorrect encoded start key")?;
                Ok(Self { revision, start: start.to_owned() })
            });
        parsed.map_err(|why| Status::bad_request(format!("invalid continue token: {why}")))
    }
}

/// Source: apimachinery `pkg/apis/meta/internalversion/validation/validation.go`.
fn check_match(version: Option<&str>, matching: Option<&str>, paged: bool) -> Result<(), Status> {
    let forbidden = |why: &str| {
        let error = FieldError::forbidden("resourceVersionMatch", why);
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]))
    };
    match matching {
        None => Ok(()),
        Some(_) if paged => {
            forbidden("resourceVersionMatch is forbidden when continue is provided")
        }
        Some(_) if version.is_none() => {
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        Some("Exact") if version == Some("0") => {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        Some("Exact" | "NotOlderThan") => Ok(()),
        Some(other) => {
            let supported = ["Exact", "NotOlderThan", ""];
            let error =
                FieldError::not_supported("resourceVersionMatch", &other.into(), &supported);
            Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]))
        }
    }
}

/// A `resourceVersion` parameter.
pub(super) fn parse_revision(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        Status::bad_request(format!("resourceVersion: Invalid value: {text:?}: {why}"))
    })
}

/// 410.
pub(super) fn expired(message: &str) -> Status {
    Status::new(410, "Expired", message)
}

fn too_large(wanted: u64, newest: u64) -> Status {
    let message = format!("Too large resource version: {wanted}, current: {newest}");
    let cause =
        json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let mut status = Status::new(504, "Timeout", format!("Timeout: {message}"));
    status.details = Some(json!({"causes": [cause], "retryAfterSeconds": 1}));
    status
}
