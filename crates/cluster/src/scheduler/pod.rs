//! Pods as the scheduler sees them.

use std::collections::BTreeSet;

use aerostat_engine::pod::{Pod, PodKey};
use k8s_openapi::api::core::v1 as core;

/// The profile that this scheduler answers to, and its name as a component.
pub(super) const NAME: &str = "default-scheduler";

/// A pod, and what only the scheduler asks of it.
#[derive(Clone, Debug)]
pub(super) struct PodInfo {
    pub(super) pod: Pod,
    /// Its containers' images with their tags, one for each container.
    pub(super) images: Vec<String>,
    /// Whether it is leaving because it was preempted.
    pub(super) preempted: bool,
    /// Whether this scheduler is to place it.
    pub(super) ours: bool,
    /// The generation that conditions are about.
    pub(super) generation: Option<i64>,
    /// What keeps its volumes off all nodes.
    pub(super) problem: Option<String>,
}

impl PodInfo {
    /// Reads a pod.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read.
    pub(super) fn read(pod: &core::Pod) -> Result<Self, String> {
        let spec = pod.spec.as_ref();
        let containers = spec
            .into_iter()
            .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let images = containers.map(|c| tagged(c.image.as_deref().unwrap_or_default()));
        let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(NAME);
        let info = Pod::from_k8s(pod)?;
        Ok(Self {
            images: images.collect(),
            preempted: info.deleting && was_preempted(pod),
            ours: scheduler == NAME || scheduler.is_empty(),
            generation: pod.metadata.generation,
            problem: None,
            pod: info,
        })
    }

    pub(super) fn key(&self) -> PodKey {
        (self.pod.namespace.clone(), self.pod.name.clone())
    }

    /// Whether it takes room on a node.
    pub(super) fn placed(&self) -> bool {
        self.pod.node.is_some() && !self.pod.terminal
    }

    /// Whether it waits for this scheduler.
    pub(super) fn waits(&self) -> bool {
        self.ours && self.pod.node.is_none() && !self.pod.terminal && !self.pod.deleting
    }

    /// The node names that its affinity is narrowed to; `None` if to none in particular.
    pub(super) fn named_nodes(&self) -> Option<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for term in self.pod.constraints.node_affinity.as_deref()? {
            let fields = term.match_fields.iter().flatten();
            let mut of_term: Option<BTreeSet<String>> = None;
            for field in fields.filter(|f| f.key == "metadata.name" && f.operator == "In") {
                let values = field.values.iter().flatten().cloned().collect::<BTreeSet<_>>();
                of_term = Some(match of_term {
                    Some(names) => &names & &values,
                    None => values,
                });
            }
            names.append(&mut of_term?);
        }
        Some(names)
    }
}

/// Whether two versions of a pod differ in anything that the scheduler looks at. Cheap: most
/// updates are the kubelet's and do not.
pub(super) fn differs(old: &core::Pod, new: &core::Pod) -> bool {
    let view = |pod: &core::Pod| {
        let status = pod.status.as_ref();
        (
            pod.metadata.uid.clone(),
            pod.metadata.generation,
            pod.metadata.deletion_timestamp.is_some(),
            pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            status.and_then(|status| status.nominated_node_name.clone()),
            status.and_then(|status| status.start_time.clone()),
            status.and_then(|status| status.phase.clone()),
        )
    };
    view(old) != view(new)
        || old.metadata.labels != new.metadata.labels
        || was_preempted(old) != was_preempted(new)
}

fn was_preempted(pod: &core::Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "DisruptionTarget"
            && condition.status == "True"
            && condition.reason.as_deref() == Some("PreemptionByScheduler")
    })
}

/// An image's name with its tag. Source: kubernetes `framework/plugins/imagelocality`.
fn tagged(image: &str) -> String {
    if image.rfind(':') <= image.rfind('/') { format!("{image}:latest") } else { image.to_owned() }
}
