//! Checks of values against their schema.

use serde_json::{Map, Value};

use super::format;
use super::node::{Kind, Node};
use super::path::Path;
use super::problem::{Problem, go_float};

/// Checks a value; what equals `old` is not looked at.
pub(super) fn check(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    problems: &mut Vec<Problem>,
) {
    if old == Some(value) {
        return;
    }
    let mut here = Here { path, problems };
    here.kind(node, value);
    if value.is_null() {
        if !node.nullable {
            here.allowed(node, value);
        }
        return;
    }
    here.allowed(node, value);
    match value {
        Value::String(text) => here.text(node, text),
        Value::Number(_) => here.number(node, value),
        Value::Array(list) => {
            here.array(node, list);
            if let Some(items) = &node.items {
                for (index, element) in list.iter().enumerate() {
                    let old = node.counterpart(element, old);
                    check(items, element, old, &Path::Index(path, index), problems);
                }
            }
        }
        Value::Object(map) => {
            here.object(node, map);
            for (name, value) in map {
                let old = old.and_then(|old| old.get(name));
                if let Some(property) = node.properties.get(name) {
                    check(property, value, old, &Path::Field(path, name), problems);
                } else if let Some(values) = &node.values {
                    check(values, value, old, &Path::Key(path, name), problems);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    junctors(node, value, path, problems);
}

struct Here<'a> {
    path: &'a Path<'a>,
    problems: &'a mut Vec<Problem>,
}

/// What Kubernetes calls a value's type.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Here<'_> {
    fn invalid(&mut self, value: &Value, why: &str) {
        let place = self.path.dotted();
        let why = format!("{place} in body {why}");
        self.problems.push(Problem::invalid(&place, value, &why));
    }

    fn wrong_type(&mut self, expected: &str, value: &str) {
        let place = self.path.dotted();
        let why = format!("{place} in body must be of type {expected}: {value:?}");
        self.problems.push(Problem::type_invalid(&place, value, &why));
    }

    fn kind(&mut self, node: &Node, value: &Value) {
        let actual = type_of(value);
        let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let fits = match (node.kind, value) {
            _ if value.is_null() && node.nullable => true,
            (_, Value::Number(_)) if node.int_or_string => whole,
            _ if node.int_or_string => actual == "string",
            (None, _) => return,
            (Some(Kind::Integer), Value::Number(_)) => whole,
            (Some(Kind::Number), Value::Number(_)) => true,
            (Some(kind), _) => kind.name() == actual,
        };
        if !fits {
            let expected = node.kind.map_or("integer,string", Kind::name);
            self.wrong_type(expected, actual);
        }
    }

    fn allowed(&mut self, node: &Node, value: &Value) {
        let allowed = &node.checks.allowed;
        let equal = |one: &Value| match (one.as_f64(), value.as_f64()) {
            (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
            _ => one == value,
        };
        if !allowed.is_empty() && !allowed.iter().any(equal) {
            self.problems.push(Problem::not_supported(&self.path.dotted(), value, allowed));
        }
    }

    fn text(&mut self, node: &Node, text: &str) {
        let checks = &node.checks;
        let length = text.chars().count() as u64;
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            self.problems.push(Problem::too_long(&self.path.dotted(), max));
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            self.invalid(&text.into(), &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.invalid(&text.into(), &format!("should match '{pattern}'"));
        }
        if let Some(name) = checks.format.as_deref().filter(|name| !format::fits(name, text)) {
            self.wrong_type(name, text);
        }
    }

    fn number(&mut self, node: &Node, value: &Value) {
        let checks = &node.checks;
        let Some(number) = value.as_f64() else { return };
        if let Some(max) = checks.maximum {
            if number > max && !checks.exclusive_maximum {
                self.invalid(value, &format!("should be less than or equal to {}", go_float(max)));
            } else if number >= max && checks.exclusive_maximum {
                self.invalid(value, &format!("should be less than {}", go_float(max)));
            }
        }
        if let Some(min) = checks.minimum {
            if number < min && !checks.exclusive_minimum {
                let why = format!("should be greater than or equal to {}", go_float(min));
                self.invalid(value, &why);
            } else if number <= min && checks.exclusive_minimum {
                self.invalid(value, &format!("should be greater than {}", go_float(min)));
            }
        }
        if let Some(factor) = checks.multiple_of.filter(|factor| (number / factor).fract() != 0.0) {
            self.invalid(value, &format!("should be a multiple of {}", go_float(factor)));
        }
    }

    fn array(&mut self, node: &Node, list: &[Value]) {
        let length = list.len();
        if let Some(max) = node.checks.max_items.filter(|max| length as u64 > *max) {
            self.problems.push(Problem::too_many(&self.path.dotted(), length, max));
        }
        if let Some(min) = node.checks.min_items.filter(|min| (length as u64) < *min) {
            self.invalid(&length.into(), &format!("should have at least {min} items"));
        }
    }

    fn object(&mut self, node: &Node, map: &Map<String, Value>) {
        let length = map.len();
        if let Some(max) = node.checks.max_properties.filter(|max| length as u64 > *max) {
            self.problems.push(Problem::too_many(&self.path.dotted(), length, max));
        }
        if let Some(min) = node.checks.min_properties.filter(|min| (length as u64) < *min) {
            self.invalid(&length.into(), &format!("should have at least {min} properties"));
        }
        for name in node.required.iter().filter(|name| !map.contains_key(*name)) {
            let place = Path::Field(self.path, name).dotted();
            self.problems.push(Problem::required(&place, ""));
        }
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`. Upstream gives these problems no field.
fn junctors(node: &Node, value: &Value, path: &Path<'_>, problems: &mut Vec<Problem>) {
    let place = path.dotted();
    let complain = |problems: &mut Vec<Problem>, why: &str| {
        problems.push(Problem::invalid(&"<nil>", &"".into(), &format!("{place:?} {why}")));
    };
    let failures = |branch: &Node| {
        let mut found = Vec::new();
        check(branch, value, None, path, &mut found);
        found
    };
    if !node.any_of.is_empty() {
        let found: Vec<_> = node.any_of.iter().map(failures).collect();
        if found.iter().all(|found| !found.is_empty()) {
            complain(problems, "must validate at least one schema (anyOf)");
            problems.extend(found.into_iter().min_by_key(Vec::len).into_iter().flatten());
        }
    }
    if !node.one_of.is_empty() {
        let found: Vec<_> = node.one_of.iter().map(failures).collect();
        match found.iter().filter(|found| found.is_empty()).count() {
            1 => {}
            0 => {
                let why = "must validate one and only one schema (oneOf). Found none valid";
                complain(problems, why);
                problems.extend(found.into_iter().min_by_key(Vec::len).into_iter().flatten());
            }
            valid => complain(
                problems,
                &format!(
                    "must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                ),
            ),
        }
    }
    if !node.all_of.is_empty() {
        let found: Vec<_> = node.all_of.iter().map(failures).collect();
        let failed = found.iter().filter(|found| !found.is_empty()).count();
        problems.extend(found.into_iter().flatten());
        if failed > 0 {
            let none = if failed == node.all_of.len() { ". None validated" } else { "" };
            complain(problems, &format!("must validate all the schemas (allOf){none}"));
        }
    }
    if node.not.as_ref().is_some_and(|not| failures(not).is_empty()) {
        complain(problems, "must not validate the schema (not)");
    }
}
