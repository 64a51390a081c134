//! Disruption budgets, as far as preemption heeds them.

use std::collections::BTreeSet;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::pod::PodInfo;

/// A budget.
#[derive(Debug)]
pub(super) struct Budget {
    namespace: String,
    selector: LabelSelector,
    allowed: i32,
    /// Pods that are counted as disrupted already.
    disrupted: BTreeSet<String>,
}

impl Budget {
    /// Reads a budget; `None` if it selects nothing.
    pub(super) fn read(pdb: &PodDisruptionBudget) -> Option<Self> {
        let status = pdb.status.as_ref();
        let selector = pdb.spec.as_ref()?.selector.clone()?;
        let empty = selector.match_labels.as_ref().is_none_or(|labels| labels.is_empty())
            && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
        (!empty).then(|| Self {
            namespace: pdb.metadata.namespace.clone().unwrap_or_default(),
            selector,
            allowed: status.and_then(|status| status.disruptions_allowed).unwrap_or(0),
            disrupted: disrupted.into_iter().flat_map(|pods| pods.keys().cloned()).collect(),
        })
    }

    fn covers(&self, info: &PodInfo) -> bool {
        let labels = &info.pod.labels;
        let mut equal = self.selector.match_labels.iter().flatten();
        let mut expressions = self.selector.match_expressions.iter().flatten();
        self.namespace == info.pod.namespace
            && !self.disrupted.contains(&info.pod.name)
            && equal.all(|(key, value)| labels.get(key) == Some(value))
            && expressions.all(|expression| {
                let value = labels.get(&expression.key);
                let listed =
                    |value: &String| expression.values.iter().flatten().any(|v| v == value);
                match expression.operator.as_str() {
                    "In" => value.is_some_and(listed),
                    "NotIn" => !value.is_some_and(listed),
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
    }
}

/// For each of `victims` in turn, whether losing it too would break a budget.
pub(super) fn violations<'a>(
    victims: impl Iterator<Item = &'a PodInfo>,
    budgets: impl Iterator<Item = &'a Budget> + Clone,
) -> Vec<bool> {
    let mut left: Vec<i32> = budgets.clone().map(|budget| budget.allowed).collect();
    victims
        .map(|victim| {
            let mut violates = false;
            for (budget, left) in budgets.clone().zip(&mut left) {
                if !victim.pod.labels.is_empty() && budget.covers(victim) {
                    *left -= 1;
                    violates |= *left < 0;
                }
            }
            violates
        })
        .collect()
}
