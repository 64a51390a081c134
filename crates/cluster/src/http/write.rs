//! Creating, replacing, patching.

use http::Response;
use serde_json::Value;

use super::body::ResponseBody;
use super::ownership::Ownership;
use super::patch::Patch;
use super::path::Target;
use super::present::Presentation;
use super::query::FieldValidation;
use super::resource::Served;
use super::{Call, apply, decode, reply};
use crate::registry::{Part, WriteOptions, is_terminating};
use crate::status::{FieldError, Status};

/// POST.
pub(super) fn create(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = Presentation::of(call, served)?;
    check_not_terminating(served)?;
    let options = WriteOptions { dry_run: call.query.dry_run("CreateOptions")? };
    let validation = call.query.field_validation("CreateOptions")?;
    let (value, mut warnings) = decode::object(call, served, validation)?;
    warnings.extend(served.kind.notice());
    let value = served.view.inward(&served.kind, value, None);
    let value = Ownership::of(call, served, target).created(value);
    let cluster = call.service.cluster();
    let result = cluster.create_object(&served.kind, &target.namespace, value, options);
    let response = result.and_then(|object| presentation.object(201, &object));
    Ok(reply::warn(response.unwrap_or_else(|status| reply::status(&status)), &warnings))
}

/// PUT, of an object or its status.
pub(super) fn update(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = Presentation::of(call, served)?;
    let kind = &served.kind;
    let options = WriteOptions { dry_run: call.query.dry_run("UpdateOptions")? };
    let validation = call.query.field_validation("UpdateOptions")?;
    let (value, warnings) = decode::object(call, served, validation)?;
    check_name(&value, name)?;
    let versioned = value["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty());
    if !versioned && !kind.unconditional_update {
        let why = "must be specified for an update";
        let error = FieldError::invalid("metadata.resourceVersion", &0.into(), why);
        return Err(Status::invalid(&kind.group, &kind.kind, name, &[error]));
    }
    let ownership = Ownership::of(call, served, target);
    let cluster = call.service.cluster();
    let namespace = &target.namespace;
    let result = cluster.update_object(kind, namespace, name, part(target), options, |old| {
        let mut value = served.view.inward(kind, value.clone(), Some(&old.value));
        value["metadata"]["name"] = name.into();
        Ok(ownership.updated(&old.value, value))
    });
    let (code, object) = match result {
        Err(status) if status.code == 404 && kind.create_on_update => {
            let mut value = served.view.inward(kind, value, None);
            value["metadata"]["name"] = name.into();
            let value = ownership.created(value);
            (201, cluster.create_object(kind, namespace, value, options)?)
        }
        result => (200, result?),
    };
    Ok(reply::warn(presentation.object(code, &object)?, &warnings))
}

/// PATCH, of an object or its status.
pub(super) fn patch(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    if Patch::is_apply(call) {
        return apply::apply(call, served, target, name);
    }
    let presentation = Presentation::of(call, served)?;
    let kind = &served.kind;
    let options = WriteOptions { dry_run: call.query.dry_run("PatchOptions")? };
    let validation = call.query.field_validation("PatchOptions")?;
    let patch = Patch::of(call, served)?;
    let ownership = Ownership::of(call, served, target);
    let mut warnings = Vec::new();
    let cluster = call.service.cluster();
    let namespace = &target.namespace;
    let object = cluster.update_object(kind, namespace, name, part(target), options, |old| {
        let mut new = patch.apply(served, served.value(old))?;
        check_name(&new, name)?;
        warnings = checked(served, &patch, &mut new, validation)?;
        let new = served.view.inward(kind, new, Some(&old.value));
        Ok(ownership.updated(&old.value, new))
    })?;
    Ok(reply::warn(presentation.object(200, &object)?, &warnings))
}

fn checked(
    served: &Served,
    patch: &Patch,
    new: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    decode::prune(served, new).and_then(|problems| decode::report(problems, validation)).map_err(
        |why| {
            let shown = Value::String(patch.to_text());
            let error = FieldError::invalid("patch", &shown, &why);
            let mut status = Status::invalid("", "", "", std::slice::from_ref(&error));
            // Upstream names no kind here.
            status.message = format!(" \"\" is invalid: {error}");
            status
        },
    )
}

/// Nothing more is created of a kind that is on its way out.
pub(super) fn check_not_terminating(served: &Served) -> Result<(), Status> {
    if is_terminating(&served.kind) {
        let message = "create not allowed while custom resource definition is terminating";
        return Err(Status::new(405, "MethodNotAllowed", message));
    }
    Ok(())
}

pub(super) fn part(target: &Target) -> Part {
    match target.subresource.as_deref() {
        Some("status") => Part::Status,
        _ => Part::Main,
    }
}

/// An object in a body has the name in the URL, or none.
pub(super) fn check_name(value: &Value, name: &str) -> Result<(), Status> {
    match value["metadata"]["name"].as_str() {
        None | Some("") => Ok(()),
        Some(given) if given == name => Ok(()),
        Some(given) => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}
