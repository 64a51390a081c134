//! From a CRD's schema to nodes, with the checks for being structural.

use kube_cel::cel::Program;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::node::{Checks, Kind, List, Node, Rule};
use super::path::Path;
use super::problem::Problem;
use super::{lists, values};

/// Nesting that is refused.
const MAX_DEPTH: usize = 64;

/// Keywords that a schema must not have inside `allOf`, `anyOf`, `oneOf` and `not`.
const NOT_NESTED: &[(&str, &str)] = &[
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
    /// Inside `allOf` and the like.
    Nested,
}

/// Compiles the schema of an object.
pub(super) fn root(schema: &Value) -> Result<Node, Vec<Problem>> {
    let mut compiler = Compiler { problems: Vec::new() };
    let mut node = compiler.node(schema, Level::Root, &Path::Root, 0);
    node.embedded = true;
    if compiler.problems.is_empty() { Ok(node) } else { Err(compiler.problems) }
}

struct Compiler {
    problems: Vec<Problem>,
}

impl Compiler {
    fn node(&mut self, schema: &Value, level: Level, path: &Path<'_>, depth: usize) -> Node {
        let Value::Object(schema) = schema else {
            self.problems.push(Problem::invalid(path, schema, "a schema must be an object"));
            return Node::default();
        };
        if depth > MAX_DEPTH {
            let why = format!("schemas must not be nested deeper than {MAX_DEPTH}");
            self.problems.push(Problem::forbidden(path, &why));
            return Node::default();
        }
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let mut node = Node {
            kind: self.kind(schema, path),
            int_or_string: flag("x-kubernetes-int-or-string"),
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            required: texts(schema.get("required")),
            checks: self.checks(schema, path),
            list: list_type(schema),
            ..Node::default()
        };
        let inner = if level == Level::Nested { Level::Nested } else { Level::Field };
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let place = Path::Field(path, "properties");
            for (name, property) in properties {
                let compiled = self.node(property, inner, &Path::Key(&place, name), depth + 1);
                node.properties.insert(name.clone(), compiled);
            }
        }
        match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => {
                let anything = Node { preserve_unknown: true, ..Node::default() };
                node.values = Some(Box::new(anything));
            }
            Some(values @ Value::Object(_)) => {
                let place = Path::Field(path, "additionalProperties");
                node.values = Some(Box::new(self.node(values, inner, &place, depth + 1)));
            }
            _ => {}
        }
        if let Some(items) = schema.get("items") {
            let item = if level == Level::Nested { Level::Nested } else { Level::Item };
            let place = Path::Field(path, "items");
            node.items = Some(Box::new(self.node(items, item, &place, depth + 1)));
        }
        self.junctors(schema, &mut node, path, depth);
        if level == Level::Nested {
            self.check_nested(schema, path);
        } else {
            self.check_structural(schema, &node, level, path);
            node.rules = self.rules(schema, path);
            self.check_default(&node, path);
        }
        let below = node.properties.values().chain(node.values.as_deref());
        node.has_rules = !node.rules.is_empty()
            || below.chain(node.items.as_deref()).any(|child| child.has_rules);
        node
    }

    fn kind(&mut self, schema: &Map<String, Value>, path: &Path<'_>) -> Option<Kind> {
        let name = schema.get("type")?;
        let kind = name.as_str().and_then(Kind::named);
        if kind.is_none() && name != "" {
            let known = ["array", "boolean", "integer", "number", "object", "string"];
            let known = known.map(Value::from);
            let place = Path::Field(path, "type");
            self.problems.push(Problem::not_supported(&place, name, &known));
        }
        kind
    }

    fn checks(&mut self, schema: &Map<String, Value>, path: &Path<'_>) -> Checks {
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let pattern = schema.get("pattern").and_then(Value::as_str).filter(|text| !text.is_empty());
        let pattern = pattern.and_then(|text| match Regex::new(text) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                let why = format!("must be a valid regular expression, but isn't: {error}");
                let place = Path::Field(path, "pattern");
                self.problems.push(Problem::invalid(&place, &text.into(), &why));
                None
            }
        });
        Checks {
            format: schema.get("format").and_then(Value::as_str).map(str::to_owned),
            allowed: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern,
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        }
    }

    fn junctors(
        &mut self,
        schema: &Map<String, Value>,
        node: &mut Node,
        path: &Path<'_>,
        depth: usize,
    ) {
        let mut branches = |name: &str| -> Vec<Node> {
            // The one use of `type` that is allowed inside: to say int-or-string.
            let either = json!([{ "type": "integer" }, { "type": "string" }]);
            let listed = schema.get(name).and_then(Value::as_array);
            if node.int_or_string && name == "anyOf" && schema.get(name) == Some(&either) {
                return Vec::new();
            }
            let place = Path::Field(path, name);
            let listed = listed.into_iter().flatten().enumerate();
            listed
                .filter(|(_, branch)| !(node.int_or_string && branch.get("anyOf") == Some(&either)))
                .map(|(index, branch)| {
                    self.node(branch, Level::Nested, &Path::Index(&place, index), depth + 1)
                })
                .collect()
        };
        node.all_of = branches("allOf");
        node.any_of = branches("anyOf");
        node.one_of = branches("oneOf");
        if let Some(not) = schema.get("not") {
            let place = Path::Field(path, "not");
            node.not = Some(Box::new(self.node(not, Level::Nested, &place, depth + 1)));
        }
    }

    fn check_nested(&mut self, schema: &Map<String, Value>, path: &Path<'_>) {
        for (keyword, why) in NOT_NESTED {
            let set = schema.get(*keyword).is_some_and(|value| *value != false && *value != "");
            if set {
                self.problems.push(Problem::forbidden(&Path::Field(path, keyword), why));
            }
        }
    }

    fn check_structural(
        &mut self,
        schema: &Map<String, Value>,
        node: &Node,
        level: Level,
        path: &Path<'_>,
    ) {
        let at = |name| Path::Field(path, name);
        let mut found = Vec::new();
        if node.kind == Some(Kind::Array) && node.items.is_none() {
            found.push(Problem::required(&at("items"), "must be specified"));
        }
        if node.values.is_some() {
            let place = at("additionalProperties");
            if level == Level::Root {
                found.push(Problem::forbidden(&place, "must not be used at the root"));
            }
            if schema.get("properties").is_some() {
                let why = "additionalProperties and properties are mutual exclusive";
                found.push(Problem::forbidden(&place, why));
            }
        }
        let typeless = node.kind.is_none() && schema.get("type").is_none_or(|name| name == "");
        if typeless && !node.int_or_string && !node.preserve_unknown {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field | Level::Nested => "must not be empty for specified object fields",
            };
            found.push(Problem::required(&at("type"), why));
        }
        if level == Level::Root && node.kind.is_some_and(|kind| kind != Kind::Object) {
            let kind = schema.get("type").unwrap_or(&Value::Null);
            found.push(Problem::invalid(&at("type"), kind, "must be object at the root"));
        }
        if node.embedded && node.kind != Some(Kind::Object) {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            found.push(Problem::required(&at("type"), why));
        }
        if node.int_or_string && node.preserve_unknown {
            let why = "must be false if x-kubernetes-int-or-string is true";
            let place = at("x-kubernetes-preserve-unknown-fields");
            found.push(Problem::invalid(&place, &true.into(), why));
        }
        if let List::Map(keys) = &node.list
            && keys.is_empty()
        {
            let why = "must not be empty if x-kubernetes-list-type is map";
            found.push(Problem::required(&at("x-kubernetes-list-map-keys"), why));
        }
        self.problems.append(&mut found);
    }

    /// A default must be what the schema allows.
    fn check_default(&mut self, node: &Node, path: &Path<'_>) {
        let Some(default) = &node.default else { return };
        let mut found = Vec::new();
        values::check(node, default, None, &Path::Root, &mut found);
        lists::check(node, default, &Path::Root, &mut found);
        let place = Path::Field(path, "default").to_string();
        self.problems.extend(found.into_iter().map(|mut problem| {
            problem.field = match problem.field.as_str() {
                "" | "<nil>" => place.clone(),
                field => format!("{place}.{field}"),
            };
            problem
        }));
    }

    fn rules(&mut self, schema: &Map<String, Value>, path: &Path<'_>) -> Vec<Rule> {
        let place = Path::Field(path, "x-kubernetes-validations");
        let listed = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        listed
            .into_iter()
            .flatten()
            .enumerate()
            .filter_map(|(index, rule)| self.rule(rule, &Path::Index(&place, index)))
            .collect()
    }

    fn rule(&mut self, rule: &Value, path: &Path<'_>) -> Option<Rule> {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or("").trim();
        let mut compile = |name: &'static str| match Program::compile(text(name)) {
            Ok(program) => Some(program),
            Err(error) => {
                let why = format!("compilation failed: {error}");
                let problem = Problem::invalid(&Path::Field(path, name), &text(name).into(), &why);
                self.problems.push(problem);
                None
            }
        };
        if text("rule").is_empty() {
            let place = Path::Field(path, "rule");
            self.problems.push(Problem::required(&place, "rule is not specified"));
            return None;
        }
        let program = compile("rule")?;
        let message_program = match text("messageExpression") {
            "" => None,
            _ => Some(compile("messageExpression")?),
        };
        let uses_old = program.references().has_variable("oldSelf");
        Some(Rule {
            text: text("rule").to_owned(),
            program,
            uses_old,
            optional_old: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
            message: text("message").to_owned(),
            message_program,
            reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: match text("fieldPath") {
                "" => None,
                path => Some(path.trim_start_matches('.').replace("['", "[").replace("']", "]")),
            },
        })
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list_type(schema: &Map<String, Value>) -> List {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => List::Set,
        Some("map") => List::Map(texts(schema.get("x-kubernetes-list-map-keys"))),
        _ => List::Atomic,
    }
}
