//! Pods folded into classes: pods that ask for the same are the same to a plan.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Toleration};

use super::topology::sets::{Sets, Terms};
use crate::fingerprint::{Distinct, fingerprint};
use crate::pod::{Constraints, Pod};
use crate::storage::Volumes;

/// Pods of one priority that ask for the same and are the same to all others.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// One of them, or how a promised one would look.
    pub(crate) sample: Arc<Pod>,
    /// The same before wishes became demands: by it plans know the class again.
    origin: Arc<Pod>,
    /// What they demand of other pods.
    pub(crate) terms: Rc<Terms>,
    /// The pod sets that they belong to, ascending.
    pub(crate) sets: Rc<[usize]>,
    /// Those that are there, oldest first.
    pub(crate) pods: VecDeque<Arc<Pod>>,
    /// How many their owners have promised besides.
    pub(crate) promised: u32,
    /// Where it stands among the classes of the plan.
    pub(crate) index: usize,
    name: OnceCell<Rc<str>>,
}

impl Class {
    /// A class without pods.
    fn new(sample: Arc<Pod>, terms: Rc<Terms>, sets: Rc<[usize]>) -> Self {
        let (origin, pods, name) = (sample.clone(), VecDeque::new(), OnceCell::new());
        Self { sample, origin, terms, sets, pods, promised: 0, index: 0, name }
    }

    /// Names the class by how `origin` looks, one of its pods as it was before wishes became
    /// demands: the name stays when wishes are given up.
    pub(crate) fn known_as(&mut self, origin: Arc<Pod>) {
        (self.origin, self.name) = (origin, OnceCell::new());
    }

