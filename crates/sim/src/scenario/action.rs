//! What the steps of a scenario do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aerostat_cluster::Cluster;
use aerostat_cluster::kinds::Kind;
use aerostat_cluster::registry::{DeleteOptions, Part, WriteOptions};
use aerostat_cluster::store::Object;
use aerostat_provider::sim::Unavailable;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::world::World;
use crate::{manifest, show};

/// What a step does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Applies a manifest file; its path is relative to the scenario's.
    Apply(PathBuf),
    /// Changes objects.
    Patch(Merge),
    /// Deletes an object: `deployments.apps/default/balloon`.
    Delete(String),
    /// Deletes all objects of a kind: `nodes`.
    DeleteAll(String),
    /// Something goes wrong outside the cluster.
    Fault(Fault),
    /// Shows objects: `pods`, `nodes`, `nodeclaims`, `conditions nodepools.karpenter.sh`, or
    /// `events pod/default/pi-*`.
    Show(String),
}

/// A JSON merge patch.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Merge {
    /// Of which objects: `nodes` for all of a kind, `nodepools.karpenter.sh//system` for one.
    pub of: String,
    /// Of so many of them, in the order of their names; of all unless set.
    pub first: Option<usize>,
    /// What changes.
    pub with: Value,
    /// Whether it goes to the status.
    #[serde(default)]
    pub status: bool,
}

/// Something that goes wrong outside the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// From now on these offerings, and no others, are out of stock.
    Unavailable(Vec<Unavailable>),
    /// The next so many machines never join.
    NeverBoot(usize),
    /// The machines of the first so many nodes are gone, and nobody says so.
    Lose(usize),
    /// The machines of the first so many nodes are terminated by somebody else, and the cloud tells.
    Terminate(usize),
    /// The machines of the first so many nodes are taken back in two minutes.
    Interrupt(usize),
}

impl Action {
    /// Does it; what there is to tell of it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or the cluster refuses.
    pub(super) fn run(&self, world: &World, folder: &Path) -> anyhow::Result<String> {
        let cluster = &world.cluster;
        let mut text = String::new();
        match self {
            Self::Apply(file) => {
                let manifests = manifest::read(&folder.join(file))?;
                for manifest in &manifests {
                    manifest.check(cluster, &manifests)?;
                }
                for manifest in &manifests {
                    writeln!(text, "> {} {}", manifest.title(), manifest.apply(cluster)?)?;
                }
            }
            Self::Patch(merge) => {
                let (kind, objects) = find(cluster, &merge.of)?;
                let part = if merge.status { Part::Status } else { Part::Main };
                for object in objects.iter().take(merge.first.unwrap_or(usize::MAX)) {
                    let (namespace, name) = (object.namespace(), object.name());
                    let options = WriteOptions::default();
                    cluster.update_object(&kind, namespace, name, part, options, |old| {
                        let mut value = old.value.clone();
                        json_patch::merge(&mut value, &merge.with);
                        Ok(value)
                    })?;
                    writeln!(text, "> {} {name} patched: {}", kind.plural, merge.with)?;
                }
            }
            Self::Delete(what) => {
                if what.splitn(3, '/').count() < 3 {
                    bail!("delete: {what:?} is no plural.group/namespace/name");
                }
                let (kind, objects) = find(cluster, what)?;
                let resource = what.split('/').next().unwrap_or_default();
                for object in objects {
                    let (namespace, name) = (object.namespace(), object.name());
                    cluster.delete_object(&kind, namespace, name, &DeleteOptions::default())?;
                    writeln!(text, "> {resource} {namespace}/{name} deleted")?;
                }
            }
            Self::DeleteAll(resource) => {
                let (kind, objects) = find(cluster, resource)?;
                for object in objects {
                    let (namespace, name) = (object.namespace(), object.name());
                    cluster.delete_object(&kind, namespace, name, &DeleteOptions::default())?;
                    writeln!(text, "> {resource} {name} deleted")?;
                }
            }
            Self::Fault(fault) => text = fault.strike(world)?,
            Self::Show(what) => {
                writeln!(text, "> show {what}")?;
                text.push_str(&show::show(cluster, what)?);
            }
        }
        Ok(text)
    }
}

impl Fault {
    fn strike(&self, world: &World) -> anyhow::Result<String> {
        Ok(match self {
            Self::Unavailable(offerings) => {
                world.cloud.set_unavailable(offerings.clone());
                format!("> {} offerings are out of stock\n", offerings.len())
            }
            Self::NeverBoot(count) => {
                world.cloud.keep_from_booting(*count);
                format!("> the next {count} machines never boot\n")
            }
            Self::Lose(count) => {
                each_machine(world, *count, "is lost", |id| world.cloud.lose(id, false))?
            }
            Self::Terminate(count) => {
                each_machine(world, *count, "is terminated", |id| world.cloud.lose(id, true))?
            }
            Self::Interrupt(count) => {
                each_machine(world, *count, "is interrupted", |id| world.cloud.interrupt(id))?
            }
        })
    }
}

/// Does something to the machines of the first nodes, in the order of their names.
fn each_machine(
    world: &World,
    count: usize,
    what: &str,
    strike: impl Fn(&str),
) -> anyhow::Result<String> {
    let mut text = String::new();
    let (_, nodes) = find(&world.cluster, "nodes")?;
    for node in nodes.iter().take(count) {
        let id = node.value["spec"]["providerID"].as_str();
        strike(id.with_context(|| format!("node {} has no machine", node.name()))?);
        writeln!(text, "> machine {} {what}", node.name())?;
    }
    Ok(text)
}

/// The objects that `plural.group`, or `plural.group/namespace/name`, names.
fn find(cluster: &Cluster, what: &str) -> anyhow::Result<(Arc<Kind>, Vec<Arc<Object>>)> {
    let mut parts = what.splitn(3, '/');
    let resource = parts.next().unwrap_or_default();
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let kind = cluster.kind(group, plural).with_context(|| format!("no {resource}"))?;
    let objects = match (parts.next(), parts.next()) {
        (Some(namespace), Some(name)) => vec![cluster.get_object(&kind, namespace, name)?],
        _ => cluster.store().list(&kind.resource(), "").0,
    };
    Ok((kind, objects))
}
