//! Pods that are alike: what is found out about one holds for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_engine::pod::Pod;
use aerostat_engine::predicates::topology::Index;

use super::attempt::Failure;
use super::filter::Verdicts;
use super::pod::PodInfo;

/// Names a class.
pub(super) type ClassId = u64;

/// Pods with the same requests, constraints, priority and images, that the same pods shun.
#[derive(Debug)]
pub(super) struct Class {
    /// One of them, without an identity of its own.
    pub(super) sample: Arc<PodInfo>,
    /// How they fare on each node.
    pub(super) verdicts: Verdicts,
    /// Why they fit nowhere, nor after a preemption, and the cache's generation at that time.
    pub(super) failure: Option<(u64, Failure)>,
    /// The sets that its pods belong to and that others shun, as [`Index::shunned_sets`].
    pub(super) shunned: Vec<u64>,
    key: String,
    members: usize,
}

/// The classes of the pods that wait.
#[derive(Debug, Default)]
pub(super) struct Classes {
    classes: BTreeMap<ClassId, Class>,
    by_key: BTreeMap<String, ClassId>,
    /// Those for whose pods it matters where other pods are.
    related: BTreeSet<ClassId>,
    next: ClassId,
}

impl Classes {
    /// The class of a pod that begins to wait.
    pub(super) fn join(&mut self, info: &Arc<PodInfo>, topology: &Index) -> ClassId {
        let shunned = topology.shunned_sets(&info.pod);
        let key = key(info, &shunned, topology);
        let related = !shunned.is_empty() || asks_about_others(&info.pod);
        let id = *self.by_key.entry(key.clone()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let class = self.classes.entry(id).or_insert_with(|| Class {
            sample: anonymous(info),
            verdicts: Verdicts::default(),
            failure: None,
            shunned,
            key,
            members: 0,
        });
        class.members += 1;
        if related {
            self.related.insert(id);
        }
        id
    }

    /// A pod of the class waits no longer.
    pub(super) fn leave(&mut self, id: ClassId) {
        let Some(class) = self.classes.get_mut(&id) else { return };
        class.members -= 1;
        if class.members == 0
            && let Some(class) = self.classes.remove(&id)
        {
            self.by_key.remove(&class.key);
            self.related.remove(&id);
        }
    }

    /// The classes for whose pods it matters where other pods are.
    pub(super) fn related(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.related.iter().filter_map(|id| Some((*id, self.classes.get(id)?)))
    }

    pub(super) fn get(&self, id: ClassId) -> Option<&Class> {
        self.classes.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ClassId) -> Option<&mut Class> {
        self.classes.get_mut(&id)
    }
}

/// A pod that is nobody in particular, so that no nomination is taken for its own.
fn anonymous(info: &PodInfo) -> Arc<PodInfo> {
    let mut sample = info.clone();
    sample.pod.uid.clear();
    Arc::new(sample)
}

/// Whether a pod has required constraints on other pods.
fn asks_about_others(pod: &Pod) -> bool {
    let constraints = &pod.constraints;
    !constraints.pod_affinity.is_empty()
        || !constraints.pod_anti_affinity.is_empty()
        || constraints.spread.iter().any(|spread| spread.required)
}

/// Equal for pods that filters and preemption cannot tell apart.
fn key(info: &PodInfo, shunned: &[u64], topology: &Index) -> String {
    let pod = &info.pod;
    let spread = &pod.constraints.spread;
    let near = &pod.constraints.pod_affinity;
    // Whether it is one of those that its own constraints count.
    let counts: Vec<bool> = spread
        .iter()
        .map(|spread| spread.selector.as_ref().is_some_and(|s| s.matches(&pod.labels)))
        .chain(near.iter().map(|term| topology.selects(&term.pods, pod)))
        .collect();
    format!(
        "{:?}",
        (
            pod.priority,
            pod.preempts,
            &pod.requests,
            &pod.scored,
            &pod.constraints,
            (&pod.unsupported, &info.problem),
            &info.images,
            (!spread.is_empty()).then_some(&pod.namespace),
            counts,
            shunned,
        )
    )
}
