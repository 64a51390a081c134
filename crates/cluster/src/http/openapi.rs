//! OpenAPI v3: the index, and a document for each group and version.

use aerostat_schema::openapi::{self, Custom};
use http::Response;

use super::body::ResponseBody;
use super::{Call, GIT_VERSION, discovery, reply};
use crate::status::Status;

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
    let mut customs = Vec::new();
    for kind in call.service.cluster().kinds() {
        let Some(custom) = &kind.custom else { continue };
        for version in &custom.served {
            customs.push(Custom {
                group: kind.group.clone(),
                version: version.clone(),
                kind: kind.kind.clone(),
                plural: kind.plural.clone(),
                namespaced: kind.namespaced,
                schema: custom.document.clone(),
            });
        }
    }
    customs
}

fn definitions_fingerprint(call: &Call<'_>) -> String {
    let kind = call.service.cluster().kind("apiextensions.k8s.io", "customresourcedefinitions");
    let Some(kind) = kind else { return String::new() };
    let (definitions, _) = call.service.cluster().store().list(&kind.resource(), "");
    let revisions: Vec<String> = definitions.iter().map(|d| d.revision.to_string()).collect();
    discovery::fingerprint(format!("{GIT_VERSION} {}", revisions.join(",")).as_bytes())
}
