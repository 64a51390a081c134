//! From bytes to JSON in the form in which the API keeps an object.
//!
//! `strict` and `yaml` read, `documents` splits a manifest file, `prune_unknown` checks an object
//! against its type.

mod documents;
mod leaf;
mod tree;
mod typed;

use serde_json::Value;

pub use documents::documents;
pub use typed::prune_unknown;
pub(crate) use typed::{prune_metadata, unknown};

use tree::Tree;

/// Reads JSON. Also returns what a strict reader objects to: `duplicate field
/// "spec.containers[0].name"`, the last one of which counts.
///
/// # Errors
///
/// The bytes are not one JSON value.
pub fn strict(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let Tree { value, duplicates } =
        serde_json::from_slice(bytes).map_err(|error| match error.is_eof() {
            true => "unexpected end of JSON input".to_owned(),
            false => error.to_string(),
        })?;
    Ok((value, duplicates))
}

/// Reads one YAML document, otherwise as [`strict`] does.
///
/// # Errors
///
/// The bytes are not one YAML document with string keys; with line and column.
pub fn yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("yaml: {error}"))?;
    let Tree { value, duplicates } = documents::parse(text, 1)?;
    Ok((value, duplicates))
}

#[cfg(test)]
mod tests;
