//! Node selectors and node affinity.
//! Source: k8s.io/component-helpers `scheduling/corev1/nodeaffinity/nodeaffinity.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

use crate::pod::Constraints;

/// Whether node selector and required node affinity allow a node with this name (`None`: not
/// known yet) and these labels.
#[must_use]
pub fn matches_affinity(
    constraints: &Constraints,
    name: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> bool {
    constraints.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && constraints
            .node_affinity
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| matches_term(term, name, labels)))
}

/// Whether all of a term's requirements hold; an empty term matches nothing.
#[must_use]
pub fn matches_term(
    term: &NodeSelectorTerm,
    name: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|expression| matches_requirement(expression, labels))
        && fields.iter().all(|field| matches_field(field, name))
}

/// Whether labels meet one requirement; a malformed requirement is never met.
#[must_use]
pub fn matches_requirement(
    requirement: &NodeSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> bool {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let compare = |holds: fn(i64, i64) -> bool| {
        let ([bound], Some(value)) = (values, value) else { return false };
        let (Ok(value), Ok(bound)) = (value.parse(), bound.parse()) else { return false };
        holds(value, bound)
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => !values.is_empty() && value.is_none_or(|value| !values.contains(value)),
        "Exists" => values.is_empty() && value.is_some(),
        "DoesNotExist" => values.is_empty() && value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}

/// `metadata.name` is the only field there is; a node without a name is none of those named.
fn matches_field(field: &NodeSelectorRequirement, name: Option<&str>) -> bool {
    let [wanted] = field.values.as_deref().unwrap_or_default() else { return false };
    let is = field.key == "metadata.name" && name == Some(wanted.as_str());
    match field.operator.as_str() {
        "In" => is,
        "NotIn" => !is,
        _ => false,
    }
}
