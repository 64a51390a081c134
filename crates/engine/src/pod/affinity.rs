//! What a pod says of other pods: affinity, anti-affinity and topology spread.
//! Sources: kubernetes `pkg/scheduler/framework/types.go` (affinity terms),
//! `pkg/scheduler/framework/plugins/podtopologyspread/common.go` (spread).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A set of pods, by labels and namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSet {
    /// Their labels; `None` matches no pod.
    pub selector: Option<Selector>,
    /// Their namespaces, by name.
    pub namespaces: BTreeSet<String>,
    /// Their namespaces, by the namespaces' labels; added to those named.
    pub namespace_selector: Option<Selector>,
}

/// A label selector; empty, it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(pub Vec<Expression>);

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; another one matches nothing.
    pub operator: String,
    /// Values, for `In` and `NotIn`.
    pub values: Vec<String>,
}

/// A required term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// The pods it is about.
    pub pods: PodSet,
}

/// A preferred term: affinity if the weight is positive, anti-affinity if it is negative.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreferredPodTerm {
    /// 1 to 100, or −100 to −1.
    pub weight: i32,
    /// The term.
    pub term: PodTerm,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// By how many pods a domain may exceed the one with the fewest; at least 1.
    pub max_skew: u32,
    /// With fewer eligible domains than this, the fewest counts as zero.
    pub min_domains: u32,
    /// `DoNotSchedule`; otherwise it is a wish.
    pub required: bool,
    /// Whether only nodes that the pod's node selector and affinity allow make domains.
    pub honors_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates make domains.
    pub honors_taints: bool,
    /// The pods that are counted, those of the pod's own namespace; `None` matches no pod.
    pub selector: Option<Selector>,
}

impl Selector {
    /// Reads a label selector.
    #[must_use]
    pub fn from_k8s(selector: &LabelSelector) -> Self {
        let labels = selector.match_labels.iter().flatten().map(|(key, value)| Expression {
            key: key.clone(),
            operator: "In".into(),
            values: vec![value.clone()],
        });
        let expressions = selector.match_expressions.iter().flatten().map(|e| Expression {
            key: e.key.clone(),
            operator: e.operator.clone(),
            values: e.values.clone().unwrap_or_default(),
        });
        let mut all: Vec<Expression> = labels.chain(expressions).collect();
        all.sort();
        all.dedup();
        Self(all)
    }

    /// Whether labels match all expressions.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|expression| {
            let value = labels.get(&expression.key);
            match expression.operator.as_str() {
                "In" => value.is_some_and(|value| expression.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !expression.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
    }

    /// Adds what `keys` of the pod's own labels say; labels that the pod lacks say nothing.
    fn with_keys(
        mut self,
        operator: &str,
        keys: Option<&Vec<String>>,
        labels: &BTreeMap<String, String>,
    ) -> Self {
        for key in keys.into_iter().flatten() {
            let Some(value) = labels.get(key) else { continue };
            let (key, operator) = (key.clone(), operator.to_owned());
            self.0.push(Expression { key, operator, values: vec![value.clone()] });
        }
        self.0.sort();
        self.0.dedup();
        self
    }
}

impl PodSet {
    /// Whether a pod in `namespace` with these labels belongs to it. `namespaces` holds the labels
    /// of all namespaces.
    #[must_use]
    pub fn has(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        namespaces: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> bool {
        let selected = || {
            let selector = self.namespace_selector.as_ref()?;
            Some(namespaces.get(namespace).is_some_and(|labels| selector.matches(labels)))
        };
        (self.namespaces.contains(namespace) || selected().unwrap_or(false))
            && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// Reads a term of a pod in `namespace` with these labels.
pub(super) fn term(
    term: &core::PodAffinityTerm,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> PodTerm {
    let selector = term.label_selector.as_ref().map(|selector| {
        Selector::from_k8s(selector)
            .with_keys("In", term.match_label_keys.as_ref(), labels)
            .with_keys("NotIn", term.mismatch_label_keys.as_ref(), labels)
    });
    let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.insert(namespace.to_owned());
    }
    let namespace_selector = term.namespace_selector.as_ref().map(Selector::from_k8s);
    let pods = PodSet { selector, namespaces, namespace_selector };
    PodTerm { topology_key: term.topology_key.clone(), pods }
}

/// Reads the topology spread constraints of a pod with these labels.
pub(super) fn spread(spec: &core::PodSpec, labels: &BTreeMap<String, String>) -> Vec<Spread> {
    let read = |c: &core::TopologySpreadConstraint| Spread {
        topology_key: c.topology_key.clone(),
        max_skew: u32::try_from(c.max_skew).unwrap_or(1).max(1),
        min_domains: c.min_domains.and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1),
        required: c.when_unsatisfiable == "DoNotSchedule",
        honors_affinity: c.node_affinity_policy.as_deref() != Some("Ignore"),
        honors_taints: c.node_taints_policy.as_deref() == Some("Honor"),
        selector: c.label_selector.as_ref().map(|selector| {
            Selector::from_k8s(selector).with_keys("In", c.match_label_keys.as_ref(), labels)
        }),
    };
    spec.topology_spread_constraints.iter().flatten().map(read).collect()
}
