//! What a ValidatingAdmissionPolicy says of a request: CEL expressions, compiled once.
//!
//! Source: k8s.io/apiserver `pkg/admission/plugin/policy/validating/`, `pkg/admission/plugin/cel/`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::objects::{Map as CelMap, Value as CelValue};
use kube_cel::cel::{Context, Program};
use serde_json::Value;

use crate::custom::rules;

/// The expressions of a policy.
#[derive(Debug)]
pub struct Policy {
    conditions: Vec<(String, Program)>,
    variables: Vec<(String, Program)>,
    validations: Vec<Validation>,
}

#[derive(Debug)]
struct Validation {
    text: String,
    program: Program,
    message: String,
    message_program: Option<Program>,
    reason: Option<String>,
}

/// An expression that is no CEL, or is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where: `spec.validations[0].expression`.
    pub field: String,
    /// The expression.
    pub text: String,
    /// What is wrong with it; empty if it is not there.
    pub why: String,
}

/// What expressions see; null is what there is not.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The object as it would be.
    pub object: &'a Value,
    /// The object as it is.
    pub old: &'a Value,
    /// An `AdmissionRequest` without its objects.
    pub request: &'a Value,
    /// The policy's parameters.
    pub params: &'a Value,
    /// The namespace of the object.
    pub namespace: &'a Value,
}

/// A validation that says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub message: String,
    /// The reason that the policy gives, `Forbidden` for example.
    pub reason: Option<String>,
}

impl Policy {
    /// Compiles the `spec` of a policy.
    ///
    /// # Errors
    ///
    /// Every expression that is no CEL.
    pub fn compile(spec: &Value) -> Result<Self, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let mut compile = |field: String, value: &Value| {
            let text = value.as_str().unwrap_or("").trim();
            let why = match Program::compile(text) {
                _ if text.is_empty() => String::new(),
                Ok(program) => return Some(program),
                Err(error) => format!("compilation failed: {error}"),
            };
            mistakes.push(Mistake { field, text: text.to_owned(), why });
            None
        };
        let list = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut named = |name: &str| -> Vec<(String, Program)> {
            let compiled = list(name).iter().enumerate().filter_map(|(index, entry)| {
                let field = format!("spec.{name}[{index}].expression");
                let name = entry["name"].as_str().unwrap_or_default().to_owned();
                Some((name, compile(field, &entry["expression"])?))
            });
            compiled.collect()
        };
        let (conditions, variables) = (named("matchConditions"), named("variables"));
        let mut validations = Vec::new();
        for (index, entry) in list("validations").iter().enumerate() {
            let field = |name: &str| format!("spec.validations[{index}].{name}");
            let program = compile(field("expression"), &entry["expression"]);
            let message_program = match &entry["messageExpression"] {
                Value::String(text) if !text.is_empty() => {
                    compile(field("messageExpression"), &entry["messageExpression"])
                }
                _ => None,
            };
            let text = |name: &str| entry[name].as_str().unwrap_or_default().trim().to_owned();
            let Some(program) = program else { continue };
            validations.push(Validation {
                text: text("expression"),
                program,
                message: text("message"),
                message_program,
                reason: Some(text("reason")).filter(|reason| !reason.is_empty()),
            });
        }
        if mistakes.is_empty() {
            Ok(Self { conditions, variables, validations })
        } else {
            Err(mistakes)
        }
    }

    /// What it has against a request; nothing if it is not concerned.
    ///
    /// # Errors
    ///
    /// If an expression cannot be evaluated: the policy's `failurePolicy` says what that means.
    pub fn check(&self, request: &Request<'_>) -> Result<Vec<Denial>, String> {
        rules::with_functions(|functions| self.check_with(functions, request))
    }

    fn check_with(
        &self,
        functions: &Context<'_>,
        request: &Request<'_>,
    ) -> Result<Vec<Denial>, String> {
        let mut scope = functions.new_inner_scope();
        for (name, value) in [
            ("object", request.object),
            ("oldObject", request.old),
            ("request", request.request),
            ("params", request.params),
            ("namespaceObject", request.namespace),
        ] {
            scope.add_variable_from_value(name, rules::plain(functions, value));
        }
        for (name, condition) in &self.conditions {
            match condition.execute(&scope) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => return Ok(Vec::new()),
                Ok(_) => return Err(format!("match condition {name:?} is no bool")),
                Err(error) => return Err(format!("match condition {name:?}: {error}")),
            }
        }
        // One that cannot be evaluated is missed by whoever asks for it.
        let mut variables = BTreeMap::new();
        for (name, variable) in &self.variables {
            let mut inner = scope.new_inner_scope();
            inner.add_variable_from_value("variables", map(&variables));
            if let Ok(value) = variable.execute(&inner) {
                variables.insert(name.clone(), value);
            }
        }
        scope.add_variable_from_value("variables", map(&variables));
        let mut denials = Vec::new();
        for validation in &self.validations {
            let text = &validation.text;
            match validation.program.execute(&scope) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => denials.push(Denial {
                    message: validation.message(&scope),
                    reason: validation.reason.clone(),
                }),
                Ok(_) => return Err(format!("expression '{text}' is no bool")),
                Err(error) => {
                    return Err(format!("expression '{text}' resulted in error: {error}"));
                }
            }
        }
        Ok(denials)
    }
}