    /// All of them.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.pods.len()).unwrap_or(u32::MAX).saturating_add(self.promised)
    }

    /// The class without its pods.
    pub(crate) fn emptied(&self) -> Self {
        Self {
            index: self.index,
            origin: self.origin.clone(),
            name: self.name.clone(),
            ..Self::new(self.sample.clone(), self.terms.clone(), self.sets.clone())
        }
    }

    /// A name that stays the same from plan to plan, for [`crate::snapshot::StateNode::planned`].
    pub(crate) fn name(&self) -> &str {
        self.name.get_or_init(|| self.hash().into())
    }

    /// A hash of what the pods say of themselves.
    fn hash(&self) -> String {
        let pod = &self.origin;
        let tolerations: Vec<_> = relevant(&pod.constraints.tolerations).collect();
        let text = serde_json::json!([
            pod.requests,
            pod.constraints.node_selector,
            pod.constraints.node_affinity,
            tolerations,
            pod.constraints.host_ports,
        ]);
        let mut text = text.to_string();
        let Constraints { pod_affinity, pod_anti_affinity, spread, .. } = &pod.constraints;
        if !(pod_affinity.is_empty() && pod_anti_affinity.is_empty() && spread.is_empty()) {
            text += &format!("{pod_affinity:?}{pod_anti_affinity:?}{spread:?}");
        }
        if pod.constraints.volumes != Volumes::default() {
            text += &format!("{:?}", pod.constraints.volumes);
        }
        // FNV-1a; the name must not depend on the program's version.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        format!("{hash:016x}")
    }

    /// Takes `count` of them out, those that are there first, and says how many of them were only
    /// promised.
    pub(crate) fn take(&mut self, count: u32) -> (VecDeque<Arc<Pod>>, u32) {
        let there = self.pods.len().min(count as usize);
        let pods = self.pods.drain(..there).collect();
        let promised = (count - u32::try_from(there).unwrap_or(count)).min(self.promised);
        self.promised -= promised;
        (pods, promised)
    }

    /// Whether `pod`, whose wishes are none but wishes, asks for the same; priority aside.
    pub(crate) fn is_like(&self, pod: &Pod) -> bool {
        let (mine, other) = (&self.origin.constraints, &pod.constraints);
        Key(&self.origin) == Key(pod)
            && mine.pod_affinity == other.pod_affinity
            && mine.pod_anti_affinity == other.pod_anti_affinity
            && mine.spread == other.spread
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

/// Whether two pods ask for the same of a node; what they say of other pods aside.
pub(crate) fn asks_the_same(a: &Pod, b: &Pod) -> bool {
    Key(a) == Key(b)
}

/// A fingerprint of what [`asks_the_same`] compares. Tolerations are left out: not all count.
pub(crate) fn need(pod: &Pod) -> u64 {
    fingerprint(&(&pod.requests, &pod.constraints.node_selector))
}

/// Compares what is asked of a node besides room; soft wishes aside.
pub(crate) fn by_constraints(a: &Constraints, b: &Constraints) -> Ordering {
    a.node_selector
        .cmp(&b.node_selector)
        .then_with(|| terms(a.node_affinity.as_deref()).cmp(&terms(b.node_affinity.as_deref())))
        .then_with(|| {
            let view = |list| relevant(list).map(toleration);
            view(&a.tolerations).cmp(view(&b.tolerations))
        })
        .then_with(|| a.host_ports.cmp(&b.host_ports))
        .then_with(|| by_volumes(&a.volumes, &b.volumes))
}

fn by_volumes(a: &Volumes, b: &Volumes) -> Ordering {
    let view = |list: &[Vec<NodeSelectorTerm>], other: &[Vec<NodeSelectorTerm>]| {
        list.iter().map(|t| terms(Some(t))).cmp(other.iter().map(|t| terms(Some(t))))
    };
    view(&a.bound, &b.bound)
        .then_with(|| view(&a.unbound, &b.unbound))
        .then_with(|| a.attached.cmp(&b.attached))
}

/// Gathers equal constraints: each once, and which one each of `all` is.
pub(crate) fn groups<'a>(
    all: impl Iterator<Item = &'a Constraints>,
) -> (Vec<&'a Constraints>, Vec<usize>) {
    let all: Vec<&Constraints> = all.collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| by_constraints(all[*a], all[*b]));
    let mut groups: Vec<&Constraints> = Vec::new();
    let mut assigned = vec![0; all.len()];
    for at in order {
        let is_new =
            groups.last().is_none_or(|last| by_constraints(last, all[at]) != Ordering::Equal);
        if is_new {
            groups.push(all[at]);
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
    sets: &mut Sets<'a>,
) -> Vec<Class> {
    let mut classes: Distinct<(Option<usize>, Class)> = Distinct::default();
    let mut class_of = |pod: &'a Arc<Pod>, count: Option<u32>| {
        let (members, saying) = (sets.members(pod), sets.saying(pod));
        let print = fingerprint(&(pod.priority, need(pod), saying, &*members));
        let is_like = |(said, class): &(Option<usize>, Class)| {
            *said == saying
                && class.sets == members
                && class.sample.priority == pod.priority
                && Key(&class.sample) == Key(pod)
        };
        let number = classes.find(print, is_like).unwrap_or_else(|| {
            let terms = sets.terms(pod);
            classes.add(print, (saying, Class::new(pod.clone(), terms, members.clone())))
        });
        let (_, class) = classes.get_mut(number);
        match count {
            None => class.pods.push_back(pod.clone()),
            Some(count) => class.promised = class.promised.saturating_add(count),
        }
    };
    pods.for_each(|pod| class_of(pod, None));
    promised.for_each(|(pod, count)| class_of(pod, Some(count)));
    let mut classes: Vec<Class> = classes.into_list().into_iter().map(|(_, class)| class).collect();
    for class in &mut classes {
        class.pods.make_contiguous().sort_by(|a, b| age(a).cmp(&age(b)));
    }
    // The sort is stable: classes that are equal in all this stay in the order of their pods.
    classes.sort_by(|a, b| {
        let size = |class: &Class| (class.sample.requests.cpu, class.sample.requests.memory);
        let oldest = |class: &Class| class.pods.front().map(|pod| pod.created);
        b.sample
            .priority
            .cmp(&a.sample.priority)
            .then_with(|| size(b).cmp(&size(a)))
            .then_with(|| oldest(a).cmp(&oldest(b)))
            .then_with(|| Key(&a.sample).cmp(&Key(&b.sample)))
    });
    for (index, class) in classes.iter_mut().enumerate() {
        class.index = index;
    }
    classes
}

fn age(pod: &Pod) -> (jiff::Timestamp, &str, &str) {
    (pod.created, &pod.namespace, &pod.name)
}
