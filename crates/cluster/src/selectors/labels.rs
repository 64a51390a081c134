//! Requirements on labels.

use std::collections::BTreeSet;

use serde_json::Value;

/// All of these must hold; none at all holds for everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq)]
enum Operator {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    Greater(i64),
    Less(i64),
}

impl Labels {
    /// Reads a query: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, `a>1`,
    /// `a<1`, joined by commas.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for a 400.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let mut requirements = Vec::new();
        while !rest.is_empty() {
            let (requirement, tail) =
                requirement(rest).map_err(|why| format!("unable to parse requirement: {why}"))?;
            requirements.push(requirement);
            rest = tail.trim_start();
            if let Some(tail) = rest.strip_prefix(',') {
                rest = tail.trim_start();
                if rest.is_empty() {
                    return Err("found '', expected: identifier after ','".into());
                }
            } else if !rest.is_empty() {
                let found = token(rest);
                return Err(format!("found '{found}', expected: ',' or 'end of string'"));
            }
        }
        Ok(Self(requirements))
    }

    /// Reads a `LabelSelector` object (`matchLabels`, `matchExpressions`). An empty one holds for
    /// everything; `null` for nothing, which is `None` here.
    ///
    /// # Errors
    ///
    /// If an expression has no known operator.
    pub fn from_object(selector: &Value) -> Result<Option<Self>, String> {
        let Some(selector) = selector.as_object() else { return Ok(None) };
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        for (key, value) in labels {
            let values = BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]);
            requirements.push(Requirement { key: key.clone(), operator: Operator::In(values) });
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let strings = |list: &Value| {
                let list = list.as_array().into_iter().flatten();
                list.filter_map(|value| value.as_str().map(str::to_owned)).collect()
            };
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In(strings(&expression["values"])),
                "NotIn" => Operator::NotIn(strings(&expression["values"])),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement { key, operator });
        }
        Ok(Some(Self(requirements)))
    }

    /// Whether it holds for everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it holds for these labels (`metadata.labels`; `null` for none).
    #[must_use]
    pub fn matches(&self, labels: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::Greater(bound) => number().is_some_and(|number| number > *bound),
                Operator::Less(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

/// As a query, in the order it was given; `kubectl` reads it from a Scale's `status.selector`.
impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, Requirement { key, operator }) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            f.write_str(comma)?;
            let list =
                |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values))?,
                Operator::NotIn(values) if values.len() == 1 => {
                    write!(f, "{key}!={}", list(values))?;
                }
                Operator::In(values) => write!(f, "{key} in ({})", list(values))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
                Operator::Greater(bound) => write!(f, "{key}>{bound}")?,
                Operator::Less(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

/// The next requirement, and what follows it.
fn requirement(text: &str) -> Result<(Requirement, &str), String> {
    if let Some(rest) = text.strip_prefix('!') {
        let (key, rest) = word(rest.trim_start());
        return Ok((
            Requirement { key: checked_key(key)?, operator: Operator::DoesNotExist },
            rest,
        ));
    }
    let (key, rest) = word(text);
    let key = checked_key(key)?;
    let rest = rest.trim_start();
    let one = |rest: &str| -> Result<(BTreeSet<String>, usize), String> {
        let (value, after) = word(rest.trim_start());
        Ok((BTreeSet::from([checked_value(value)?]), after.len()))
    };
    let number = |rest: &str, symbol: &str| -> Result<(i64, usize), String> {
        let (value, after) = word(rest.trim_start());
        let parsed = value.parse().map_err(|_| {
            format!("for 'Gt', 'Lt' operators, the value must be an integer: {symbol}{value}")
        })?;
        Ok((parsed, after.len()))
    };
    let (operator, left) = if let Some(rest) = rest.strip_prefix("==") {
        let (values, left) = one(rest)?;
        (Operator::In(values), left)
    } else if let Some(rest) = rest.strip_prefix("!=") {
        let (values, left) = one(rest)?;
        (Operator::NotIn(values), left)
    } else if let Some(rest) = rest.strip_prefix('=') {
        let (values, left) = one(rest)?;
        (Operator::In(values), left)
    } else if let Some(rest) = rest.strip_prefix('>') {
        let (bound, left) = number(rest, ">")?;
        (Operator::Greater(bound), left)
    } else if let Some(rest) = rest.strip_prefix('<') {
        let (bound, left) = number(rest, "<")?;
        (Operator::Less(bound), left)
    } else {
        match word(rest) {
            ("in", after) => {
                let (values, left) = list(after)?;
                (Operator::In(values), left)
            }
            ("notin", after) => {
                let (values, left) = list(after)?;
                (Operator::NotIn(values), left)
            }
            ("", _) => (Operator::Exists, rest.len()),
            (other, _) => {
                return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        }
    };
    Ok((Requirement { key, operator }, &text[text.len() - left..]))
}

/// `(a, b)`: the values, and how many bytes follow.
fn list(text: &str) -> Result<(BTreeSet<String>, usize), String> {
    let inner = text
        .trim_start()
        .strip_prefix('(')
        .ok_or_else(|| format!("found '{}' expected: '('", text.trim_start()))?;
    let end = inner.find(')').ok_or("found '', expected: ',' or ')'")?;
    let values =
        inner[..end].split(',').map(str::trim).map(checked_value).collect::<Result<_, _>>()?;
    Ok((values, inner.len() - end - 1))
}

/// The word or symbol that `text` begins with.
fn token(text: &str) -> &str {
    match word(text).0 {
        "" => &text[..text.chars().next().map_or(0, char::len_utf8)],
        word => word,
    }
}

fn word(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, '=' | '!' | '<' | '>' | ',' | '(' | ')'))
        .unwrap_or(text.len());
    text.split_at(end)
}

