//! What DaemonSets put on a new node.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_engine::pod::{Owner, Pod};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::index::Index;

/// One pod as each DaemonSet would create it. What it asks for is best known from the newest of its
/// pods: admission may have added to it.
pub(crate) fn of(index: &Index) -> Vec<Arc<Pod>> {
    let newest = |uid: &str| {
        let pods = index.pods_by_owner.get(uid).into_iter().flatten();
        let pods = pods.filter_map(|key| index.pods.get(key));
        pods.max_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)))
    };
    let pod = |set: &DaemonSet| {
        let template = set.spec.as_ref()?.template.clone();
        let metadata = ObjectMeta {
            name: set.metadata.name.clone(),
            namespace: set.metadata.namespace.clone(),
            ..template.metadata.unwrap_or_default()
        };
        let mut spec = template.spec;
        let namespace = set.namespace().unwrap_or_default();
        let defaults = defaults(index, &namespace);
        spec.iter_mut().for_each(|spec| fill_in(spec, &defaults));
        let mut pod = Pod::from_k8s(&core::Pod { metadata, spec, status: None }).ok()?;
        // By its owner it is known where it runs already.
        pod.owner = Some(Owner {
            kind: "DaemonSet".to_owned(),
            name: set.name_any(),
            uid: set.uid().unwrap_or_default(),
        });
        if let Some(sibling) = set.metadata.uid.as_deref().and_then(newest) {
            pod.requests = sibling.requests.clone();
            pod.scored = sibling.scored.clone();
            pod.priority = sibling.priority;
            pod.preempts = sibling.preempts;
        }
        Some(Arc::new(pod))
    };
    index.daemon_sets.values().filter_map(|set| pod(set)).collect()
}

/// What containers of a namespace ask for that say nothing, by its LimitRanges.
fn defaults(index: &Index, namespace: &str) -> BTreeMap<String, Quantity> {
    let mut defaults = BTreeMap::new();
    let ranges = index.limit_ranges.values();
    for range in ranges.filter(|range| range.namespace().as_deref() == Some(namespace)) {
        let items = range.spec.iter().flat_map(|spec| &spec.limits);
        for item in items.filter(|item| item.type_ == "Container") {
            for (name, amount) in item.default_request.iter().flatten() {
                defaults.entry(name.clone()).or_insert_with(|| amount.clone());
            }
        }
    }
    defaults
}

/// Gives a template's containers what admission gives those of a pod: they ask for what they are
/// limited to, or else for the defaults of their namespace.
///
/// Source: kubernetes `pkg/apis/core/v1/defaults.go`, `plugin/pkg/admission/limitranger`.
fn fill_in(spec: &mut core::PodSpec, defaults: &BTreeMap<String, Quantity>) {
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let resources = container.resources.get_or_insert_default();
        let limits = resources.limits.clone().unwrap_or_default();
        let requests = resources.requests.get_or_insert_default();
        for (name, amount) in limits.into_iter().chain(defaults.clone()) {
            requests.entry(name).or_insert(amount);
        }
    }
}
