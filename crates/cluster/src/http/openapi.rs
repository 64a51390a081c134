//! OpenAPI v3: the index, and a document for each group and version. OpenAPI v2: an empty document.

use std::sync::Arc;

use aerostat_schema::openapi::{self, Custom};
use http::Response;
use serde_json::{Value, json};

use super::body::ResponseBody;
use super::{Call, GIT_VERSION, discovery, reply};
use crate::kinds::Kind;
use crate::status::Status;
use crate::store::Object;

/// `/openapi/v3` and what is below it; `rest` is `api/v1` or `apis/apps/v1` for example.
pub(super) fn respond(call: &Call<'_>, rest: &str) -> Result<Response<ResponseBody>, Status> {
    let groups = discovery::group_versions(call.service.cluster());
    if rest.is_empty() {
        let mut index = openapi::index(&groups);
        // A changed definition changes the address, so that nobody reads an old document.
        let hash = definitions_fingerprint(call);
        for path in index["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut())
        {
            let url = path["serverRelativeURL"].as_str().unwrap_or_default();
            path["serverRelativeURL"] = format!("{url}?hash={hash}").into();
        }
        return Ok(discovery::cached(call, "application/json", index.to_string()));
    }
    let known = groups.into_iter().find(|(group, version)| {
        let path = if group.is_empty() {
            format!("api/{version}")
        } else {
            format!("apis/{group}/{version}")
        };
        path == rest
    });
    let document =
        known.and_then(|(group, version)| openapi::document(&group, &version, &customs(call)));
    Ok(match document {
        Some(document) => discovery::cached(call, "application/json", document.to_string()),
        None => reply::not_found(),
    })
}

/// `/openapi/v2`: a document that describes no kind.
///
/// kubectl asks for it when v3 does not know the kind in a manifest, and says that the kind is
/// unknown only after it has got it. What it needs for kinds that there are, it has from v3.
pub(super) fn empty(call: &Call<'_>) -> Response<ResponseBody> {
    let accept = call.head.headers.get(http::header::ACCEPT);
    if accept.and_then(|accept| accept.to_str().ok()).is_some_and(|text| text.contains("protobuf"))
    {
        // Fields of `openapi.v2.Document` in gnostic's `openapiv2/OpenAPIv2.proto`.
        let info = [&field(1, b"Kubernetes")[..], &field(2, GIT_VERSION.as_bytes())].concat();
        let document = [field(1, b"2.0"), field(2, &info), field(8, b"")].concat();
        let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        return reply::with(200, content_type, ResponseBody::whole(document));
    }
    let info = json!({"title": "Kubernetes", "version": GIT_VERSION});
    reply::json(200, &json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}))
}

/// A protobuf field with a length of less than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).ok().filter(|length| *length < 128);
    let length = length.expect("the texts of the empty document are short");
    [&[number << 3 | 2, length], bytes].concat()
}

fn customs(call: &Call<'_>) -> Vec<Custom> {
    let definitions = definitions(call);
    let versions = definitions.iter().flat_map(|definition| {
        let spec = &definition.value["spec"];
        let served = spec["versions"].as_array().into_iter().flatten();
        served.filter(|version| version["served"] == true).map(move |version| (spec, version))
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    versions
        .map(|(spec, version)| Custom {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            kind: text(&spec["names"]["kind"]),
            plural: text(&spec["names"]["plural"]),
            namespaced: spec["scope"] == "Namespaced",
            schema: version["schema"]["openAPIV3Schema"].clone(),
        })
        .collect()
}

fn definitions(call: &Call<'_>) -> Vec<Arc<Object>> {
    let kind = call.service.cluster().kind("apiextensions.k8s.io", "customresourcedefinitions");
    let list = |kind: &Kind| call.service.cluster().store().list(&kind.resource(), "").0;
    kind.map(|kind| list(&kind)).unwrap_or_default()
}

fn definitions_fingerprint(call: &Call<'_>) -> String {
    let revisions: Vec<String> = definitions(call).iter().map(|d| d.revision.to_string()).collect();
    discovery::fingerprint(format!("{GIT_VERSION} {}", revisions.join(",")).as_bytes())
}
