//! OpenAPI v3 documents, as far as clients read them.
//!
//! kubectl takes three things from them: whether the server checks fields (the `fieldValidation`
//! parameter of a PATCH whose extension names the kind), how to compute a patch (content types,
//! `x-kubernetes-patch-*`), and what `explain` prints. Source: k8s.io/cli-runtime `pkg/resource`
//! and k8s.io/kubectl `pkg/explain`, `pkg/cmd/apply`.

mod custom;
mod paths;
mod schemas;

use serde_json::{Map, Value, json};

use crate::table::table;

pub use custom::Custom;

/// The index at `/openapi/v3` for groups given as (group, version).
#[must_use]
pub fn index(groups: &[(String, String)]) -> Value {
    let paths: Map<String, Value> = groups
        .iter()
        .map(|(group, version)| {
            let path = match group.as_str() {
                "" => format!("api/{version}"),
                group => format!("apis/{group}/{version}"),
            };
            let url = format!("/openapi/v3/{path}");
            (path, json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// The document of a group and version: its built-in kinds and those of `customs` that are in it.
/// `None` when there are none.
#[must_use]
pub fn document(group: &str, version: &str, customs: &[Custom]) -> Option<Value> {
    let customs: Vec<&Custom> = customs
        .iter()
        .filter(|custom| custom.group == group && custom.version == version)
        .collect();
    let built_in = table()
        .types
        .iter()
        .enumerate()
        .filter(|(_, of_type)| {
            of_type.kinds.iter().any(|kind| kind.0 == group && kind.1 == version)
        })
        .map(|(id, _)| id);
    let mut roots: Vec<usize> = built_in.collect();
    if roots.is_empty() && customs.is_empty() {
        return None;
    }
    roots.extend(paths::types(group, version));
    roots.extend(schemas::metadata_types());
    let mut components = schemas::schemas(&roots);
    let mut paths = paths::built_in(group, version);
    for custom in customs {
        custom.add_to(&mut components, &mut paths);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "v1.36.3" },
        "paths": paths,
        "components": { "schemas": components },
    }))
}

/// The extension that names an object's kind.
fn kind_extension(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

const KIND_EXTENSION: &str = "x-kubernetes-group-version-kind";

#[cfg(test)]
mod tests;
