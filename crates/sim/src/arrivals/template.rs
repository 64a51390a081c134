//! What comes: a Job or a Pod, made of a template.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aerostat_api::Duration;
use aerostat_cluster::kinds::Kind;
use aerostat_cluster::registry::WriteOptions;
use aerostat_cluster::{Cluster, Status};
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

use super::Arrival;
use crate::manifest::{self, Manifest, Source};

/// How long a container runs, see docs/simulation.md.
pub(crate) const DURATION: &str = "sim.aerostat.dev/duration";
/// Marks a Pod that goes once it has ended.
pub(crate) const ARRIVED: &str = "sim.aerostat.dev/arrived";

/// A manifest file with one object, or the object itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Template {
    /// Its path, relative to the scenario's.
    File(PathBuf),
    /// The object.
    Object(Value),
}

/// A template that was read.
#[derive(Clone, Debug)]
pub struct Work {
    name: String,
    manifest: Manifest,
    made: u64,
}

impl Work {
    /// Reads a template; its objects are called `name-1`, `name-2` and so on.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or holds something else than one Job or Pod.
    pub fn read(name: &str, template: &Template, folder: &Path) -> anyhow::Result<Self> {
        let mut manifests = match template {
            Template::File(file) => manifest::read(&folder.join(file))?,
            Template::Object(value) => {
                let source = Source { file: PathBuf::from("template"), line: 1 };
                vec![Manifest { source, value: value.clone() }]
            }
        };
        let (Some(mut manifest), true) = (manifests.pop(), manifests.is_empty()) else {
            bail!("template: it must hold exactly one object, a Job or a Pod");
        };
        let kind = manifest.value["kind"].as_str().unwrap_or_default().to_owned();
        let is_job = kind == "Job";
        if !is_job && kind != "Pod" {
            bail!(
                "{}: template: {kind:?} does not come and go: write a Job or a Pod",
                manifest.source
            );
        }
        let metadata = &mut manifest.value["metadata"];
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("generateName");
        }
        if is_job {
            // Otherwise a month of jobs stays in the cluster.
            let ttl = &mut manifest.value["spec"]["ttlSecondsAfterFinished"];
            if ttl.is_null() {
                *ttl = 0.into();
            }
        } else {
            manifest.value["metadata"]["annotations"][ARRIVED] = "true".into();
        }
        Ok(Self { name: name.to_owned(), manifest, made: 0 })
    }

    /// Whether nobody but us takes away what has ended.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.manifest.value["kind"] == "Pod"
    }

    /// Checks the template against the cluster that it will be created in.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the template, and where.
    pub fn check(&self, cluster: &Cluster) -> anyhow::Result<()> {
        self.manifest.check(cluster, &[])?;
        let (kind, namespace, value) = self.object(cluster, 1, &Arrival::default())?;
        let options = WriteOptions { dry_run: true };
        match cluster.create_object(&kind, &namespace, value, options) {
            // What else stands in the way may be gone when the time comes.
            Err(status) if matches!(status.code, 400 | 422) => {
                Err(status).with_context(|| format!("{}: template", self.manifest.source))
            }
            _ => Ok(()),
        }
    }

    /// How many pods one of them makes at least: a Job's completions.
    #[must_use]
    pub fn pods(&self) -> u64 {
        let completions = &self.manifest.value["spec"]["completions"];
        if self.is_pod() { 1 } else { completions.as_u64().unwrap_or(1) }
    }

    /// Creates the next one.
    ///
    /// # Errors
    ///
    /// What the API server says.
    pub fn create(&mut self, cluster: &Cluster, arrival: &Arrival) -> Result<(), Status> {
        self.made += 1;
        let object = self.object(cluster, self.made, arrival);
        let (kind, namespace, value) =
            object.map_err(|error| Status::new(400, "BadRequest", format!("{error:#}")))?;
        cluster.create_object(&kind, &namespace, value, WriteOptions::default()).map(|_| ())
    }

    fn object(
        &self,
        cluster: &Cluster,
        number: u64,
        arrival: &Arrival,
    ) -> anyhow::Result<(Arc<Kind>, String, Value)> {
        let kind = self.manifest.kind(cluster).context("template: the kind is not served")?;
        let mut value = self.manifest.value.clone();
        value["metadata"]["name"] = format!("{}-{number}", self.name).into();
        let pod = if self.is_pod() { &mut value } else { &mut value["spec"]["template"] };
        if let Some(duration) = arrival.duration {
            let text = Duration(duration).to_string();
            pod["metadata"]["annotations"][DURATION] = text.into();
        }
        let container = pod["spec"]["containers"].get_mut(0);
        if let Some(container) = container.filter(|_| !arrival.requests.is_empty()) {
            for (resource, quantity) in &arrival.requests {
                container["resources"]["requests"][resource] = quantity.clone().into();
                // Resources of others cannot be asked for without a limit.
                if resource.contains('/') {
                    container["resources"]["limits"][resource] = quantity.clone().into();
                }
            }
        }
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        Ok((kind, namespace, value))
    }
}
