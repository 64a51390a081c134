//! Requirements on fields.

use std::borrow::Cow;

use serde_json::Value;

use crate::kinds::Kind;

/// All of these must hold; none at all holds for everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    field: String,
    value: String,
    equal: bool,
}

impl Fields {
    /// Reads a query: `a=b`, `a==b`, `a!=b`, joined by commas; `\` escapes a comma, an equals sign
    /// and itself in values.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for a 400: its form, or a field that `kind` cannot be asked for.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in terms(text) {
            let Some(at) = term.find(['=', '!']) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let (field, rest) = term.split_at(at);
            let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
                (false, value)
            } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
                (true, value)
            } else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !supported(kind, field) {
                return Err(format!("field label not supported: {field}"));
            }
            requirements.push(Requirement { field: field.into(), value: unescape(value), equal });
        }
        Ok(Self(requirements))
    }

    /// The requirement that `metadata.name` is `name`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(vec![Requirement { field: "metadata.name".into(), value: name.into(), equal: true }])
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// Whether it holds for everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name that an object must have, if one is asked for.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let wanted = self.0.iter().find(|r| r.equal && r.field == "metadata.name")?;
        Some(&wanted.value)
    }

    /// Whether it holds for an object.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            (field(object, &requirement.field) == requirement.value) == requirement.equal
        })
    }
}

fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..i]);
            start = i + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms.retain(|term| !term.is_empty());
    terms
}

fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}

/// Which fields a kind can be asked for. Source: kubernetes `pkg/apis/*/*/conversion.go`.
fn supported(kind: &Kind, field: &str) -> bool {
    if matches!(field, "metadata.name" | "metadata.namespace") {
        return true;
    }
    if let Some(custom) = &kind.custom {
        return custom.selectable_fields.iter().any(|known| known == field);
    }
    let fields: &[&str] = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("apps", "StatefulSet") | ("batch", "Job" | "CronJob") => &["status.successful"],
        _ => &[],
    };
    fields.contains(&field)
}

/// A field as text; what is not there is its type's zero value.
fn field<'a>(object: &'a Value, path: &str) -> Cow<'a, str> {
    let value = match path {
        "source" => {
            let component = &object["source"]["component"];
            if component.as_str().unwrap_or_default().is_empty() {
                &object["reportingComponent"]
            } else {
                component
            }
        }
        "status.successful" => &object["status"]["succeeded"],
        "status.podIPs" => &object["status"]["podIPs"][0]["ip"],
        _ => path.split('.').fold(object, |value, key| &value[key]),
    };
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed(match path {
            "spec.unschedulable" | "spec.hostNetwork" => "false",
            "status.replicas" | "status.successful" => "0",
            _ => "",
        }),
        other => Cow::Owned(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(name: &str) -> Kind {
        crate::kinds::builtin().into_iter().find(|kind| kind.kind == name).expect(name)
    }

    #[test]
    fn pods_are_found_by_node_and_phase() {
        let query = "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed";
        let fields = Fields::parse(query, &kind("Pod")).unwrap();
        assert!(
            fields.matches(&json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}))
        );
        assert!(
            !fields.matches(&json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}}))
        );
        assert!(
            !fields.matches(&json!({"spec": {"nodeName": "n2"}, "status": {"phase": "Running"}}))
        );
        assert!(!fields.matches(&json!({})));
    }

    #[test]
    fn absent_fields_have_their_zero_value() {
        let fields = Fields::parse("spec.unschedulable=false", &kind("Node")).unwrap();
        assert!(fields.matches(&json!({"spec": {}})));
        assert!(!fields.matches(&json!({"spec": {"unschedulable": true}})));
        let fields = Fields::parse("status.replicas==0", &kind("ReplicaSet")).unwrap();
        assert!(fields.matches(&json!({})) && !fields.matches(&json!({"status": {"replicas": 2}})));
    }

    #[test]
    fn unknown_fields_and_broken_queries_are_refused() {
        let error = Fields::parse("spec.foo=1", &kind("Pod")).unwrap_err();
        assert_eq!(error, "field label not supported: spec.foo");
        assert!(Fields::parse("metadata.name", &kind("Pod")).is_err());
        assert!(Fields::parse("spec.nodeName=x", &kind("Node")).is_err());
    }

    #[test]
    fn values_may_hold_escaped_commas() {
        let fields = Fields::parse(r"reason=a\,b\\,type=Normal", &kind("Event")).unwrap();
        assert!(fields.matches(&json!({"reason": r"a,b\", "type": "Normal"})));
    }
}
