//! Kubernetes manifests from files, applied.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aerostat_cluster::kinds::Kind;
use aerostat_cluster::registry::{Part, WriteOptions};
use aerostat_cluster::{Cluster, Status};
use aerostat_schema::decode;
use anyhow::{Context, bail};
use serde_json::Value;

/// One object of a manifest file.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Where it stands.
    pub source: Source,
    /// The object.
    pub value: Value,
}

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// The line that its document starts on.
    pub line: usize,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// What applying an object did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is new.
    Created,
    /// It was there and has changed.
    Configured,
    /// It was there just so.
    Unchanged,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        })
    }
}

/// Reads the objects of a YAML or JSON file, or of all such files of a folder, in order.
///
/// # Errors
///
/// If a file cannot be read or is no YAML; the error names file and line.
pub fn read(path: &Path) -> anyhow::Result<Vec<Manifest>> {
    if !path.is_dir() {
        return read_file(path);
    }
    let shown = path.display();
    let entries = std::fs::read_dir(path).with_context(|| format!("{shown} cannot be read"))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.with_context(|| format!("{shown} cannot be read"))?.path();
        let known = ["yaml", "yml", "json"];
        if file.extension().is_some_and(|end| known.iter().any(|known| end == *known)) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("the folder {shown} holds no .yaml, .yml or .json file");
    }
    let read: anyhow::Result<Vec<_>> = files.iter().map(|file| read_file(file)).collect();
    Ok(read?.into_iter().flatten().collect())
}

fn read_file(file: &Path) -> anyhow::Result<Vec<Manifest>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    parse(file, &text)
}

/// Reads the objects in the text of a file; those of a `List` come one by one.
///
/// # Errors
///
/// If it is no YAML; the error names file and line.
pub fn parse(file: &Path, text: &str) -> anyhow::Result<Vec<Manifest>> {
    let shown = file.display();
    let documents = decode::documents(text).map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
    let mut manifests = Vec::new();
    for (line, value) in documents {
        let source = Source { file: file.to_owned(), line };
        match value["items"].as_array() {
            Some(items) if value["kind"] == "List" => {
                let one = |value: &Value| Manifest { source: source.clone(), value: value.clone() };
                manifests.extend(items.iter().map(one));
            }
            _ => manifests.push(Manifest { source, value }),
        }
    }
    Ok(manifests)
}

impl Manifest {
    /// The name that kubectl would print: `deployment.apps/web`.
    #[must_use]
    pub fn title(&self) -> String {
        let kind = self.value["kind"].as_str().unwrap_or("object").to_lowercase();
        let group = self.group_version().0;
        let name = self.value["metadata"]["name"].as_str().or(self.generate_name());
        let name = name.unwrap_or_default();
        if group.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{group}/{name}") }
    }

    fn generate_name(&self) -> Option<&str> {
        self.value["metadata"]["generateName"].as_str()
    }

    /// Group and version; the group of core kinds is empty.
    #[must_use]
    pub fn group_version(&self) -> (&str, &str) {
        let api_version = self.value["apiVersion"].as_str().unwrap_or_default();
        api_version.split_once('/').unwrap_or(("", api_version))
    }

    /// Checks all that can be checked before anything is applied: the kind is served, every field
    /// is known and has the right type.
    ///
    /// # Errors
    ///
    /// Says where and what; the kind may still come with a definition among `others`.
    pub fn check(&self, cluster: &Cluster, others: &[Self]) -> anyhow::Result<()> {
        let source = &self.source;
        for field in ["apiVersion", "kind"] {
            if self.value[field].as_str().is_none_or(str::is_empty) {
                bail!("{source}: the object has no `{field}`");
            }
        }
        let Some(kind) = self.kind(cluster) else {
            let definition = |other: &&Self| other.value["kind"] == "CustomResourceDefinition";
            let names = |other: &Self| {
                other.value["spec"]["names"]["kind"] == self.value["kind"]
                    && other.value["spec"]["group"] == self.group_version().0
            };
            if others.iter().filter(definition).any(names) {
                return Ok(());
            }
            bail!(
                "{source}: no kind {} in {}: this cluster does not serve it, and no definition of \
                 it is among the files",
                self.value["kind"],
                self.value["apiVersion"],
            );
        };
        if kind.custom.is_some() {
            return Ok(());
        }
        let (group, version) = self.group_version();
        let mut value = self.value.clone();
        match decode::prune_unknown(group, version, &kind.kind, &mut value) {
            Ok(problems) if problems.is_empty() => Ok(()),
            Ok(problems) => bail!("{source}: {}: {}", self.title(), problems.join(", ")),
            Err(error) => bail!("{source}: {}: {error}", self.title()),
        }
    }

    /// What the user should know of its kind.
    #[must_use]
    pub fn notice(&self, cluster: &Cluster) -> Option<String> {
        let notice = self.kind(cluster)?.notice()?;
        Some(format!("{}: {}: {notice}", self.source, self.title()))
    }

    /// The object as its type has it, for one that another server has made: fields that are not
    /// known here are left out.
    ///
    /// # Errors
    ///
    /// Says where a value does not fit its field.
    pub fn lenient(&self) -> anyhow::Result<Value> {
        let (group, version) = self.group_version();
        let mut value = self.value.clone();
        let kind = self.value["kind"].as_str().unwrap_or_default();
        match decode::prune_unknown(group, version, kind, &mut value) {
            Ok(_) => Ok(value),
            Err(error) => bail!("{}: {}: {error}", self.source, self.title()),
        }
    }

    /// The kind that the cluster serves it as.
    #[must_use]
    pub fn kind(&self, cluster: &Cluster) -> Option<Arc<Kind>> {
        let (group, version) = self.group_version();
        let wanted = self.value["kind"].as_str()?;
        cluster
            .kinds()
            .into_iter()
            .find(|kind| kind.group == group && kind.version == version && kind.kind == wanted)
    }

    /// Creates the object, or changes the fields that it names if it is there.
    ///
    /// # Errors
    ///
    /// What the API server would answer, and where the object stands.
    pub fn apply(&self, cluster: &Cluster) -> anyhow::Result<Applied> {
        let kind = self.kind(cluster).with_context(|| {
            format!(
                "{}: no kind {} in {}",
                self.source, self.value["kind"], self.value["apiVersion"]
            )
        })?;
        self.apply_as(cluster, &kind)
            .with_context(|| format!("{}: {} cannot be applied", self.source, self.title()))
    }

    fn apply_as(&self, cluster: &Cluster, kind: &Kind) -> Result<Applied, Status> {
        let metadata = &self.value["metadata"];
        let namespace = match metadata["namespace"].as_str() {
            _ if !kind.namespaced => "",
            Some(namespace) if !namespace.is_empty() => namespace,
            _ => "default",
        };
        let options = WriteOptions::default();
        let name = metadata["name"].as_str().unwrap_or_default();
        let old = match cluster.get_object(kind, namespace, name) {
            Ok(old) => old,
            Err(status) if status.code == 404 => {
                cluster.create_object(kind, namespace, self.value.clone(), options)?;
                return Ok(Applied::Created);
            }
            Err(status) => return Err(status),
        };
        let new = cluster.update_object(kind, namespace, name, Part::Main, options, |old| {
            let mut value = old.value.clone();
            json_patch::merge(&mut value, &self.value);
            value["metadata"]["resourceVersion"] = old.revision.to_string().into();
            Ok(value)
        })?;
        let same = new.revision == old.revision;
        Ok(if same { Applied::Unchanged } else { Applied::Configured })
    }
}
