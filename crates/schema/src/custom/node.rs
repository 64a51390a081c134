//! A compiled schema.

use std::collections::BTreeMap;

use kube_cel::cel::Program;
use regex::Regex;
use serde_json::Value;

/// One place in a schema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// `type`; `None` for any.
    pub kind: Option<Kind>,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `nullable`.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`; always for the root.
    pub embedded: bool,
    /// `properties`.
    pub properties: BTreeMap<String, Node>,
    /// `additionalProperties`; a node that allows everything for `true`.
    pub values: Option<Box<Node>>,
    /// `items`.
    pub items: Option<Box<Node>>,
    /// `default`.
    pub default: Option<Value>,
    /// `required`.
    pub required: Vec<String>,
    /// `x-kubernetes-list-type`.
    pub list: List,
    /// Checks of the value itself.
    pub checks: Checks,
    /// `allOf`.
    pub all_of: Vec<Node>,
    /// `anyOf`.
    pub any_of: Vec<Node>,
    /// `oneOf`.
    pub one_of: Vec<Node>,
    /// `not`.
    pub not: Option<Box<Node>>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// Whether there are rules here or below.
    pub has_rules: bool,
}

/// A JSON Schema type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// How a list's elements are told apart.
#[derive(Debug, Default)]
pub(super) enum List {
    /// Not at all.
    #[default]
    Atomic,
    /// By themselves.
    Set,
    /// By these fields.
    Map(Vec<String>),
}

/// Checks of a value by itself.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub format: Option<String>,
    pub allowed: Vec<Value>,
    pub pattern: Option<Regex>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
}

/// A CEL rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// The expression's text.
    pub text: String,
    /// The expression.
    pub program: Program,
    /// Whether it says something of a transition.
    pub uses_old: bool,
    /// `optionalOldSelf`.
    pub optional_old: bool,
    /// `message`.
    pub message: String,
    /// `messageExpression`.
    pub message_program: Option<Program>,
    /// `reason`.
    pub reason: Option<String>,
    /// `fieldPath` without its leading dot.
    pub field_path: Option<String>,
}

impl Node {
    /// The schema of a field or key.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.values.as_deref())
    }

    /// The element of `old` that corresponds to an element of a list, if elements have keys.
    pub fn counterpart<'a>(&self, element: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let List::Map(keys) = &self.list else { return None };
        old?.as_array()?.iter().find(|other| self.same_keys(keys, element, other))
    }

    fn same_keys(&self, keys: &[String], one: &Value, other: &Value) -> bool {
        keys.iter().all(|key| self.key(key, one) == self.key(key, other))
    }

    /// A key of an element of this list, or its default.
    pub fn key<'a>(&'a self, key: &str, element: &'a Value) -> Option<&'a Value> {
        let default = || self.items.as_ref()?.properties.get(key)?.default.as_ref();
        element.get(key).or_else(default)
    }
}

impl Kind {
    /// Its name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// By its name in a schema.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}
