//! Deleting one object, or many.

use http::Response;
use serde_json::{Value, json};

use super::body::ResponseBody;
use super::list::Selection;
use super::path::Target;
use super::present::{ListMeta, Presentation};
use super::resource::Served;
use super::{Call, decode, query, reply};
use crate::kinds::Kind;
use crate::registry::{DeleteOptions, Deleted, Propagation};
use crate::status::{FieldError, Status};

/// Kinds whose delete answers with the object even when it is gone at once. Source: kubernetes
/// `pkg/registry`, stores with `ReturnDeletedObject`.
const RETURNED: &[(&str, &str)] = &[
    ("", "namespaces"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
];

/// DELETE of one object.
pub(super) fn one(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = Presentation::of(call, served)?;
    let options = options(call)?;
    let kind = &served.kind;
    let cluster = call.service.cluster();
    match cluster.delete_object(kind, &target.namespace, name, &options)? {
        Deleted::Gone(object) if !returned(kind) => {
            let mut details = json!({"name": name, "kind": kind.plural, "uid": object.uid()});
            if !kind.group.is_empty() {
                details["group"] = kind.group.as_str().into();
            }
            Ok(reply::success(200, Some(details)))
        }
        Deleted::Gone(object) | Deleted::Lingers(object) => presentation.object(200, &object),
    }
}

/// DELETE of all that are selected; answers with what they were.
pub(super) fn collection(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = Presentation::of(call, served)?;
    let selection = Selection::of(call, served, target)?;
    let options = options(call)?;
    let cluster = call.service.cluster();
    let kind = &served.kind;
    let (objects, revision) = cluster.store().list(&kind.resource(), &target.namespace);
    let mut deleted = Vec::new();
    for object in objects.into_iter().filter(|object| selection.matches(object)) {
        match cluster.delete_object(kind, object.namespace(), object.name(), &options) {
            Ok(Deleted::Gone(object) | Deleted::Lingers(object)) => deleted.push(object),
            // Someone else was faster.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    presentation.list(deleted, &ListMeta { revision, ..ListMeta::default() })
}

fn returned(kind: &Kind) -> bool {
    RETURNED.contains(&(kind.group.as_str(), kind.plural.as_str()))
}

/// The options in the body; without one, those in the query.
fn options(call: &Call<'_>) -> Result<DeleteOptions, Status> {
    if !call.body.is_empty() {
        return from_value(&decode::body(call)?.0);
    }
    let query = &call.query;
    let mut value = json!({});
    if let Some(grace) = query.get("gracePeriodSeconds") {
        value["gracePeriodSeconds"] = grace.parse::<i64>().map_or(grace.into(), Value::from);
    }
    if let Some(policy) = query.get("propagationPolicy") {
        value["propagationPolicy"] = policy.into();
    }
    if let Some(orphan) = query.given("orphanDependents") {
        value["orphanDependents"] = orphan.into();
    }
    if let Some(dry_run) = query.get("dryRun") {
        value["dryRun"] = json!([dry_run]);
    }
    from_value(&value)
}

/// `DeleteOptions` from their JSON.
pub(super) fn from_value(value: &Value) -> Result<DeleteOptions, Status> {
    let invalid = |error: FieldError| Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error]);
    let text = |field: &Value| field.as_str().map(str::to_owned);
    let grace = &value["gracePeriodSeconds"];
    if !grace.is_null() && !grace.is_i64() {
        return Err(Status::bad_request(format!(
            "gracePeriodSeconds: {grace} is not a whole number"
        )));
    }
    let policy = &value["propagationPolicy"];
    let orphan = &value["orphanDependents"];
    if !policy.is_null() && !orphan.is_null() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        return Err(invalid(FieldError::invalid("propagationPolicy", policy, why)));
    }
    let propagation = match (policy.as_str(), orphan.as_bool()) {
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (None, None) if policy.is_null() => None,
        _ => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            return Err(invalid(FieldError::not_supported(
                "propagationPolicy",
                policy,
                &supported,
            )));
        }
    };
    Ok(DeleteOptions {
        grace_period: grace.as_i64(),
        propagation,
        uid: text(&value["preconditions"]["uid"]),
        resource_version: text(&value["preconditions"]["resourceVersion"]),
        dry_run: query::dry_run(value["dryRun"][0].as_str(), "DeleteOptions")?,
    })
}
