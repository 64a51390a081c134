//! What Kubernetes refuses of a well-formed object.

use serde_json::Value;

use crate::kinds::Kind;
use crate::registry::Part;
use crate::status::FieldError;

/// Everything wrong with a new object.
#[must_use]
pub fn create(_kind: &Kind, _value: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// Everything wrong with a changed object; immutable fields among it.
#[must_use]
pub fn update(_kind: &Kind, _new: &Value, _old: &Value, _part: Part) -> Vec<FieldError> {
    Vec::new()
}
