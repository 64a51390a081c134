//! With which pods a pod is spread that does not say so itself: those of its services and of its
//! controller.
//!
//! Source: kubernetes `pkg/scheduler/framework/plugins/helper/spread.go` (`DefaultSelector`).

use std::collections::BTreeMap;

use aerostat_engine::pod::{Pod, Selector};
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::informer::Change;
use crate::registry::Cluster;

/// What services select, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Services {
    selectors: BTreeMap<String, BTreeMap<String, Selector>>,
}

impl Services {
    /// A service came, changed or went.
    pub(super) fn on_service(&mut self, change: &Change<Service>) {
        let (Change::Applied { new: service, .. } | Change::Deleted(service)) = change;
        let namespace = service.metadata.namespace.clone().unwrap_or_default();
        let name = service.metadata.name.clone().unwrap_or_default();
        let labels = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = labels.map(equal).filter(|selector| !selector.0.is_empty());
        let of_namespace = self.selectors.entry(namespace).or_default();
        match selector.filter(|_| matches!(change, Change::Applied { .. })) {
            Some(selector) => drop(of_namespace.insert(name, selector)),
            None => drop(of_namespace.remove(&name)),
        }
    }

    /// The selectors that, together, select the pods that `pod` is spread with; `None` if there
    /// are none or it says itself how it spreads.
    pub(super) fn defaults(&self, pod: &Pod, cluster: &Cluster) -> Option<Vec<Selector>> {
        if !pod.constraints.spread.is_empty() {
            return None;
        }
        let services = self.selectors.get(&pod.namespace).into_iter().flat_map(BTreeMap::values);
        let services = services.filter(|selector| selector.matches(&pod.labels)).cloned();
        let all: Vec<Selector> = services.chain(of_owner(pod, cluster)).collect();
        (!all.is_empty()).then_some(all)
    }
}

/// What the controller of a pod selects, unless that is everything.
fn of_owner(pod: &Pod, cluster: &Cluster) -> Option<Selector> {
    let owner = pod.owner.as_ref()?;
    let selector = match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = cluster.get::<ReplicaSet>(&pod.namespace, &owner.name)?;
            Selector::from_k8s(&set.spec.as_ref()?.selector)
        }
        "StatefulSet" => {
            let set = cluster.get::<StatefulSet>(&pod.namespace, &owner.name)?;
            Selector::from_k8s(&set.spec.as_ref()?.selector)
        }
        "ReplicationController" => {
            let set = cluster.get::<ReplicationController>(&pod.namespace, &owner.name)?;
            equal(set.spec.as_ref()?.selector.as_ref()?)
        }
        _ => return None,
    };
    Some(selector).filter(|selector| !selector.0.is_empty())
}

fn equal(labels: &BTreeMap<String, String>) -> Selector {
    let labels = Some(labels.clone());
    Selector::from_k8s(&LabelSelector { match_labels: labels, ..LabelSelector::default() })
}