impl Validation {
    fn message(&self, scope: &Context<'_>) -> String {
        let computed = self.message_program.as_ref().and_then(|program| {
            match program.execute(scope) {
                Ok(CelValue::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            }
            .filter(|text| !text.is_empty() && !text.contains('\n'))
        });
        computed.unwrap_or_else(|| match self.message.as_str() {
            "" => format!("failed expression: {}", self.text),
            message => message.to_owned(),
        })
    }
}

fn map(values: &BTreeMap<String, CelValue>) -> CelValue {
    let entries = values.iter().map(|(name, value)| (name.clone().into(), value.clone()));
    CelValue::Map(CelMap { map: Arc::new(entries.collect()) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: &Value, object: &Value) -> Result<Vec<Denial>, String> {
        let policy = Policy::compile(spec).unwrap();
        let request = json!({"operation": "CREATE"});
        let none = Value::Null;
        let (old, params, namespace) = (&none, &none, &none);
        policy.check(&Request { object, old, request: &request, params, namespace })
    }

    #[test]
    fn a_validation_that_is_false_denies() {
        let spec = json!({"validations": [{
            "expression": "has(object.metadata.labels.registration) ? \
                           object.metadata.labels['registration'] != 'fail' : true",
        }]});
        let node = |labels: Value| json!({"metadata": {"labels": labels}});
        assert_eq!(check(&spec, &node(json!({"a": "b"}))), Ok(Vec::new()));
        let denials = check(&spec, &node(json!({"registration": "fail"}))).unwrap();
        assert!(denials[0].message.starts_with("failed expression: has("), "{denials:?}");
    }

    #[test]
    fn conditions_variables_and_messages() {
        let spec = json!({
            "matchConditions": [{"name": "big", "expression": "object.size > 3"}],
            "variables": [
                {"name": "double", "expression": "object.size * 2"},
                {"name": "more", "expression": "variables.double + 1"},
            ],
            "validations": [{
                "expression": "variables.more < 10",
                "messageExpression": "string(variables.more) + ' is too much'",
                "reason": "Forbidden",
            }],
        });
        assert_eq!(check(&spec, &json!({"size": 1})), Ok(Vec::new()));
        assert_eq!(check(&spec, &json!({"size": 4})), Ok(Vec::new()));
        let denial =
            Denial { message: "13 is too much".to_owned(), reason: Some("Forbidden".to_owned()) };
        assert_eq!(check(&spec, &json!({"size": 6})), Ok(vec![denial]));
        let error = check(&spec, &json!({})).unwrap_err();
        assert!(error.starts_with("match condition \"big\": "), "{error}");
    }

    #[test]
    fn what_is_no_cel_is_named() {
        let spec = json!({
            "matchConditions": [{"name": "x", "expression": ""}],
            "validations": [{"expression": "object.+"}],
        });
        let mistakes = Policy::compile(&spec).unwrap_err();
        let fields: Vec<&str> = mistakes.iter().map(|mistake| mistake.field.as_str()).collect();
        assert_eq!(
            fields,
            ["spec.matchConditions[0].expression", "spec.validations[0].expression"]
        );
        assert!(mistakes[0].why.is_empty() && !mistakes[1].why.is_empty());
    }
}
