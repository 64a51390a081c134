//! Errors, in the words and codes of Kubernetes.

use std::fmt;

use serde_json::{Value, json};

/// A failed request: what Kubernetes calls a `Status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// `NotFound`, `Conflict`, `Invalid` and so on.
    pub reason: &'static str,
    /// A sentence for people; kubectl prints it.
    pub message: String,
    /// Machine-readable: name, kind, causes.
    pub details: Option<Value>,
}

impl Status {
    /// A failure with neither name nor causes.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    /// 404 for an object; `resource` as in `deployments.apps`.
    #[must_use]
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, plural));
        Self::about(404, "NotFound", message, group, plural, name)
    }

    /// 409 for an object that is there already.
    #[must_use]
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, plural));
        Self::about(409, "AlreadyExists", message, group, plural, name)
    }

    /// 409 for a write that is based on an old version, or whose precondition does not hold.
    #[must_use]
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            qualified(group, plural)
        );
        Self::about(409, "Conflict", message, group, plural, name)
    }

    /// 409 for a write that is based on an old version.
    #[must_use]
    pub fn stale(group: &str, plural: &str, name: &str) -> Self {
        let why = "the object has been modified; \
                   please apply your changes to the latest version and try again";
        Self::conflict(group, plural, name, why)
    }

    /// 403: admission says no.
    #[must_use]
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", qualified(group, plural));
        Self::about(403, "Forbidden", message, group, plural, name)
    }

    /// 422 with one cause for each invalid field; `kind` as in `Pod`.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, fields: &[FieldError]) -> Self {
        let mut texts = fields.iter().map(ToString::to_string).collect::<Vec<_>>();
        texts.dedup();
        let list =
            if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes: Vec<Value> = fields
            .iter()
            .map(|field| {
                json!({"reason": field.reason, "message": field.detail, "field": field.field})
            })
            .collect();
        let mut status =
            Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {list}"));
        status.details =
            Some(json!({"name": name, "group": group, "kind": kind, "causes": causes}));
        status
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 501: this embedded cluster does not do that, and says so.
    #[must_use]
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    fn about(
        code: u16,
        reason: &'static str,
        message: String,
        group: &str,
        plural: &str,
        name: &str,
    ) -> Self {
        let mut details = json!({"name": name, "kind": plural});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self { code, reason, message, details: Some(details) }
    }

    /// As a `v1` `Status` object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if let Some(details) = &self.details {
            value["details"] = details.clone();
        }
        value
    }
}

fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// One field that is wrong, in the words of Kubernetes' `field.Error`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path, `spec.containers[0].image` for example.
    pub field: String,
    /// `FieldValueInvalid`, `FieldValueRequired`, `FieldValueForbidden`, `FieldValueNotSupported`,
    /// `FieldValueDuplicate`, `FieldValueTooLong`, …
    pub reason: &'static str,
    /// Everything behind the path, `Invalid value: "x": must be …` for example.
    pub detail: String,
}

impl FieldError {
    /// `Invalid value: <value>: <why>`; `value` is shown as JSON.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let detail = format!("Invalid value: {value}: {why}");
        Self { field: field.into(), reason: "FieldValueInvalid", detail }
    }

    /// `Required value` with an optional explanation.
    #[must_use]
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let detail =
            if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self { field: field.into(), reason: "FieldValueRequired", detail }
    }

    /// `Forbidden: <why>`.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        let detail = format!("Forbidden: {why}");
        Self { field: field.into(), reason: "FieldValueForbidden", detail }
    }

    /// `Unsupported value: "x": supported values: "a", "b"`.
    #[must_use]
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        let detail = format!("Unsupported value: {value}: supported values: {list}");
        Self { field: field.into(), reason: "FieldValueNotSupported", detail }
    }

    /// `Duplicate value: <value>`.
    #[must_use]
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let detail = format!("Duplicate value: {value}");
        Self { field: field.into(), reason: "FieldValueDuplicate", detail }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.detail)
    }
}
