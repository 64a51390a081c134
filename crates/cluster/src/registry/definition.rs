//! What a CustomResourceDefinition says.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions`.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_schema::custom::{CustomSchema, Problem};
use serde_json::{Value, json};

use crate::kinds::{CustomKind, Kind, PrinterColumn, ScalePaths};
use crate::status::FieldError;

/// Fills in what a definition leaves open.
pub(super) fn default(definition: &mut Value) {
    let names = &mut definition["spec"]["names"];
    let kind = text(&names["kind"]);
    if !kind.is_empty() {
        if text(&names["singular"]).is_empty() {
            names["singular"] = kind.to_lowercase().into();
        }
        if text(&names["listKind"]).is_empty() {
            names["listKind"] = format!("{kind}List").into();
        }
    }
    if definition["spec"]["conversion"].is_null() {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
}

/// Everything wrong with a definition.
pub(super) fn validate(definition: &Value) -> Vec<FieldError> {
    let spec = &definition["spec"];
    let mut errors = Vec::new();
    let mut require = |field: &str, value: &Value| {
        if text(value).is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    };
    require("spec.group", &spec["group"]);
    require("spec.scope", &spec["scope"]);
    require("spec.names.plural", &spec["names"]["plural"]);
    require("spec.names.kind", &spec["names"]["kind"]);
    if !matches!(spec["scope"].as_str(), None | Some("" | "Cluster" | "Namespaced")) {
        let supported = ["Cluster", "Namespaced"];
        errors.push(FieldError::not_supported("spec.scope", &spec["scope"], &supported));
    }
    let name = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if text(&definition["metadata"]["name"]) != name {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &definition["metadata"]["name"], why));
    }
    let strategy = &spec["conversion"]["strategy"];
    if strategy != "None" {
        // Webhooks are not called here.
        errors.push(FieldError::not_supported("spec.conversion.strategy", strategy, &["None"]));
    }
    let versions = versions(definition);
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &spec["versions"], why));
    }
    for (i, version) in versions.iter().enumerate() {
        let place = format!("spec.versions[{i}].schema.openAPIV3Schema");
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_null() {
            errors.push(FieldError::required(place, "schemas are required"));
            continue;
        }
        // A schema that all versions share is reported where older versions of the API had it.
        let place =
            if versions.len() == 1 { "spec.validation.openAPIV3Schema".to_owned() } else { place };
        let problems = CustomSchema::compile(schema).err().unwrap_or_default();
        errors.extend(problems.into_iter().map(|mut problem| {
            let dot = if problem.field.is_empty() { "" } else { "." };
            problem.field = format!("{place}{dot}{}", problem.field);
            field_error(problem)
        }));
    }
    errors
}

pub(super) fn field_error(problem: Problem) -> FieldError {
    FieldError { field: problem.field, reason: problem.reason, detail: problem.detail }
}

/// UID and generation.
pub(super) fn source(definition: &Value) -> (String, i64) {
    let metadata = &definition["metadata"];
    (text(&metadata["uid"]), metadata["generation"].as_i64().unwrap_or(0))
}

/// The version whose form is kept.
pub(super) fn storage_version(definition: &Value) -> &Value {
    let storage = versions(definition).iter().find(|version| version["storage"] == true);
    storage.unwrap_or(&Value::Null)
}

/// The kind that a definition defines; `None` if it has no version to store.
pub(super) fn kind(definition: &Value) -> Option<Kind> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let version = storage_version(definition);
    let name = version["name"].as_str()?;
    let versions = versions(definition).iter();
    let schemas: BTreeMap<String, CustomSchema> = versions
        .clone()
        .filter_map(|version| {
            let schema = CustomSchema::compile(&version["schema"]["openAPIV3Schema"]).ok()?;
            Some((text(&version["name"]), schema))
        })
        .collect();
    let scale = version["subresources"].get("scale").map(|scale| ScalePaths {
        spec_replicas: text(&scale["specReplicasPath"]),
        status_replicas: text(&scale["statusReplicasPath"]),
        selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    });
    let custom = CustomKind {
        definition: text(&definition["metadata"]["name"]),
        list_kind: text(&names["listKind"]),
        source: source(definition),
        served: versions.filter(|v| v["served"] == true).map(|v| text(&v["name"])).collect(),
        schemas,
        terminating: !definition["metadata"]["deletionTimestamp"].is_null(),
        scale,
        selectable_fields: list(&version["selectableFields"])
            .iter()
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
        columns: list(&version["additionalPrinterColumns"]).iter().map(column).collect(),
    };
    let texts = |value: &Value| list(value).iter().map(text).collect();
    Some(Kind {
        group: text(&spec["group"]),
        version: name.to_owned(),
        kind: text(&names["kind"]),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        status: version["subresources"].get("status").is_some(),
        scale: custom.scale.is_some(),
        generation: true,
        unconditional_update: false,
        create_on_update: false,
        read_only: false,
        custom: Some(Arc::new(custom)),
    })
}

fn column(column: &Value) -> PrinterColumn {
    let priority = column["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok());
    PrinterColumn {
        name: text(&column["name"]),
        type_: text(&column["type"]),
        format: text(&column["format"]),
        description: text(&column["description"]),
        priority: priority.unwrap_or(0),
        json_path: text(&column["jsonPath"]),
    }
}

fn versions(definition: &Value) -> &[Value] {
    list(&definition["spec"]["versions"])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
