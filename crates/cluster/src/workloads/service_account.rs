//! Gives every namespace its service account `default` and the root CA, and gives them back when
//! they are deleted or changed.
//!
//! Behaviour follows Kubernetes `pkg/controller/serviceaccount` and
//! `pkg/controller/certificates/rootcacertpublisher`.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};

use super::owner::key;
use super::queue::Queue;
use crate::bootstrap::{self, ROOT_CA};
use crate::informer::Change;
use crate::registry::Cluster;

#[cfg(test)]
mod tests;

/// Runs the controller until the cluster is gone. The CA is the one that the bootstrap put into
/// `kube-system`; without it nothing is done.
pub async fn run(cluster: Cluster) {
    let stored = cluster.get::<ConfigMap>("kube-system", ROOT_CA);
    let data = stored.as_ref().and_then(|map| map.data.as_ref());
    let Some(ca) = data.and_then(|data| data.get("ca.crt")).cloned() else {
        tracing::warn!("the cluster was not bootstrapped: namespaces get no service account");
        return;
    };
    let mut namespaces = cluster.informer::<Namespace>();
    let mut accounts = cluster.informer::<ServiceAccount>();
    let mut maps = cluster.informer::<ConfigMap>();
    let mut queue = Queue::default();
    loop {
        let changed = tokio::select! {
            biased;
            change = namespaces.next() => match change {
                Some(Change::Applied { new, old: None }) => Some(key(&new.metadata).1),
                Some(_) => None,
                None => return,
            },
            change = accounts.next() => match change {
                Some(Change::Deleted(account)) => Some(key(&account.metadata))
                    .filter(|(_, name)| name == "default")
                    .map(|(namespace, _)| namespace),
                Some(_) => None,
                None => return,
            },
            change = maps.next() => match change {
                Some(change) => changed_map(change),
                None => return,
            },
            () = queue.due(cluster.clock()) => None,
        };
        if let Some(namespace) = changed {
            queue.add(namespace);
        }
        let now = cluster.clock().now();
        while let Some(namespace) = queue.pop(now) {
            match populate(&cluster, &namespace, &ca) {
                Ok(()) => queue.succeeded(&namespace),
                Err(status) => {
                    tracing::debug!(%status, namespace, "namespace is populated later");
                    queue.retry(namespace, now);
                }
            }
        }
    }
}

/// The namespace of a root CA that was deleted or changed.
fn changed_map(change: Change<ConfigMap>) -> Option<String> {
    let map = match change {
        Change::Applied { new, old: Some(old) } if old.data != new.data => new,
        Change::Applied { .. } => return None,
        Change::Deleted(map) => map,
    };
    let (namespace, name) = key(&map.metadata);
    (name == ROOT_CA).then_some(namespace)
}

fn populate(cluster: &Cluster, namespace: &str, ca: &str) -> Result<(), crate::Status> {
    let active = cluster
        .get::<Namespace>("", namespace)
        .is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none());
    if !active {
        return Ok(());
    }
    bootstrap::populate(cluster, namespace, ca)?;
    let right = |map: &ConfigMap| {
        map.data.as_ref().is_some_and(|data| {
            data.len() == 1 && data.get("ca.crt").is_some_and(|text| text == ca)
        })
    };
    if cluster.get::<ConfigMap>(namespace, ROOT_CA).is_some_and(|map| !right(&map)) {
        cluster.modify::<ConfigMap>(namespace, ROOT_CA, |map| {
            map.data = Some([("ca.crt".to_owned(), ca.to_owned())].into());
        })?;
    }
    Ok(())
}
