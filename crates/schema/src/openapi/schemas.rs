//! Types of the table as OpenAPI v3 schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{KIND_EXTENSION, kind_extension};
use crate::table::{Description, Field, Leaf, ListType, Shape, Type, TypeId, descriptions, table};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A reference to a schema by its name.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The name of a type of the meta group.
pub(super) fn meta(kind: &str) -> String {
    format!("{META}.{kind}")
}

/// What paths and the schemas of custom resources refer to.
pub(super) fn metadata_types() -> Vec<TypeId> {
    ["ObjectMeta", "ListMeta", "DeleteOptions", "Status"]
        .iter()
        .filter_map(|kind| table().types.iter().position(|of_type| of_type.name == meta(kind)))
        .collect()
}

/// The schemas of the types and of what they refer to, by name.
pub(super) fn schemas(roots: &[TypeId]) -> Map<String, Value> {
    let described = descriptions();
    let mut pending = roots.to_vec();
    let mut seen = BTreeSet::new();
    let mut schemas = Map::new();
    while let Some(id) = pending.pop() {
        if !seen.insert(id) {
            continue;
        }
        let of_type = &table().types[id];
        pending.extend(of_type.fields.iter().filter_map(|field| type_in(&field.shape)));
        schemas.insert(of_type.name.to_owned(), schema(of_type, &described[id]));
    }
    // The body of every PATCH.
    let patch = json!({ "type": "object", "description": "A patch of an object." });
    schemas.insert(meta("Patch"), patch);
    schemas
}

fn type_in(shape: &Shape) -> Option<TypeId> {
    match shape {
        Shape::Type(id) => Some(*id),
        Shape::List(element) | Shape::Map(element) => type_in(element),
        _ => None,
    }
}

fn schema(of_type: &Type, described: &Description) -> Value {
    let mut schema = of_type.leaf.map_or_else(|| json!({ "type": "object" }), leaf);
    schema["description"] = described.text.clone().into();
    if !of_type.fields.is_empty() {
        let properties: Map<String, Value> = of_type
            .fields
            .iter()
            .zip(&described.fields)
            .map(|(field, text)| (field.name.to_owned(), property(field, text)))
            .collect();
        schema["properties"] = properties.into();
        let required: Vec<Value> = of_type
            .fields
            .iter()
            .filter(|field| field.required)
            .map(|field| field.name.into())
            .collect();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
    }
    if of_type.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if !of_type.kinds.is_empty() {
        let kinds = of_type.kinds.iter().map(|kind| kind_extension(kind.0, kind.1, kind.2));
        schema[KIND_EXTENSION] = kinds.collect();
    }
    schema
}

fn leaf(leaf: Leaf) -> Value {
    match leaf {
        Leaf::Quantity => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        Leaf::Time | Leaf::MicroTime => json!({ "type": "string", "format": "date-time" }),
        Leaf::Duration => json!({ "type": "string" }),
        Leaf::IntOrString => json!({
            "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }]
        }),
        Leaf::FieldsV1 | Leaf::RawExtension => json!({ "type": "object" }),
        Leaf::Json | Leaf::SchemaOrArray | Leaf::SchemaOrBool | Leaf::SchemaOrStrings => json!({}),
    }
}

fn property(field: &Field, description: &str) -> Value {
    let mut schema = shape(&field.shape);
    if matches!(field.shape, Shape::Type(_)) {
        // A reference has no room for a description of its own.
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = description.into();
    if matches!(field.shape, Shape::List(_)) {
        let list_type = match field.list {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        schema["x-kubernetes-list-type"] = list_type.into();
        if !field.map_keys.is_empty() {
            schema["x-kubernetes-list-map-keys"] = field.map_keys.iter().copied().collect();
        }
    }
    if field.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if !field.merge_key.is_empty() {
        schema["x-kubernetes-patch-merge-key"] = field.merge_key.into();
    }
    let strategies =
        [(field.merge, "merge"), (field.replace, "replace"), (field.retain_keys, "retainKeys")];
    let strategies: Vec<&str> =
        strategies.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if !strategies.is_empty() {
        schema["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
    schema
}

fn shape(of: &Shape) -> Value {
    match of {
        Shape::String => json!({ "type": "string" }),
        Shape::Bytes => json!({ "type": "string", "format": "byte" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Int32 => json!({ "type": "integer", "format": "int32" }),
        Shape::Int64 => json!({ "type": "integer", "format": "int64" }),
        Shape::Double => json!({ "type": "number", "format": "double" }),
        Shape::Type(id) => reference(table().types[*id].name),
        Shape::List(element) => json!({ "type": "array", "items": shape(element) }),
        Shape::Map(element) => json!({ "type": "object", "additionalProperties": shape(element) }),
    }
}
