//! Pods folded into classes: pods that ask for the same are the same to a plan.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Toleration};

use crate::pod::{Constraints, Pod, PodKey};

/// Pods of one priority that ask for the same.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// One of them, or how a promised one would look.
    pub(crate) sample: Arc<Pod>,
    /// Those that are there, oldest first.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// How many their owners have promised besides.
    pub(crate) promised: u32,
}

impl Class {
    /// All of them.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.pods.len()).unwrap_or(u32::MAX).saturating_add(self.promised)
    }

    /// A name that stays the same from plan to plan, for [`crate::snapshot::StateNode::planned`].
    pub(crate) fn name(&self) -> String {
        let pod = &self.sample;
        let tolerations: Vec<_> = relevant(&pod.constraints.tolerations).collect();
        let text = serde_json::json!([
            pod.requests,
            pod.constraints.node_selector,
            pod.constraints.node_affinity,
            tolerations,
            pod.constraints.host_ports,
        ]);
        // FNV-1a; the name must not depend on the program's version.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in text.to_string().bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        format!("{hash:016x}")
    }

    /// Takes `count` of them out, those that are there first: their keys, and how many of them
    /// were only promised.
    pub(crate) fn take(&mut self, count: u32) -> (Vec<PodKey>, u32) {
        let there = self.pods.len().min(count as usize);
        let key = |pod: Arc<Pod>| (pod.namespace.clone(), pod.name.clone());
        let keys = self.pods.drain(..there).map(key).collect();
        let promised = (count - u32::try_from(there).unwrap_or(count)).min(self.promised);
        self.promised -= promised;
        (keys, promised)
    }

    /// Whether `pod` asks for the same; priority aside.
    pub(crate) fn is_like(&self, pod: &Pod) -> bool {
        Key(&self.sample) == Key(pod)
    }
}

/// A pod by what it asks of a node.
#[derive(Clone, Copy)]
struct Key<'a>(&'a Pod);

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let constraints = || by_constraints(&self.0.constraints, &other.0.constraints);
        self.0.requests.cmp(&other.0.requests).then_with(constraints)
    }
}

/// Compares what is asked of a node besides room; soft wishes aside.
fn by_constraints(a: &Constraints, b: &Constraints) -> Ordering {
    a.node_selector
        .cmp(&b.node_selector)
        .then_with(|| terms(a.node_affinity.as_deref()).cmp(&terms(b.node_affinity.as_deref())))
        .then_with(|| {
            let view = |list| relevant(list).map(toleration);
            view(&a.tolerations).cmp(view(&b.tolerations))
        })
        .then_with(|| a.host_ports.cmp(&b.host_ports))
}

/// Gathers classes with equal constraints: the constraints of each group, and the group of each
/// class.
pub(crate) fn groups(classes: &[Class]) -> (Vec<&Constraints>, Vec<usize>) {
    let mut order: Vec<usize> = (0..classes.len()).collect();
    let of = |at: usize| &classes[at].sample.constraints;
    order.sort_by(|a, b| by_constraints(of(*a), of(*b)));
    let mut groups: Vec<&Constraints> = Vec::new();
    let mut assigned = vec![0; classes.len()];
    for at in order {
        let is_new =
            groups.last().is_none_or(|last| by_constraints(last, of(at)) != Ordering::Equal);
        if is_new {
            groups.push(of(at));
        }
        assigned[at] = groups.len() - 1;
    }
    (groups, assigned)
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

/// Tolerations that tell pods apart. Those that admission gives to every pod do not: a promised
/// pod has not been through admission.
fn relevant(tolerations: &[Toleration]) -> impl Iterator<Item = &Toleration> {
    tolerations.iter().filter(|toleration| {
        let key = toleration.key.as_deref().unwrap_or_default();
        !(matches!(key, "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
            && toleration.effect.as_deref() == Some("NoExecute"))
    })
}

fn toleration(toleration: &Toleration) -> [&str; 4] {
    [&toleration.key, &toleration.operator, &toleration.value, &toleration.effect]
        .map(|field| field.as_deref().unwrap_or_default())
}

type View<'a> = Vec<(&'a str, &'a str, &'a [String])>;

fn terms(list: Option<&[NodeSelectorTerm]>) -> Option<Vec<[View<'_>; 2]>> {
    fn view(list: Option<&Vec<NodeSelectorRequirement>>) -> View<'_> {
        let list = list.map(Vec::as_slice).unwrap_or_default().iter();
        list.map(|r| (&*r.key, &*r.operator, r.values.as_deref().unwrap_or_default())).collect()
    }
    let list = list?.iter();
    let list =
        list.map(|term| [view(term.match_expressions.as_ref()), view(term.match_fields.as_ref())]);
    Some(list.collect())
}

/// Folds pods, and pods promised by owners, into classes: highest priority first, then Karpenter's
/// order: most cpu, most memory, oldest.
pub(crate) fn fold<'a>(
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    promised: impl Iterator<Item = (&'a Arc<Pod>, u32)>,
) -> Vec<Class> {
    let mut classes: BTreeMap<(i32, Key<'a>), Class> = BTreeMap::new();
    let empty = |pod: &Arc<Pod>| Class { sample: pod.clone(), pods: Vec::new(), promised: 0 };
    for pod in pods {
        let key = (pod.priority, Key(pod));
        classes.entry(key).or_insert_with(|| empty(pod)).pods.push(pod.clone());
    }
    for (pod, count) in promised {
        let class = classes.entry((pod.priority, Key(pod))).or_insert_with(|| empty(pod));
        class.promised = class.promised.saturating_add(count);
    }
    let mut classes: Vec<Class> = classes.into_values().collect();
    for class in &mut classes {
        class.pods.sort_by(|a, b| age(a).cmp(&age(b)));
    }
    // The sort is stable: classes that are equal in all this stay in the order of their keys.
    classes.sort_by(|a, b| {
        let size = |class: &Class| (class.sample.requests.cpu, class.sample.requests.memory);
        let oldest = |class: &Class| class.pods.first().map(|pod| pod.created);
        b.sample
            .priority
            .cmp(&a.sample.priority)
            .then_with(|| size(b).cmp(&size(a)))
            .then_with(|| oldest(a).cmp(&oldest(b)))
    });
    classes
}

fn age(pod: &Pod) -> (jiff::Timestamp, &str, &str) {
    (pod.created, &pod.namespace, &pod.name)
}
