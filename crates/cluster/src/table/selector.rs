//! Labels and selectors as text.

use serde_json::Value;

use super::list;

/// `a=b,c=d`; `<none>` without any.
pub(super) fn labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",") }
}

/// A label selector, its requirements by key: `app=web,tier in (a,b),!old`. Empty if it is.
pub(super) fn selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for requirement in list(&selector["matchExpressions"]) {
        let key = requirement["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            list(&requirement["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match requirement["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort();
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

/// As [`selector`], `<none>` if it is empty.
pub(super) fn selector_or_none(of: &Value) -> String {
    let text = selector(of);
    if text.is_empty() { "<none>".into() } else { text }
}
