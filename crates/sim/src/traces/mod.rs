//! What other clusters were like: recorded changes, and dumps of what there was.
//!
//! | module | holds |
//! |---|---|
//! | [`simkube`] | changes over time, as SimKube records them |
//! | [`dump`] | what `kubectl get … -A -o yaml` prints |
//! | [`record`](mod@record) | a trace of a cluster, made from what its watches tell |
//! | `anonymise` | an object without what tells whose it is |
//! | `transplant` | an object of another cluster, as this one can take it |

mod anonymise;
pub mod dump;
pub mod record;
pub mod simkube;
mod transplant;

use std::collections::BTreeMap;

use aerostat_cluster::Cluster;
use aerostat_cluster::registry::DeleteOptions;
use serde_json::Value;

use crate::manifest::{Manifest, Source};
use crate::report::LeftOut;
use crate::size;

/// What could not be taken over: what and why, and how many pods that are.
#[derive(Clone, Debug, Default)]
pub struct Omissions(BTreeMap<(String, String), (u64, u64)>);

impl Omissions {
    /// One more object of a kind, of so many pods.
    pub(crate) fn add(&mut self, kind: &str, why: String, pods: u64) {
        let count = self.0.entry((kind.to_owned(), why)).or_default();
        count.0 += 1;
        count.1 += pods;
    }

    /// As a report has them.
    pub(crate) fn list(&self) -> impl Iterator<Item = LeftOut> + '_ {
        self.0.iter().map(|((kind, why), (count, pods))| LeftOut {
            what: format!("{count} {kind}"),
            why: why.clone(),
            pods: *pods,
        })
    }
}

/// Whether this cluster serves the kind and somebody acts on it.
fn acts(cluster: &Cluster, manifest: &Manifest) -> bool {
    manifest.kind(cluster).is_some_and(|kind| kind.notice().is_none())
}

/// Creates or changes an object of another cluster, and its namespace; what is refused is noted.
pub(crate) fn plant(cluster: &Cluster, source: &Source, value: &Value, left: &mut Omissions) {
    let kind = value["kind"].as_str().unwrap_or("object").to_owned();
    let Some(value) = transplant::fresh(value) else {
        left.add(&kind, "this cluster makes its own".to_owned(), 0);
        return;
    };
    let pods = transplant::pods(&value);
    let manifest = Manifest { source: source.clone(), value };
    if manifest.kind(cluster).is_none() {
        left.add(&kind, "this cluster does not serve the kind".to_owned(), pods);
        return;
    }
    if !acts(cluster, &manifest) {
        left.add(&kind, "nothing acts on it here".to_owned(), pods);
        return;
    }
    if let Some(why) = size::excess(&manifest.value) {
        left.add(&kind, why, pods);
        return;
    }
    transplant::provide_namespace(cluster, &manifest.value);
    if let Err(error) = manifest.apply(cluster) {
        left.add(&kind, error.root_cause().to_string(), pods);
    }
}

/// Deletes an object of another cluster, if it is here.
pub(crate) fn uproot(cluster: &Cluster, source: &Source, value: &Value) {
    let manifest = Manifest { source: source.clone(), value: value.clone() };
    let Some(kind) = manifest.kind(cluster) else { return };
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    // What was never taken over is not here.
    let _ = cluster.delete_object(&kind, namespace, name, &DeleteOptions::default());
}

#[cfg(test)]
mod tests;
