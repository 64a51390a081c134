//! Pods that are alike: what is found out about one holds for all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attempt::Failure;
use super::filter::Verdicts;
use super::pod::PodInfo;

/// Names a class.
pub(super) type ClassId = u64;

/// Pods with the same requests, constraints, priority and images.
#[derive(Debug)]
pub(super) struct Class {
    /// One of them, without an identity of its own.
    pub(super) sample: Arc<PodInfo>,
    /// How they fare on each node.
    pub(super) verdicts: Verdicts,
    /// Why they fit nowhere, nor after a preemption, and the cache's generation at that time.
    pub(super) failure: Option<(u64, Failure)>,
    key: String,
    members: usize,
}

/// The classes of the pods that wait.
#[derive(Debug, Default)]
pub(super) struct Classes {
    classes: BTreeMap<ClassId, Class>,
    by_key: BTreeMap<String, ClassId>,
    next: ClassId,
}

impl Classes {
    /// The class of a pod that begins to wait.
    pub(super) fn join(&mut self, info: &Arc<PodInfo>) -> ClassId {
        let key = key(info);
        let id = *self.by_key.entry(key.clone()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let class = self.classes.entry(id).or_insert_with(|| Class {
            sample: anonymous(info),
            verdicts: Verdicts::default(),
            failure: None,
            key,
            members: 0,
        });
        class.members += 1;
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
        }
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

/// Equal for pods that filters, scores and preemption cannot tell apart.
fn key(info: &PodInfo) -> String {
    let pod = &info.pod;
    format!(
        "{:?}",
        (
            pod.priority,
            pod.preempts,
            &pod.requests,
            &pod.scored,
            &pod.constraints,
            &pod.unsupported,
            &info.images,
        )
    )
}
