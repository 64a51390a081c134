//! What is wrong with a field, in the words of Kubernetes' `field.Error`
//! (k8s.io/apimachinery `pkg/util/validation/field`).

use std::fmt;

use serde_json::Value;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Path, `spec.weight`; `<nil>` for what upstream gives no place.
    pub field: String,
    /// `FieldValueInvalid`, `FieldValueRequired`, ...
    pub reason: &'static str,
    /// Everything behind the path: `Invalid value: 1000: spec.weight in body should be ...`.
    pub detail: String,
}

impl Problem {
    pub(super) fn new(field: &dyn fmt::Display, reason: &'static str, detail: String) -> Self {
        Self { field: field.to_string(), reason, detail }
    }

    pub(super) fn invalid(field: &dyn fmt::Display, value: &Value, why: &str) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {}: {why}", shown(value)))
    }

    pub(super) fn type_invalid(field: &dyn fmt::Display, value: &str, why: &str) -> Self {
        let detail = format!("Invalid value: {value:?}: {why}");
        Self::new(field, "FieldValueTypeInvalid", detail)
    }

    pub(super) fn required(field: &dyn fmt::Display, why: &str) -> Self {
        Self::new(field, "FieldValueRequired", with("Required value", why))
    }

    pub(super) fn forbidden(field: &dyn fmt::Display, why: &str) -> Self {
        Self::new(field, "FieldValueForbidden", with("Forbidden", why))
    }

    pub(super) fn duplicate(field: &dyn fmt::Display, value: &Value) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {}", shown(value)))
    }

    pub(super) fn not_supported(field: &dyn fmt::Display, value: &Value, known: &[Value]) -> Self {
        let known: Vec<String> = known
            .iter()
            .map(|value| match value {
                Value::String(text) => format!("{text:?}"),
                other => format!("{:?}", other.to_string()),
            })
            .collect();
        let detail =
            format!("Unsupported value: {}: supported values: {}", shown(value), known.join(", "));
        Self::new(field, "FieldValueNotSupported", detail)
    }

    pub(super) fn too_long(field: &dyn fmt::Display, max: u64) -> Self {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("Too long: may not be more than {max} {bytes}");
        Self::new(field, "FieldValueTooLong", detail)
    }

    pub(super) fn too_many(field: &dyn fmt::Display, actual: usize, max: u64) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("Too many: {actual}: must have at most {max} {items}");
        Self::new(field, "FieldValueTooMany", detail)
    }

    /// Whether CEL rules are not evaluated on an object with this problem.
    pub(super) fn blocks_rules(&self) -> bool {
        matches!(
            self.reason,
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.detail)
    }
}

fn with(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

/// A value as Go prints it in errors.
fn shown(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if !value.is_i64() && !value.is_u64() => go_float(number),
        _ => value.to_string(),
    }
}

/// A number as Go's `%v` prints a float64: `100`, `0.5`, `1e+06`.
pub(super) fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}
