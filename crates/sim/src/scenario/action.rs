//! What the steps of a scenario do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use aerostat_cluster::Cluster;
use aerostat_cluster::kinds::Kind;
use aerostat_cluster::registry::{self, DeleteOptions, Part, WriteOptions};
use aerostat_cluster::store::Object;
use aerostat_provider::sim::Unavailable;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::manifest;
use crate::script::Stage;
use crate::show;
use crate::size::{self, MOST_PODS};

/// What a step does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Applies a manifest file; its path is relative to the scenario's.
    Apply(PathBuf),
    /// Sets how many replicas objects have: `{deployments.apps/default/web: 3}`.
    Scale(BTreeMap<String, i64>),
    /// Applies a manifest file of which the cluster refuses every object, and shows why.
    Refuse(PathBuf),
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
    pub(crate) fn run(&self, stage: &Stage) -> anyhow::Result<String> {
        let cluster = &stage.cluster;
        let mut text = String::new();
        match self {
            Self::Apply(file) => {
                let manifests = manifest::read(&stage.folder.join(file))?;
                for manifest in &manifests {
                    manifest.check(cluster, &manifests)?;
                    if let Some(why) = size::excess(&manifest.value) {
                        bail!("{}: {}: {why}", manifest.source, manifest.title());
                    }
                }
                for manifest in &manifests {
                    writeln!(text, "> {} {}", manifest.title(), manifest.apply(cluster)?)?;
                }
            }
            Self::Scale(all) => {
                for (what, replicas) in all {
                    scale(cluster, what, *replicas).with_context(|| format!("scale: {what}"))?;
                    writeln!(text, "> {what} scaled to {replicas}")?;
                }
            }
            Self::Refuse(file) => {
                for manifest in manifest::read(&stage.folder.join(file))? {
                    match manifest.apply(cluster) {
                        Ok(applied) => bail!("{} is {applied}, not refused", manifest.title()),
                        Err(error) => {
                            let why = error.root_cause();
                            writeln!(text, "> {} refused: {why}", manifest.title())?;
                        }
                    }
                }
            }
            Self::Patch(merge) => {
                let (kind, objects) = find(cluster, &merge.of)?;
                let part = if merge.status { Part::Status } else { Part::Main };
                for object in objects.iter().take(merge.first.unwrap_or(usize::MAX)) {
                    let (namespace, name) = (object.namespace(), object.name());
                    let options = WriteOptions::default();
                    let mut patched = object.value.clone();
                    json_patch::merge(&mut patched, &merge.with);
                    if let Some(why) = size::excess(&patched) {
                        bail!("patch: {}: {why}", merge.of);
                    }
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
            Self::Fault(fault) => text = fault.strike(stage)?,
            Self::Show(what) => {
                writeln!(text, "> show {what}")?;
                text.push_str(&show::show(cluster, what)?);
            }
        }
        Ok(text)
    }
}

fn scale(cluster: &Cluster, what: &str, replicas: i64) -> anyhow::Result<()> {
    if !(0..=MOST_PODS).contains(&replicas) {
        bail!("{replicas} replicas cannot be simulated: write 0 to {MOST_PODS}");
    }
    let (kind, objects) = find(cluster, what)?;
    let scale = json!({"spec": {"replicas": replicas}});
    for object in objects {
        let (namespace, name) = (object.namespace(), object.name());
        let (part, options) = (Part::Main, WriteOptions::default());
        cluster.update_object(&kind, namespace, name, part, options, |old| {
            registry::scaled(&kind, old, &scale)
        })?;
    }
    Ok(())
}

impl Fault {
    fn strike(&self, stage: &Stage) -> anyhow::Result<String> {
        Ok(match self {
            Self::Unavailable(offerings) => {
                stage.cloud.set_unavailable(offerings.clone());
                format!("> {} offerings are out of stock\n", offerings.len())
            }
            Self::NeverBoot(count) => {
                stage.cloud.keep_from_booting(*count);
                format!("> the next {count} machines never boot\n")
            }
            Self::Lose(count) => {
                each_machine(stage, *count, "is lost", |id| stage.cloud.lose(id, false))?
            }
            Self::Terminate(count) => {
                each_machine(stage, *count, "is terminated", |id| stage.cloud.lose(id, true))?
            }
            Self::Interrupt(count) => {
                each_machine(stage, *count, "is interrupted", |id| stage.cloud.interrupt(id))?
            }
        })
    }
}

/// Does something to the machines of the first nodes, in the order of their names.
fn each_machine(
    stage: &Stage,
    count: usize,
    what: &str,
    strike: impl Fn(&str),
) -> anyhow::Result<String> {
    let mut text = String::new();
    let (_, nodes) = find(&stage.cluster, "nodes")?;
    for node in nodes.iter().take(count) {
        let id = node.value["spec"]["providerID"].as_str();
        strike(id.with_context(|| format!("node {} has no machine", node.name()))?);
        writeln!(text, "> machine {} {what}", node.name())?;
    }
    Ok(text)
}

/// The objects that `plural.group`, or `plural.group/namespace/name`, names.
pub(super) fn find(cluster: &Cluster, what: &str) -> anyhow::Result<(Arc<Kind>, Vec<Arc<Object>>)> {
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
