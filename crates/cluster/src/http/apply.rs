//! Server-side apply.

use aerostat_schema::decode;
use http::Response;
use serde_json::Value;

use super::body::ResponseBody;
use super::ownership::Ownership;
use super::path::Target;
use super::present::Presentation;
use super::resource::Served;
use super::view::View;
use super::{Call, decode as body, reply, write};
use crate::registry::WriteOptions;
use crate::status::Status;

/// PATCH with `application/apply-patch+yaml`, of an object or its status.
pub(super) fn apply(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    let kind = &served.kind;
    if served.view != View::Stored {
        return Err(Status::not_implemented(format!(
            "server-side apply is available for {} only in {}",
            kind.plural,
            kind.api_version()
        )));
    }
    let presentation = Presentation::of(call, served)?;
    let options = WriteOptions { dry_run: call.query.dry_run("PatchOptions")? };
    let (config, warnings) = config(call, served, name)?;
    let ownership = Ownership::of(call, served, target);
    let cluster = call.service.cluster();
    let namespace = &target.namespace;
    let known = cluster.get_object(kind, namespace, name);
    if known.is_err_and(|status| status.code == 404) && target.subresource.is_none() {
        write::check_not_terminating(served)?;
        let object = ownership.applied(None, &config)?;
        let object = cluster.create_object(kind, namespace, object, options)?;
        return Ok(reply::warn(presentation.object(201, &object)?, &warnings));
    }
    let part = write::part(target);
    let object = cluster.update_object(kind, namespace, name, part, options, |old| {
        ownership.applied(Some(&old.value), &config)
    })?;
    Ok(reply::warn(presentation.object(200, &object)?, &warnings))
}

/// What the client wants to own, without fields that the kind does not have.
fn config(call: &Call<'_>, served: &Served, name: &str) -> Result<(Value, Vec<String>), Status> {
    let validation = call.query.field_validation("PatchOptions")?;
    let broken = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let (mut config, mut problems) = decode::yaml(&call.body).map_err(broken)?;
    body::check_type(served, &config)?;
    write::check_name(&config, name)?;
    problems.extend(body::prune(served, &mut config).map_err(Status::bad_request)?);
    if let Some(custom) = &served.kind.custom
        && let Some(schema) = custom.schemas.get(&served.kind.version)
    {
        schema.prune(&mut config);
    }
    let warnings = body::report(problems, validation).map_err(Status::bad_request)?;
    config["apiVersion"] = served.api_version().into();
    config["kind"] = served.kind.kind.as_str().into();
    config["metadata"]["name"] = name.into();
    Ok((config, warnings))
}
