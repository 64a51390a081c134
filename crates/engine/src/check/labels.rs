//! What labels and taints say, by Kubernetes' rules. Written apart from the planner's predicates,
//! so that a mistake in one is found by the other.
//!
//! Sources: k8s.io/component-helpers `scheduling/corev1/nodeaffinity/nodeaffinity.go`,
//! k8s.io/api `core/v1/toleration.go`, k8s.io/apimachinery `pkg/labels/selector.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Taint, Toleration};

use super::machines::Candidate;
use crate::pod::{Constraints, Pod, PodSet, Selector};

/// Whether one requirement of a selector holds. `Gte` and `Lte` are known to pools and claims only.
pub(super) fn holds(
    operator: &str,
    values: &[String],
    value: Option<&str>,
    is_of_claim: bool,
) -> bool {
    let compared = || {
        let [bound] = values else { return None };
        Some(value?.parse::<i64>().ok()?.cmp(&bound.parse::<i64>().ok()?))
    };
    let listed = |value: &str| values.iter().any(|other| other == value);
    match operator {
        "In" => value.is_some_and(listed),
        "NotIn" => !values.is_empty() && !value.is_some_and(listed),
        "Exists" => values.is_empty() && value.is_some(),
        "DoesNotExist" => values.is_empty() && value.is_none(),
        "Gt" => compared().is_some_and(|order| order.is_gt()),
        "Lt" => compared().is_some_and(|order| order.is_lt()),
        "Gte" => is_of_claim && compared().is_some_and(|order| order.is_ge()),
        "Lte" => is_of_claim && compared().is_some_and(|order| order.is_le()),
        _ => false,
    }
}

/// Whether node selector and required node affinity allow a node.
pub(super) fn node_allowed(pod: &Constraints, node: &Candidate<'_>) -> bool {
    let term = |term: &NodeSelectorTerm| {
        let expressions = term.match_expressions.as_deref().unwrap_or(&[]);
        let fields = term.match_fields.as_deref().unwrap_or(&[]);
        let of_label = expressions.iter().all(|e| {
            holds(&e.operator, e.values.as_deref().unwrap_or(&[]), node.label(&e.key), false)
        });
        let of_name = fields.iter().all(|field| {
            field.key == "metadata.name"
                && matches!(field.operator.as_str(), "In" | "NotIn")
                && field.values.as_ref().is_some_and(|values| values.len() == 1)
                && holds(&field.operator, field.values.as_deref().unwrap_or(&[]), node.name, false)
        });
        !(expressions.is_empty() && fields.is_empty()) && of_label && of_name
    };
    pod.node_selector.iter().all(|(key, value)| node.label(key) == Some(value.as_str()))
        && pod.node_affinity.as_ref().is_none_or(|terms| terms.iter().any(term))
}

/// The first taint that keeps a pod off.
pub(super) fn repelling<'t>(pod: &Constraints, taints: &'t [Taint]) -> Option<&'t Taint> {
    let hard = |taint: &&Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    taints.iter().filter(hard).find(|taint| !pod.tolerations.iter().any(|t| tolerates(t, taint)))
}

/// Whether a pod tolerates the taint of cordoned nodes.
pub(super) fn bears_cordon(pod: &Constraints) -> bool {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    };
    repelling(pod, &[cordon]).is_none()
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    fn text(field: Option<&String>) -> &str {
        field.map_or("", String::as_str)
    }
    let effect = text(toleration.effect.as_ref());
    let key = text(toleration.key.as_ref());
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match text(toleration.operator.as_ref()) {
        "Exists" => true,
        "" | "Equal" => text(toleration.value.as_ref()) == text(taint.value.as_ref()),
        _ => false,
    }
}

/// Whether a label selector selects labels.
pub(super) fn selects(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    selector.0.iter().all(|e| {
        let value = labels.get(&e.key).map(String::as_str);
        match e.operator.as_str() {
            "NotIn" => value.is_none_or(|value| !e.values.iter().any(|other| other == value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => value.is_some_and(|value| e.values.iter().any(|other| other == value)),
            _ => false,
        }
    })
}

/// Whether a pod belongs to a set.
pub(super) fn belongs(
    pod: &Pod,
    set: &PodSet,
    namespaces: &BTreeMap<String, BTreeMap<String, String>>,
) -> bool {
    let by_labels = |selector: &Selector| {
        namespaces.get(&pod.namespace).is_some_and(|labels| selects(selector, labels))
    };
    (set.namespaces.contains(&pod.namespace)
        || set.namespace_selector.as_ref().is_some_and(by_labels))
        && set.selector.as_ref().is_some_and(|selector| selects(selector, &pod.labels))
}
