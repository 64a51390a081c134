//! Responses.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::body::ResponseBody;
use super::negotiate::Encoding;
use crate::status::Status;

/// A response with a body.
pub(super) fn with(
    code: u16,
    content_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// JSON that is there already.
pub(super) fn json_bytes(code: u16, bytes: impl Into<Bytes>) -> Response<ResponseBody> {
    with(code, "application/json", ResponseBody::whole(bytes))
}

pub(super) fn json(code: u16, value: &Value) -> Response<ResponseBody> {
    json_bytes(code, value.to_string())
}

pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Response<ResponseBody> {
    with(code, "text/plain; charset=utf-8", ResponseBody::whole(text))
}

/// What a path gets that no API server has.
pub(super) fn not_found() -> Response<ResponseBody> {
    text(404, "404 page not found\n")
}

/// A value as the client wants it written.
pub(super) fn value(
    code: u16,
    encoding: Encoding,
    value: &Value,
) -> Result<Response<ResponseBody>, Status> {
    match encoding {
        Encoding::Json => Ok(json(code, value)),
        Encoding::Yaml => {
            let text = serde_saphyr::to_string(value)
                .map_err(|error| Status::new(500, "InternalError", error.to_string()))?;
            Ok(with(code, "application/yaml", ResponseBody::whole(text)))
        }
    }
}

/// A failure. Always JSON: every client reads it, whatever else it asked for.
pub(super) fn status(status: &Status) -> Response<ResponseBody> {
    let mut response = json(status.code, &status.to_value());
    let wait = status.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64());
    if let Some(wait) = wait {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}

/// `Status` of a success.
pub(super) fn success(code: u16, details: Option<Value>) -> Response<ResponseBody> {
    let mut value =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => value["details"] = details,
        None => value["code"] = code.into(),
    }
    json(code, &value)
}

/// Adds a `Warning` header for each of `warnings`; kubectl prints them.
pub(super) fn warn(
    mut response: Response<ResponseBody>,
    warnings: &[String],
) -> Response<ResponseBody> {
    for warning in warnings {
        let mut quoted = String::with_capacity(warning.len() + 8);
        for c in warning.chars() {
            if matches!(c, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(if c.is_ascii() && !c.is_ascii_control() { c } else { '?' });
        }
        if let Ok(header) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, header);
        }
    }
    response
}
