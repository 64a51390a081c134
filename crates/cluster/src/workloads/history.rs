//! The templates that a DaemonSet or StatefulSet has had, as ControllerRevisions.
//!
//! Source: Kubernetes `pkg/controller/history`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::json;

use super::owner::{controller_of, controller_ref, key, uid};
use super::template_hash::template_hash;
use crate::registry::{Cluster, DeleteOptions, Typed};
use crate::status::Status;

/// How often a hash may clash before a revision cannot be named.
const ATTEMPTS: i32 = 8;

/// The revision of the template that `owner` has now, made or renumbered if need be, and the
/// others, oldest first. `label` is where a revision keeps its hash.
///
/// # Errors
///
/// What the registry answers.
pub(super) fn current<K>(
    cluster: &Cluster,
    owner: &K,
    template: &PodTemplateSpec,
    label: &str,
) -> Result<(Arc<ControllerRevision>, Vec<Arc<ControllerRevision>>), Status>
where
    K: Typed + Metadata<Ty = ObjectMeta>,
{
    let (namespace, _) = key(owner.metadata());
    let mut all: Vec<_> = cluster
        .list::<ControllerRevision>(&namespace)
        .into_iter()
        .filter(|revision| {
            controller_of(&revision.metadata).is_some_and(|of| of.uid == uid(owner.metadata()))
        })
        .collect();
    all.sort_by_key(|revision| (revision.revision, revision.metadata.name.clone()));
    let mut value = serde_json::to_value(template)
        .map_err(|error| Status::new(500, "InternalError", error.to_string()))?;
    value["$patch"] = "replace".into();
    let data = RawExtension(json!({"spec": {"template": value}}));
    let position = all.iter().rposition(|revision| revision.data.as_ref() == Some(&data));
    let found = position.map(|position| all.remove(position));
    let number = all.last().map_or(0, |revision| revision.revision) + 1;
    let current = match found {
        Some(found) if found.revision >= number => found,
        Some(found) => {
            let (_, name) = key(&found.metadata);
            cluster.modify::<ControllerRevision>(&namespace, &name, |revision| {
                revision.revision = number;
            })?
        }
        None => create(cluster, owner, template, label, &data, number)?,
    };
    Ok((current, all))
}

fn create<K>(
    cluster: &Cluster,
    owner: &K,
    template: &PodTemplateSpec,
    label: &str,
    data: &RawExtension,
    number: i64,
) -> Result<Arc<ControllerRevision>, Status>
where
    K: Typed + Metadata<Ty = ObjectMeta>,
{
    let (namespace, name) = key(owner.metadata());
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    let mut collisions = None;
    loop {
        let hash = template_hash(template, collisions);
        let mut labels = labels.clone().unwrap_or_default();
        labels.insert(label.to_owned(), hash.clone());
        let revision = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(format!("{name}-{hash}")),
                namespace: Some(namespace.clone()),
                labels: Some(labels),
                annotations: owner.metadata().annotations.clone().map(|mut annotations| {
                    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
                    annotations
                }),
                owner_references: Some(vec![controller_ref(owner)]),
                ..ObjectMeta::default()
            },
            data: Some(data.clone()),
            revision: number,
        };
        match cluster.create(&namespace, &revision) {
            Err(status)
                if status.reason == "AlreadyExists" && collisions.unwrap_or(0) < ATTEMPTS =>
            {
                collisions = Some(collisions.unwrap_or(0) + 1);
            }
            result => return result,
        }
    }
}

/// The hash that a revision carries.
pub(super) fn hash(revision: &ControllerRevision, label: &str) -> String {
    let labels: Option<&BTreeMap<String, String>> = revision.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(label)).cloned().unwrap_or_default()
}

/// Deletes the oldest of `old` beyond `limit`; those whose name is in `live` do not count.
///
/// # Errors
///
/// What the registry answers.
pub(super) fn truncate(
    cluster: &Cluster,
    old: &[Arc<ControllerRevision>],
    live: &BTreeSet<String>,
    limit: usize,
) -> Result<(), Status> {
    let unused = old.iter().map(|revision| key(&revision.metadata));
    let unused: Vec<_> = unused.filter(|(_, name)| !live.contains(name)).collect();
    for (namespace, name) in unused.iter().take(unused.len().saturating_sub(limit)) {
        cluster.delete::<ControllerRevision>(namespace, name, &DeleteOptions::default())?;
    }
    Ok(())
}
