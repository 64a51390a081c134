//! Says of each ResourceQuota how much of it is used.
//!
//! Admission counts for itself and does not wait for this; it is for those who look. Behaviour
//! follows Kubernetes `pkg/controller/resourcequota`.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::admission::quota;
use crate::kinds::Kind;
use crate::registry::{Cluster, Part, WriteOptions};
use crate::store::{Event, Object};

#[cfg(test)]
mod tests;

/// Written all the time by nodes and controllers; counting them would never rest.
const RESTLESS: [&str; 2] = ["events", "leases"];

/// Runs the controller until the cluster is gone. It counts the kinds that Kubernetes has itself.
pub async fn run(cluster: Cluster) {
    let Some(quotas) = cluster.kind("", "resourcequotas") else { return };
    let kinds = cluster.kinds();
    let counted = kinds.iter().filter(|kind| {
        kind.namespaced
            && kind.custom.is_none()
            && !kind.read_only
            && !RESTLESS.contains(&kind.plural.as_str())
    });
    let mut feeds: Vec<_> =
        counted.map(|kind| cluster.store().subscribe(&kind.resource())).collect();
    while let Some(event) = poll_fn(|context| first(&mut feeds, context)).await {
        let mut namespaces = BTreeSet::from([event.object.namespace().to_owned()]);
        for feed in &mut feeds {
            while let Ok(event) = feed.try_recv() {
                namespaces.insert(event.object.namespace().to_owned());
            }
        }
        for namespace in namespaces {
            for quota in cluster.store().list(&quotas.resource(), &namespace).0 {
                count(&cluster, &quotas, &quota);
            }
        }
    }
}

/// The next event of any feed; `None` when the cluster is gone.
fn first(
    feeds: &mut [UnboundedReceiver<Arc<Event>>],
    context: &mut Context<'_>,
) -> Poll<Option<Arc<Event>>> {
    let ready = feeds.iter_mut().find_map(|feed| match feed.poll_recv(context) {
        Poll::Ready(event) => Some(event),
        Poll::Pending => None,
    });
    ready.map_or(Poll::Pending, Poll::Ready)
}

fn count(cluster: &Cluster, kind: &Kind, quota: &Object) {
    let (namespace, name) = (quota.namespace(), quota.name());
    let options = WriteOptions::default();
    let written = cluster.update_object(kind, namespace, name, Part::Status, options, |old| {
        let spec = &old.value["spec"];
        let mut new = old.value.clone();
        let used = quota::used(cluster, namespace, spec);
        new["status"] = json!({"hard": spec["hard"], "used": used});
        Ok(new)
    });
    if let Err(status) = written {
        // It has gone meanwhile: its event says so.
        tracing::debug!(%status, namespace, name, "a quota is not counted");
    }
}
