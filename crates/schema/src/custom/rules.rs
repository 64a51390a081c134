//! CEL rules, evaluated with kube-cel.
//!
//! Numbers and field names come to CEL as Kubernetes gives them: integers are int whatever their
//! sign, numbers double, and names that CEL cannot say are escaped
//! (k8s.io/apiserver `pkg/cel/escaping.go`).

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Map as CelMap, OptionalValue, Value as CelValue};
use kube_cel::cel::{Context, ExecutionError, Program};
use serde_json::Value;

use super::node::{Kind, Node, Rule};
use super::path::Path;
use super::problem::Problem;
use super::regex;

thread_local! {
    /// CEL with Kubernetes' functions: it takes long to build and cannot be shared.
    static FUNCTIONS: Context<'static> = {
        let mut functions = Context::default().with_all();
        regex::install(&mut functions);
        functions
    };
    static TIMESTAMP: Option<Program> = Program::compile("timestamp(self)").ok();
    static DURATION: Option<Program> = Program::compile("duration(self)").ok();
}

/// Lends CEL with Kubernetes' functions.
pub(crate) fn with_functions<T>(f: impl FnOnce(&Context<'static>) -> T) -> T {
    FUNCTIONS.with(f)
}

/// A value without a schema as CEL has it.
pub(crate) fn plain(functions: &Context<'_>, value: &Value) -> CelValue {
    to_cel(functions, None, value)
}

/// Evaluates the rules here and below.
pub(super) fn check(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    problems: &mut Vec<Problem>,
) {
    // Rules are about values; a null that the schema allows has none.
    if !node.has_rules || value.is_null() {
        return;
    }
    if !node.rules.is_empty() {
        FUNCTIONS.with(|functions| evaluate(functions, node, value, old, path, problems));
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let old = old.and_then(|old| old.get(name));
                if let Some(property) = node.properties.get(name) {
                    check(property, value, old, &Path::Field(path, name), problems);
                } else if let Some(values) = &node.values {
                    check(values, value, old, &Path::Key(path, name), problems);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (index, element) in list.iter().enumerate() {
                    let old = node.counterpart(element, old);
                    check(items, element, old, &Path::Index(path, index), problems);
                }
            }
        }
        _ => {}
    }
}

fn evaluate(
    functions: &Context<'_>,
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    problems: &mut Vec<Problem>,
) {
    let unchanged = old == Some(value);
    let is_due = |rule: &&Rule| match rule.uses_old {
        true => old.is_some() || rule.optional_old,
        false => !unchanged,
    };
    let mut due = node.rules.iter().filter(is_due).peekable();
    if due.peek().is_none() {
        return;
    }
    let mut scope = functions.new_inner_scope();
    scope.add_variable_from_value("self", to_cel(functions, Some(node), value));
    let old = old.map(|old| to_cel(functions, Some(node), old));
    for rule in due {
        let mut scope = scope.new_inner_scope();
        match &old {
            old if rule.optional_old => {
                let old = old.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                scope.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(old)));
            }
            Some(old) => scope.add_variable_from_value("oldSelf", old.clone()),
            None => {}
        }
        problems.extend(outcome(rule, node, value, &scope, path));
    }
}

/// The problem that a rule finds.
fn outcome(
    rule: &Rule,
    node: &Node,
    value: &Value,
    scope: &Context<'_>,
    path: &Path<'_>,
) -> Option<Problem> {
    let said = if rule.message.is_empty() { &rule.text } else { &rule.message };
    let wrong = |why: String| {
        let kind = node.kind.map_or("", Kind::name);
        Some(Problem::invalid(path, &kind.into(), &why))
    };
    match rule.program.execute(scope) {
        Ok(CelValue::Bool(true)) => return None,
        Ok(CelValue::Bool(false)) => {}
        Ok(_) => return wrong(format!("rule must evaluate to a bool: {said}")),
        // As Kubernetes' CEL says it.
        Err(ExecutionError::NoSuchKey(key)) => {
            return wrong(format!("no such key: {key} evaluating rule: {said}"));
        }
        Err(error) => return wrong(format!("{error} evaluating rule: {said}")),
    }
    let computed = rule.message_program.as_ref().and_then(|program| {
        match program.execute(scope) {
            Ok(CelValue::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        }
        .filter(|text| !text.is_empty() && !text.contains('\n'))
    });
    let message = match computed {
        Some(text) => text,
        None if rule.message.is_empty() => format!("failed rule: {}", rule.text),
        None => rule.message.clone(),
    };
    let place = match &rule.field_path {
        Some(inner) if path.is_root() => inner.clone(),
        Some(inner) => format!("{path}.{inner}"),
        None => path.to_string(),
    };
    let omit = matches!(node.kind, Some(Kind::Object | Kind::Array));
    Some(match rule.reason.as_deref() {
        Some("FieldValueForbidden") => Problem::forbidden(&place, &message),
        Some("FieldValueRequired") => Problem::required(&place, &message),
        Some("FieldValueDuplicate") if omit => {
            Problem::new(&place, "FieldValueDuplicate", "Duplicate value".to_owned())
        }
        Some("FieldValueDuplicate") => Problem::duplicate(&place, value),
        _ if omit => Problem::new(&place, "FieldValueInvalid", format!("Invalid value: {message}")),
        _ => Problem::invalid(&place, value, &message),
    })
}

fn to_cel(functions: &Context<'_>, node: Option<&Node>, value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) if node.and_then(|node| node.kind) != Some(Kind::Number) => {
                CelValue::Int(integer)
            }
            _ => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => text_to_cel(functions, node, text),
        Value::Array(list) => {
            let items = node.and_then(|node| node.items.as_deref());
            CelValue::List(Arc::new(
                list.iter().map(|element| to_cel(functions, items, element)).collect(),
            ))
        }
        Value::Object(map) => {
            let is_map = node.is_none_or(|node| node.values.is_some());
            let entries = map.iter().map(|(name, value)| {
                let name = if is_map { name.clone() } else { escaped(name) };
                let child = node.and_then(|node| node.child(&name));
                (name.into(), to_cel(functions, child, value))
            });
            CelValue::Map(CelMap { map: Arc::new(entries.collect()) })
        }
    }
}

/// Text, or what its format says that it is.
fn text_to_cel(functions: &Context<'_>, node: Option<&Node>, text: &str) -> CelValue {
    let plain = || CelValue::String(Arc::new(text.to_owned()));
    let convert = |program: &'static std::thread::LocalKey<Option<Program>>| {
        let mut scope = functions.new_inner_scope();
        scope.add_variable_from_value("self", plain());
        let converted =
            program.with(|program| program.as_ref().map(|program| program.execute(&scope)));
        converted.and_then(Result::ok).unwrap_or_else(plain)
    };
    match node.and_then(|node| node.checks.format.as_deref()) {
        Some("date-time") => convert(&TIMESTAMP),
        Some("duration") => convert(&DURATION),
        _ => plain(),
    }
}

const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field's name as CEL says it.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
