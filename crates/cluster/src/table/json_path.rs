//! The part of JSONPath that CustomResourceDefinitions use.
//!
//! `.spec.weight`, `.spec.template.spec['a.b']`, `.metadata.labels.karpenter\.sh/nodepool`,
//! `.spec.list[0].x`, `.spec.list[-1]`, `.spec.list[*].x`,
//! `.status.conditions[?(@.type=="Ready")].status`. Syntax: client-go `util/jsonpath`.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// A field of an object.
    Field(String),
    /// An element of a list; from its end if negative.
    Index(i64),
    /// All elements of a list, or fields of an object.
    All,
    /// Those elements where a field compares like that.
    Filter { path: JsonPath, equal: bool, value: Value },
}

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end =
                    closing(after).ok_or_else(|| format!("unterminated array in {text:?}"))?;
                steps.push(bracket(&after[..end]).ok_or_else(|| {
                    format!("unsupported array index or filter [{}] in {text:?}", &after[..end])
                })?);
                rest = &after[end + 1..];
                continue;
            }
            let after = rest.strip_prefix('.').unwrap_or(rest);
            if after.starts_with('.') {
                return Err(format!("recursive descent (..) in {text:?} is not supported"));
            }
            let (name, end) = field(after);
            if name == "*" {
                steps.push(Step::All);
            } else if !name.is_empty() {
                steps.push(Step::Field(name));
            } else if !after.starts_with('[') && !after.is_empty() {
                return Err(format!("unexpected character in {text:?}"));
            }
            rest = &after[end..];
        }
        Ok(Self(steps))
    }

    /// Everything that the path leads to; nothing if something on the way is missing.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.take(value)).collect();
        }
        found
    }
}

impl Step {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index).ok().and_then(|index| list.get(index)).into_iter().collect()
            }
            Self::All => match value {
                Value::Array(list) => list.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            },
            Self::Filter { path, equal, value: wanted } => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let matches = |element: &&Value| {
                    path.find(element).first().is_some_and(|found| (*found == wanted) == *equal)
                };
                list.iter().filter(matches).collect()
            }
        }
    }
}

/// A field name up to the next `.` or `[`, backslashes taken away, and where it ends.
fn field(text: &str) -> (String, usize) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, at),
            c => name.push(c),
        }
    }
    (name, text.len())
}

/// Where the bracket closes, strings and nested brackets skipped.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// What stands between brackets.
fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return filter(condition);
    }
    if let Some(name) = quoted(text) {
        return Some(Step::Field(name.to_owned()));
    }
    text.parse().ok().map(Step::Index)
}

fn filter(condition: &str) -> Option<Step> {
    let (left, right, equal) = if let Some((left, right)) = condition.split_once("==") {
        (left, right, true)
    } else {
        let (left, right) = condition.split_once("!=")?;
        (left, right, false)
    };
    let path = JsonPath::parse(left.trim().strip_prefix('@')?).ok()?;
    let right = right.trim();
    let value = match quoted(right) {
        Some(text) => text.into(),
        None => serde_json::from_str(right).ok()?,
    };
    Some(Step::Filter { path, equal, value })
}

fn quoted(text: &str) -> Option<&str> {
    ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonPath;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "label"}},
            "spec": {"weight": 3, "list": [{"x": 1}, {"x": 2}]},
            "status": {"conditions": [
                {"type": "Synced", "status": "False", "n": 1},
                {"type": "Ready", "status": "True", "n": 2},
            ]},
        });
        for (path, expected) in [
            (".spec.weight", json!([3])),
            ("$.spec.weight", json!([3])),
            ("spec.weight", json!([3])),
            (".spec.missing.deeper", json!([])),
            (r".metadata.labels.a\.b/c", json!(["label"])),
            (".metadata.labels['a.b/c']", json!(["label"])),
            (".spec.list[0].x", json!([1])),
            (".spec.list[-1].x", json!([2])),
            (".spec.list[7].x", json!([])),
            (".spec.list[*].x", json!([1, 2])),
            (".spec.list.*.x", json!([1, 2])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type == 'Ready')].n", json!([2])),
            (".status.conditions[?(@.n!=2)].type", json!(["Synced"])),
            (r#".status.conditions[?(@.type=="Gone")].status"#, json!([])),
        ] {
            let found = JsonPath::parse(path).unwrap();
            let found: Vec<Value> = found.find(&object).into_iter().cloned().collect();
            assert_eq!(json!(found), expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for path in [".a[", ".a[x]", "..a", ".a[?(@.b>1)]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
