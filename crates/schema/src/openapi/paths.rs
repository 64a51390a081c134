//! Paths with their operations.

use serde_json::{Map, Value, json};

use super::schemas::{meta, reference};
use super::{KIND_EXTENSION, kind_extension};
use crate::table::{Path, TypeId, table};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// What is behind a path.
pub(super) struct Target<'a> {
    /// Group, version and kind.
    pub kind: (&'a str, &'a str, &'a str),
    /// Name of its schema.
    pub schema: &'a str,
    /// Whether it takes strategic merge patches.
    pub strategic: bool,
}

/// The served paths of a group and version, with the type that is there. Connections
/// (`pods/exec`) have none and are left out.
fn served(group: &str, version: &str) -> impl Iterator<Item = (&'static Path, TypeId)> {
    let prefix = match group {
        "" => format!("/api/{version}/"),
        group => format!("/apis/{group}/{version}/"),
    };
    let table = table();
    table.paths.iter().filter(move |path| path.template.starts_with(&prefix)).filter_map(|path| {
        let (group, version, kind) = path.kind;
        Some((path, table.kind_id(group, version, kind)?))
    })
}

/// The types behind the built-in paths of a group and version: also those of other groups, as
/// `Scale`.
pub(super) fn types(group: &str, version: &str) -> Vec<TypeId> {
    served(group, version).map(|(_, id)| id).collect()
}

/// The paths of the built-in kinds of a group and version.
pub(super) fn built_in(group: &str, version: &str) -> Map<String, Value> {
    served(group, version)
        .map(|(path, id)| {
            let schema = table().types[id].name;
            let target = Target { kind: path.kind, schema, strategic: true };
            (path.template.to_owned(), item(path.template, &path.methods, &target))
        })
        .collect()
}

/// A path with these operations.
pub(super) fn item(template: &str, methods: &[&str], target: &Target<'_>) -> Value {
    let mut item: Map<String, Value> = methods
        .iter()
        .map(|method| ((*method).to_owned(), operation(template, method, target)))
        .collect();
    let parameters: Vec<Value> = template
        .split(['{', '}'])
        .skip(1)
        .step_by(2)
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    if !parameters.is_empty() {
        item.insert("parameters".to_owned(), parameters.into());
    }
    item.into()
}

fn operation(template: &str, method: &str, target: &Target<'_>) -> Value {
    let (group, version, kind) = target.kind;
    let on_object = template.contains("{name}");
    let action = match (method, on_object) {
        ("get", false) => "list",
        ("delete", false) => "deletecollection",
        (method, _) => method,
    };
    let list = format!("{}List", target.schema);
    let answer = if action == "list" && table().named(&list).is_some() {
        reference(&list)
    } else if method == "delete" {
        reference(&meta("Status"))
    } else {
        reference(target.schema)
    };
    let mut operation = json!({
        "x-kubernetes-action": action,
        KIND_EXTENSION: kind_extension(group, version, kind),
        "parameters": parameters(method),
        "responses": { "200": {
            "description": "OK", "content": { "application/json": { "schema": answer } }
        }},
    });
    let body: Option<Vec<(&str, Value)>> = match method {
        "patch" => {
            let mut types = vec![JSON_PATCH, MERGE_PATCH, APPLY_PATCH];
            if target.strategic {
                types.push(STRATEGIC_PATCH);
            }
            Some(types.into_iter().map(|name| (name, reference(&meta("Patch")))).collect())
        }
        "post" | "put" => Some(vec![("*/*", reference(target.schema))]),
        "delete" => Some(vec![("*/*", reference(&meta("DeleteOptions")))]),
        _ => None,
    };
    if let Some(body) = body {
        let content: Map<String, Value> = body
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), json!({ "schema": schema })))
            .collect();
        operation["requestBody"] = json!({ "content": content, "required": method != "delete" });
    }
    operation
}

fn parameters(method: &str) -> Value {
    let names: &[&str] = match method {
        "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
        "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
        "delete" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
        _ => &["fieldSelector", "labelSelector", "limit", "continue", "resourceVersion", "watch"],
    };
    names
        .iter()
        .map(|name| {
            let kind = match *name {
                "force" | "watch" => "boolean",
                "limit" | "gracePeriodSeconds" => "integer",
                _ => "string",
            };
            json!({ "name": name, "in": "query", "schema": { "type": kind } })
        })
        .collect()
}
