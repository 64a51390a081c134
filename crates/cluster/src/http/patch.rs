//! Patches: JSON patch, merge patch, strategic merge patch.

use aerostat_schema::strategic;
use serde_json::Value;

use super::resource::Served;
use super::{Call, negotiate};
use crate::status::Status;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// How an object is to be changed.
#[derive(Debug)]
pub(super) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own: lists are merged by key.
    Strategic(Value),
}

impl Patch {
    pub(super) fn of(call: &Call<'_>, served: &Served) -> Result<Self, Status> {
        let broken = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
        let document = || {
            let value: Value =
                serde_json::from_slice(&call.body).map_err(|error| broken(error.to_string()))?;
            if value.is_object() { Ok(value) } else { Err(broken("it is not an object".into())) }
        };
        match negotiate::media_type(&call.head.headers) {
            JSON => serde_json::from_slice(&call.body)
                .map(Self::Json)
                .map_err(|error| broken(error.to_string())),
            MERGE => document().map(Self::Merge),
            STRATEGIC if served.kind.custom.is_none() => document().map(Self::Strategic),
            APPLY => Err(Status::not_implemented(
                "server-side apply is not available for this subresource; use a merge patch",
            )),
            _ if served.kind.custom.is_some() => {
                Err(negotiate::unsupported(&[JSON, MERGE, APPLY].join(", ")))
            }
            _ => Err(negotiate::unsupported(&[JSON, MERGE, STRATEGIC, APPLY].join(", "))),
        }
    }

    /// Whether a request is for a server-side apply, which is no patch to speak of.
    pub(super) fn is_apply(call: &Call<'_>) -> bool {
        negotiate::media_type(&call.head.headers) == APPLY
    }

    /// What `original`, as the client sees it, becomes.
    pub(super) fn apply(&self, served: &Served, original: Value) -> Result<Value, Status> {
        match self {
            Self::Json(patch) => {
                let mut value = original;
                json_patch::patch(&mut value, patch).map_err(|_| {
                    let message = "the server rejected our request due to an error in our request";
                    Status::new(422, "Invalid", message)
                })?;
                Ok(value)
            }
            Self::Merge(patch) => {
                let mut value = original;
                json_patch::merge(&mut value, patch);
                Ok(value)
            }
            Self::Strategic(patch) => {
                let (group, version) = served.group_version();
                strategic::patch(&group, &version, &served.kind.kind, &original, patch)
                    .map_err(Status::bad_request)
            }
        }
    }

    /// The patch as the client wrote it, for error texts.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Json(patch) => serde_json::to_string(patch).unwrap_or_default(),
            Self::Merge(patch) | Self::Strategic(patch) => patch.to_string(),
        }
    }
}
