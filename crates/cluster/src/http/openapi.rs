//! OpenAPI v3: the index, and a document for each group and version.

use std::sync::Arc;

use aerostat_schema::openapi::{self, Custom};
use http::Response;
use serde_json::Value;

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
