//! Bodies to objects.

use aerostat_schema::{decode, protobuf};
use serde_json::Value;

use super::Call;
use super::negotiate::{self, Content};
use super::query::FieldValidation;
use super::resource::Served;
use crate::status::Status;

/// The object in the body, as the client sees its kind; unknown fields are gone. Also what the
/// client is to be warned of.
pub(super) fn object(
    call: &Call<'_>,
    served: &Served,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let (mut value, mut problems) = body(call).map_err(|mut status| {
        if status.code == 400 {
            let kind = &served.kind.kind;
            let message = std::mem::take(&mut status.message);
            status.message = format!(
                "the object provided is unrecognized (must be of type {kind}): {message} ({})",
                summary(&call.body),
            );
        }
        status
    })?;
    check_type(served, &value)?;
    problems.extend(prune(served, &mut value).map_err(|why| cannot_be_handled(served, &why))?);
    let warnings = report(problems, validation).map_err(|why| cannot_be_handled(served, &why))?;
    Ok((value, warnings))
}

/// Whatever the body holds, and which of its fields stand there twice.
pub(super) fn body(call: &Call<'_>) -> Result<(Value, Vec<String>), Status> {
    match negotiate::content(&call.head.headers)? {
        Content::Json => decode::strict(&call.body)
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}")),
        Content::Yaml => {
            decode::yaml(&call.body).map_err(|why| format!("error converting YAML to JSON: {why}"))
        }
        Content::Protobuf => protobuf::decode(&call.body)
            .map(|value| (value, Vec::new()))
            .map_err(|why| format!("couldn't read the protobuf body: {why}")),
    }
    .map_err(Status::bad_request)
}

/// How a body begins: as text if it looks like JSON, in hexadecimal digits if not. As apiserver
/// `pkg/endpoints/handlers/rest.go`.
fn summary(body: &[u8]) -> String {
    const MOST: usize = 30;
    let begin = &body[..body.len().min(MOST)];
    let more = if body.len() > MOST { " ..." } else { "" };
    match begin.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(begin)),
        Some(_) => begin.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

/// Names the fields that the kind does not have, and takes them out of built-in kinds (the registry
/// takes them out of custom ones).
///
/// # Errors
///
/// If a field has the wrong type.
pub(super) fn prune(served: &Served, value: &mut Value) -> Result<Vec<String>, String> {
    let (group, version) = served.group_version();
    if let Some(custom) = &served.kind.custom {
        let schema = custom.schemas.get(&version);
        let unknown = schema.map(|schema| schema.unknown_fields(value)).unwrap_or_default();
        return Ok(unknown);
    }
    decode::prune_unknown(&group, &version, &served.kind.kind, value)
}

/// What becomes of problems: warnings, an error text, or nothing.
pub(super) fn report(
    problems: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            Err(format!("strict decoding error: {}", problems.join(", ")))
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(problems),
    }
}

/// The kind and version in a body are those of its URL, or not there.
pub(super) fn check_type(served: &Served, value: &Value) -> Result<(), Status> {
    if !value.is_object() {
        let why = "the body of the request is not an object";
        return Err(cannot_be_handled(served, why));
    }
    let api_version = served.api_version();
    let kind = &served.kind.kind;
    let given_kind = value["kind"].as_str().unwrap_or_default();
    let given_version = value["apiVersion"].as_str().unwrap_or_default();
    if !given_kind.is_empty() && given_kind != kind {
        return Err(Status::bad_request(format!(
            "{given_kind} in version {:?} cannot be handled as a {kind}: \
             expected kind {kind} of {api_version}",
            given_version.rsplit('/').next().unwrap_or_default(),
        )));
    }
    if !given_version.is_empty() && given_version != api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given_version}) does not match \
             the expected API version ({api_version})"
        )));
    }
    Ok(())
}

fn cannot_be_handled(served: &Served, why: &str) -> Status {
    let kind = &served.kind.kind;
    let (_, version) = served.group_version();
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}