fn checked_key(key: &str) -> Result<String, String> {
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
    let named = !name.is_empty() && name.len() <= 63 && name_like(name);
    let prefixed = prefix.is_empty()
        || (prefix.len() <= 253
            && prefix
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.'));
    if key.is_empty() {
        return Err("found '', expected: !, identifier, or ','".into());
    }
    if !named || !prefixed || key.starts_with('/') {
        return Err(format!(
            "<nil>: Invalid value: {key:?}: name part must consist of alphanumeric characters, \
             '-', '_' or '.', and must start and end with an alphanumeric character"
        ));
    }
    Ok(key.to_owned())
}

fn checked_value(value: &str) -> Result<String, String> {
    if value.len() > 63 {
        return Err(format!("values[0]: Invalid value: {value:?}: must be no more than 63 bytes"));
    }
    if !value.is_empty() && !name_like(value) {
        return Err(format!(
            "values[0]: Invalid value: {value:?}: a valid label must be an empty string or consist \
             of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character"
        ));
    }
    Ok(value.to_owned())
}

fn name_like(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|b| b.is_ascii_alphanumeric()))
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(query: &str, labels: &Value) -> bool {
        Labels::parse(query).expect(query).matches(labels)
    }

    #[test]
    fn each_operator_matches_what_kubernetes_says() {
        let labels = json!({"app": "web", "tier": "a", "size": "5"});
        for query in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "zone!=a",
            "app in (web, db)",
            "tier notin (b)",
            "app",
            "!zone",
            "size>4",
            "size<6",
            "app = web , tier in (a,b),!x/y",
            "eks.amazonaws.com/class notin (a)",
        ] {
            assert!(matches(query, &labels), "{query}");
        }
        for query in [
            "app=db",
            "app!=web",
            "app notin (web)",
            "zone",
            "!app",
            "size>5",
            "zone=",
            "zone in (a)",
        ] {
            assert!(!matches(query, &labels), "{query}");
        }
        assert!(!matches("app", &Value::Null));
    }

    #[test]
    fn a_broken_query_is_refused() {
        for query in
            ["app=web,", "app in web", "app in (a", "=x", "a b", "a=b c", "a>b", "-a", "a=-"]
        {
            assert!(Labels::parse(query).is_err(), "{query}");
        }
        let why = Labels::parse("a=b=c").unwrap_err();
        assert_eq!(why, "found '=', expected: ',' or 'end of string'");
    }

    #[test]
    fn an_object_and_its_query_agree() {
        let object = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        let labels = Labels::from_object(&object).unwrap().unwrap();
        assert_eq!(labels.to_string(), "app=web,tier in (a,b),!old");
        assert_eq!(Labels::parse(&labels.to_string()), Ok(labels));
        assert_eq!(Labels::from_object(&Value::Null), Ok(None));
        assert!(Labels::from_object(&json!({})).unwrap().unwrap().matches(&Value::Null));
    }
}
