//! Empties namespaces that are being deleted, pods first, and then lets them go.
//!
//! Behaviour follows Kubernetes `pkg/controller/namespace`.

mod conditions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Pod};

use super::owner::key;
use super::pods::is_finished;
use super::queue::Queue;
use crate::informer::{Change, Informer};
use crate::kinds::Kind;
use crate::registry::{Cluster, DeleteOptions, Part, Propagation};
use crate::status::Status;
use conditions::Remaining;

/// The finalizer that this controller takes off when a namespace is empty.
const FINALIZER: &str = "kubernetes";
/// How long objects with finalizers are expected to take.
const FINALIZER_ESTIMATE: SignedDuration = SignedDuration::from_secs(15);

/// Runs the controller until the cluster is gone.
pub async fn run(cluster: Cluster) {
    let mut namespaces = cluster.informer::<Namespace>();
    let mut queue = Queue::default();
    loop {
        tokio::select! {
            biased;
            change = namespaces.next() => match change {
                Some(change) => enqueue(&mut queue, &change),
                None => return,
            },
            () = queue.due(cluster.clock()) => {}
        }
        drain(&mut queue, &mut namespaces);
        let now = cluster.clock().now();
        while let Some(name) = queue.pop(now) {
            match empty(&cluster, &name, now) {
                Ok(None) => queue.succeeded(&name),
                Ok(Some(estimate)) => {
                    queue.succeeded(&name);
                    queue.add_at(now + estimate / 2 + SignedDuration::from_secs(1), name);
                }
                Err(status) => {
                    tracing::debug!(%status, name, "namespace is emptied later");
                    queue.retry(name, now);
                }
            }
        }
    }
}

fn drain(queue: &mut Queue<String>, namespaces: &mut Informer<Namespace>) {
    while let Some(change) = namespaces.try_next() {
        enqueue(queue, &change);
    }
}

fn enqueue(queue: &mut Queue<String>, change: &Change<Namespace>) {
    match change {
        Change::Applied { new, old } => {
            let leaving = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_some();
            if leaving(new) && !old.as_ref().is_some_and(|old| leaving(old)) {
                queue.add(key(&new.metadata).1);
            }
        }
        Change::Deleted(namespace) => queue.succeeded(&key(&namespace.metadata).1),
    }
}

/// Deletes what is left; returns how long it will take, or `None` when nothing is left.
fn empty(cluster: &Cluster, name: &str, now: Timestamp) -> Result<Option<SignedDuration>, Status> {
    let Some(namespace) = cluster.get::<Namespace>("", name) else { return Ok(None) };
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone());
    let ours = finalizers.into_iter().flatten().any(|finalizer| finalizer == FINALIZER);
    let Some(deleted) = namespace.metadata.deletion_timestamp.as_ref().filter(|_| ours) else {
        return Ok(None);
    };
    let mut remaining = Remaining::default();
    let mut kinds = cluster.kinds();
    kinds.retain(|kind| kind.namespaced);
    let is_pod = |kind: &Kind| kind.group.is_empty() && kind.kind == "Pod";
    for kind in kinds.iter().filter(|kind| is_pod(kind)) {
        delete_all(cluster, kind, name, &mut remaining);
    }
    let pods_left = !remaining.is_empty();
    for kind in kinds.iter().filter(|kind| !pods_left && !is_pod(kind)) {
        delete_all(cluster, kind, name, &mut remaining);
    }
    let write = cluster.modify_status::<Namespace>("", name, |namespace| {
        conditions::update(namespace.status.get_or_insert_default(), &remaining, now);
    });
    write?;
    if !remaining.is_empty() {
        let grace = cluster
            .list::<Pod>(name)
            .iter()
            .filter(|pod| !is_finished(pod))
            .filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds)
            .max();
        let grace = SignedDuration::from_secs(grace.unwrap_or(0));
        let overdue = now.duration_since(deleted.0) >= grace;
        return Ok(Some(if overdue { FINALIZER_ESTIMATE } else { grace }));
    }
    let finalize = cluster.modify_part::<Namespace>("", name, Part::Whole, |namespace| {
        if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut())
        {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
    });
    finalize.map(|_| None)
}

fn delete_all(cluster: &Cluster, kind: &Kind, namespace: &str, remaining: &mut Remaining) {
    let options =
        DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let (objects, _) = cluster.store().list(&kind.resource(), namespace);
    for object in objects {
        match cluster.delete_object(kind, namespace, object.name(), &options) {
            Err(status) if status.code != 404 => remaining.errors.push(status.to_string()),
            _ => {}
        }
    }
    let (left, _) = cluster.store().list(&kind.resource(), namespace);
    if left.is_empty() {
        return;
    }
    remaining.objects.insert(format!("{}.{}", kind.plural, kind.group), left.len());
    let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
    for object in left {
        let list = object.value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let names: BTreeSet<String> =
            list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        for name in names {
            *finalizers.entry(name).or_default() += 1;
        }
    }
    for (name, count) in finalizers {
        *remaining.finalizers.entry(name).or_default() += count;
    }
}
