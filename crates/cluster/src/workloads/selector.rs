//! Label selectors of workloads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Whether a workload with `selector` may own an object with `labels`. An empty selector selects
/// nothing here: no workload may own everything.
pub(super) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    !empty && matches(selector, labels)
}

/// Whether all requirements of `selector` hold for `labels`; an empty one has none.
pub(super) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.as_ref();
    let expressions = selector.match_expressions.as_ref();
    equal.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().flatten().all(|expression| {
            let value = labels.get(&expression.key);
            let listed = || {
                value.is_some_and(|value| expression.values.iter().flatten().any(|v| v == value))
            };
            match expression.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}
