//! Tables of custom kinds: the columns of their CustomResourceDefinition.

use jiff::Timestamp;
use serde_json::Value;

use super::json_path::JsonPath;
use super::{Column, age, name};
use crate::kinds::{CustomKind, PrinterColumn};

pub(super) fn columns(kind: &CustomKind) -> Vec<Column> {
    let first = Column {
        name: "Name".into(),
        type_: "string".into(),
        format: "name".into(),
        description: super::NAME.3.into(),
        priority: 0,
    };
    let own = columns_of(kind).into_iter().map(|column| Column {
        description: if column.description.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
        } else {
            column.description
        },
        name: column.name,
        type_: column.type_,
        format: column.format,
        priority: column.priority,
    });
    std::iter::once(first).chain(own).collect()
}

pub(super) fn cells(kind: &CustomKind, object: &Value, now: Timestamp) -> Vec<Value> {
    let own = columns_of(kind).into_iter().map(|column| {
        let path = JsonPath::parse(&column.json_path).ok();
        let value = path.as_ref().and_then(|path| path.find(object).into_iter().next());
        value.map_or(Value::Null, |value| cell(&column.type_, value, now))
    });
    std::iter::once(name(object)).chain(own).collect()
}

/// A definition that names no columns shows the age.
fn columns_of(kind: &CustomKind) -> Vec<PrinterColumn> {
    if !kind.columns.is_empty() {
        return kind.columns.clone();
    }
    vec![PrinterColumn {
        name: "Age".into(),
        type_: "date".into(),
        format: String::new(),
        description: super::AGE.3.into(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".into(),
    }]
}

/// A value as its column shows it; null if it is of another type.
fn cell(type_: &str, value: &Value, now: Timestamp) -> Value {
    match (type_, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => {
            #[expect(clippy::cast_possible_truncation, reason = "a fraction is cut, as upstream")]
            let whole = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64));
            whole.into()
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(_) => age::since(value, now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
