//! A value with its path, so that whoever finds it wrong can say where it is.

use std::fmt;

use serde_json::Value;

use super::Errors;
use crate::status::FieldError;

/// A value within an object, and how to get there. Paths are written only when something is wrong.
#[derive(Clone, Copy)]
pub(super) struct Place<'p, 'v> {
    /// The value; null if there is none.
    pub(super) value: &'v Value,
    step: Step<'p>,
    parent: Option<&'p Place<'p, 'v>>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Item(&'p str, usize),
    Entry(&'p str, &'p str),
}

static NULL: Value = Value::Null;

impl<'p, 'v> Place<'p, 'v> {
    /// The object itself.
    pub(super) fn root(value: &'v Value) -> Self {
        Self { value, step: Step::Root, parent: None }
    }

    /// The same place with another value: errors show `value` instead of what is there.
    pub(super) fn showing<'x>(self, value: &'x Value) -> Place<'x, 'x>
    where
        'p: 'x,
        'v: 'x,
    {
        Place { value, step: self.step, parent: self.parent }
    }

    /// A field: `spec`.
    pub(super) fn child<'s>(&'s self, field: &'s str) -> Place<'s, 'v> {
        let value = self.value.get(field).unwrap_or(&NULL);
        Place { value, step: Step::Field(field), parent: Some(self) }
    }

    /// The elements of a list: `containers[0]`, `containers[1]`, …
    pub(super) fn items<'s>(&'s self, field: &'s str) -> impl Iterator<Item = Place<'s, 'v>> {
        self.list(field).iter().enumerate().map(move |(i, value)| Place {
            value,
            step: Step::Item(field, i),
            parent: Some(self),
        })
    }

    /// The entries of a map, with their keys: `limits[cpu]`, …
    pub(super) fn entries<'s>(
        &'s self,
        field: &'s str,
    ) -> impl Iterator<Item = (&'v str, Place<'s, 'v>)> {
        let map = self.value.get(field).and_then(Value::as_object);
        map.into_iter().flatten().map(move |(key, value)| {
            (key.as_str(), Place { value, step: Step::Entry(field, key), parent: Some(self) })
        })
    }

    /// One entry of a map, there or not: `data[ca.crt]`.
    pub(super) fn entry<'s>(&'s self, field: &'s str, key: &'s str) -> Place<'s, 'v> {
        let value = self.value.get(field).and_then(|map| map.get(key)).unwrap_or(&NULL);
        Place { value, step: Step::Entry(field, key), parent: Some(self) }
    }

    /// The elements of a list as they are; none if it is absent.
    pub(super) fn list(&self, field: &str) -> &'v [Value] {
        self.value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether there is anything.
    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Its text; empty if there is none.
    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// Its number.
    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// `Invalid value: …: <why>`
    pub(super) fn invalid(&self, why: &str) -> FieldError {
        FieldError::invalid(self.to_string(), self.value, why)
    }

    /// `Required value[: <why>]`
    pub(super) fn required(&self, why: &str) -> FieldError {
        FieldError::required(self.to_string(), why)
    }

    /// `Forbidden: <why>`
    pub(super) fn forbidden(&self, why: &str) -> FieldError {
        FieldError::forbidden(self.to_string(), why)
    }

    /// `Unsupported value: …: supported values: …`
    pub(super) fn not_supported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(self.to_string(), self.value, supported)
    }

    /// `Duplicate value: …`
    pub(super) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.to_string(), self.value)
    }

    /// `Not found: …`
    pub(super) fn not_found(&self) -> FieldError {
        let detail = format!("Not found: {}", self.value);
        FieldError { field: self.to_string(), reason: "FieldValueNotFound", detail }
    }

    /// `Too long: may not be more than … bytes`
    pub(super) fn too_long(&self, most: usize) -> FieldError {
        let detail = format!("Too long: may not be more than {most} bytes");
        FieldError { field: self.to_string(), reason: "FieldValueTooLong", detail }
    }

    /// Requires a number that is not negative, if there is one.
    pub(super) fn nonnegative(&self, errors: &mut Errors) {
        if self.number().is_some_and(|number| number < 0) {
            errors.push(self.invalid("must be greater than or equal to 0"));
        }
    }

    /// Requires one of some words; an absent one is required too.
    pub(super) fn one_of(&self, supported: &[&str], errors: &mut Errors) {
        if self.text().is_empty() {
            errors.push(self.required(""));
        } else if !supported.contains(&self.text()) {
            errors.push(self.not_supported(supported));
        }
    }

    /// Requires that nothing changed.
    pub(super) fn immutable(&self, old: &Value, errors: &mut Errors) {
        if self.value != old {
            errors.push(self.invalid("field is immutable"));
        }
    }

    /// Adds an error for each of `problems`.
    pub(super) fn each(&self, problems: Vec<String>, errors: &mut Errors) {
        errors.extend(problems.iter().map(|problem| self.invalid(problem)));
    }
}

impl fmt::Display for Place<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
            if !matches!(parent.step, Step::Root) {
                f.write_str(".")?;
            }
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(field) => f.write_str(field),
            Step::Item(field, index) => write!(f, "{field}[{index}]"),
            Step::Entry(field, key) => write!(f, "{field}[{key}]"),
        }
    }
}
