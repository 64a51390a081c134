//! From files to what is planned on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use aerostat_api::{NodeClaim, NodeClass, NodePool, builtin};
use aerostat_clock::{Clock, Seeds};
use aerostat_cluster::registry::{Part, WriteOptions, timestamp};
use aerostat_cluster::{Cluster, Options, bootstrap};
use aerostat_engine::pod::{Owner, Pod};
use aerostat_sim::manifest::{self, Manifest, Source};
use aerostat_sim::world;
use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::volumes;
use super::workload::Workload;

/// What the files say.
pub struct Input {
    /// Objects that decide about pods: NodePools, PriorityClasses, DaemonSets and so on.
    pub cluster: Cluster,
    /// Pods that want a place.
    pub pods: Vec<Arc<Pod>>,
    /// Machines that are there.
    pub claims: Vec<NodeClaim>,
    /// Nodes that are there.
    pub nodes: Vec<core::Node>,
    /// Pods as a cluster has them, bound or not.
    pub running: Vec<core::Pod>,
    /// Names of the NodePools.
    pub pools: Vec<String>,
    /// Where what makes pods stands, by namespace, name and kind.
    makers: BTreeMap<(String, String, String), Source>,
}

/// Reads a file, a folder of files, or stdin (`-`).
///
/// # Errors
///
/// Names the file and the line that cannot be read.
pub fn read(path: &Path) -> anyhow::Result<Vec<Manifest>> {
    if path != Path::new("-") {
        return manifest::read(path);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("stdin cannot be read")?;
    manifest::parse(Path::new("stdin"), &text)
}

impl Input {
    /// Nothing yet.
    ///
    /// # Errors
    ///
    /// If the registry refuses what every cluster has: a fault of this program.
    pub fn new(clock: Clock) -> anyhow::Result<Self> {
        let cluster = Cluster::new(&Options { clock, seeds: Seeds::new(0) });
        bootstrap::run(&cluster, "")
            .and_then(|()| world::install_definitions(&cluster))
            .context("the objects that every cluster has cannot be created")?;
        Ok(Self {
            cluster,
            pods: Vec::new(),
            claims: Vec::new(),
            nodes: Vec::new(),
            running: Vec::new(),
            pools: Vec::new(),
            makers: BTreeMap::new(),
        })
    }

    /// Takes in what a cluster holds already: machines, pods, and what decides about pods. What
    /// makes pods is left out, since the pods are there.
    ///
    /// # Errors
    ///
    /// Names file, line and field of what cannot be read.
    pub fn add_state(&mut self, manifests: Vec<Manifest>) -> anyhow::Result<()> {
        let mut others = Vec::new();
        for manifest in manifests {
            let makes_pods = matches!(
                kind(&manifest),
                "Deployment"
                    | "ReplicaSet"
                    | "StatefulSet"
                    | "ReplicationController"
                    | "Job"
                    | "CronJob"
            );
            if kind(&manifest) == "Pod" {
                self.running.push(typed(&manifest, manifest.lenient()?)?);
            } else if !makes_pods {
                others.push(manifest);
            }
        }
        self.add(others)
    }

    /// Takes in manifests.
    ///
    /// # Errors
    ///
    /// Names file, line and field of what the API server of a cluster would refuse.
    pub fn add(&mut self, manifests: Vec<Manifest>) -> anyhow::Result<()> {
        let mut served = Vec::new();
        for manifest in manifests {
            let bound = manifest.value["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty());
            match kind(&manifest) {
                "Node" => self.nodes.push(typed(&manifest, manifest.lenient()?)?),
                "NodeClaim" => self.claims.push(typed(&manifest, manifest.value.clone())?),
                "Pod" if bound => self.running.push(typed(&manifest, manifest.lenient()?)?),
                _ if is_foreign(&manifest, &self.cluster) => eprintln!(
                    "notice: {}: {} is left out: the planner does not know kind {} of {}",
                    manifest.source,
                    manifest.title(),
                    manifest.value["kind"],
                    manifest.value["apiVersion"],
                ),
                _ => served.push(as_new(manifest)),
            }
        }
        self.assume_namespaces(&served)?;
        for manifest in &served {
            manifest.check(&self.cluster, &served)?;
        }
        // What makes pods comes last: it may name a class from a later file.
        let (pods, others): (Vec<_>, Vec<_>) = served.iter().partition(|manifest| {
            matches!(
                kind(manifest),
                "Pod"
                    | "Deployment"
                    | "ReplicaSet"
                    | "StatefulSet"
                    | "ReplicationController"
                    | "Job"
                    | "CronJob"
            )
        });
        for manifest in others {
            manifest.apply(&self.cluster)?;
            if kind(manifest) == "NodePool" {
                self.pools.extend(manifest.value["metadata"]["name"].as_str().map(str::to_owned));
            }
        }
        for manifest in pods {
            self.note_maker(manifest)?;
            self.add_pods(manifest).with_context(|| {
                format!("{}: {} cannot be planned", manifest.source, manifest.title())
            })?;
        }
        Ok(())
    }

    /// Namespaces, and the service account in them, are taken as there.
    fn assume_namespaces(&self, manifests: &[Manifest]) -> anyhow::Result<()> {
        let kind = self.cluster.kind("", "namespaces").context("namespaces are served")?;
        let named: BTreeSet<&str> = manifests.iter().map(namespace).collect();
        for name in named {
            let own = |manifest: &&Manifest| {
                self::kind(manifest) == "Namespace" && manifest.value["metadata"]["name"] == name
            };
            match manifests.iter().find(own) {
                Some(manifest) => {
                    manifest.apply(&self.cluster)?;
                }
                None if self.cluster.get_object(&kind, "", name).is_err() => {
                    let value = json!({"apiVersion": "v1", "kind": "Namespace",
                        "metadata": {"name": name}});
                    let source = manifests.iter().find(|other| namespace(other) == name);
                    let at = source.map(|manifest| manifest.source.to_string()).unwrap_or_default();
                    self.cluster
                        .create_object(&kind, "", value, WriteOptions::default())
                        .with_context(|| format!("{at}: metadata.namespace"))?;
                }
                None => {}
            }
            bootstrap::populate(&self.cluster, name, "")
                .with_context(|| format!("namespace {name} cannot be set up"))?;
        }
        Ok(())
    }

    /// Remembers a pod, or what makes pods; the same one twice is a mistake.
    fn note_maker(&mut self, manifest: &Manifest) -> anyhow::Result<()> {
        let Some(name) = manifest.value["metadata"]["name"].as_str() else { return Ok(()) };
        let key = (namespace(manifest).to_owned(), name.to_owned(), kind(manifest).to_owned());
        match self.makers.insert(key, manifest.source.clone()) {
            None => Ok(()),
            Some(first) => {
                anyhow::bail!("{}: {} is in {first} already", manifest.source, manifest.title())
            }
        }
    }

    /// What the names of an object's pods begin with: its own name, and its kind if an object of
    /// another kind has the same.
    fn base(&self, namespace: &str, name: &str, kind: &str) -> String {
        let first = (namespace.to_owned(), name.to_owned(), String::new());
        let mut same = self
            .makers
            .range(first..)
            .take_while(|((ns, other, _), _)| ns.as_str() == namespace && other.as_str() == name);
        if same.any(|((_, _, other), _)| other != kind && other != "Pod") {
            format!("{name}-{}", kind.to_lowercase())
        } else {
            name.to_owned()
        }
    }

    /// The pods that an object is, or makes.
    fn add_pods(&mut self, manifest: &Manifest) -> anyhow::Result<()> {
        let name = manifest.value["metadata"]["name"].as_str();
        if kind(manifest) == "Pod" {
            let base = manifest.value["metadata"]["generateName"].as_str();
            let mut value = manifest.value.clone();
            if let (None, Some(base)) = (name, base) {
                value["metadata"]["name"] = format!("{base}{}", self.pods.len()).into();
            }
            let pod = self.admit(namespace(manifest), value)?;
            self.pods.push(Arc::new(pod));
            return Ok(());
        }
        let served = manifest.kind(&self.cluster).context("its kind is not served")?;
        let dry = WriteOptions { dry_run: true };
        let value = manifest.value.clone();
        let object =
            self.cluster.create_object(&served, namespace(manifest), value, dry)?.value.clone();
        let Some(workload) = Workload::of(&object)? else { return Ok(()) };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let mut pod = self
            .admit(namespace(manifest), workload.pod(&format!("{name}-0")))
            .context("spec.template")?;
        pod.owner = Some(Owner {
            kind: kind(manifest).to_owned(),
            name: name.to_owned(),
            uid: format!("{}/{name}", namespace(manifest)),
        });
        let base = self.base(namespace(manifest), name, kind(manifest));
        let pod = |at| Arc::new(Pod { name: format!("{base}-{at}"), ..pod.clone() });
        self.pods.extend((0..workload.count).map(pod));
        Ok(())
    }

    /// A pod as admission would make it.
    fn admit(&self, namespace: &str, mut value: Value) -> anyhow::Result<Pod> {
        // Who a pod acts as does not decide where it goes.
        if let Some(spec) = value["spec"].as_object_mut() {
            spec.remove("serviceAccountName");
            spec.remove("serviceAccount");
        }
        let kind = self.cluster.kind("", "pods").context("pods are served")?;
        let dry = WriteOptions { dry_run: true };
        let object = self.cluster.create_object(&kind, namespace, value, dry)?;
        let pod: core::Pod = serde_json::from_value(object.value.clone())?;
        let claims =
            self.cluster.kind("", "persistentvolumeclaims").context("claims are served")?;
        for claim in volumes::claims(&pod) {
            match self.cluster.create_object(&claims, namespace, claim, WriteOptions::default()) {
                // The file has it.
                Err(status) if status.reason == "AlreadyExists" => {}
                other => drop(other.context("spec.volumes")?),
            }
        }
        let mut pod = Pod::from_k8s(&pod).map_err(anyhow::Error::msg)?;
        pod.uid = String::new();
        Ok(pod)
    }

    /// Makes every NodePool ready, with its class, and creates one that allows everything if there
    /// is none and `none` elsewhere.
    ///
    /// # Errors
    ///
    /// If the registry refuses one.
    pub fn settle_pools(&mut self, others: bool) -> anyhow::Result<()> {
        let served = self.cluster.kind("karpenter.sh", "nodepools").context("pools are served")?;
        if self.pools.is_empty() && !others {
            let pool = serde_json::to_value(everything())?;
            self.cluster.create_object(&served, "", pool, WriteOptions::default())?;
            self.pools.push(EVERYTHING.to_owned());
        }
        let classes =
            self.cluster.kind("eks.amazonaws.com", "nodeclasses").context("classes are served")?;
        for name in &self.pools {
            let pool = self.cluster.get_object(&served, "", name)?;
            let class = &pool.value["spec"]["template"]["spec"]["nodeClassRef"];
            let class_name = class["name"].as_str().unwrap_or_default();
            if class["kind"] == "NodeClass"
                && self.cluster.get_object(&classes, "", class_name).is_err()
            {
                if name != EVERYTHING {
                    eprintln!(
                        "notice: NodeClass {class_name} of NodePool {name} is not among the files: \
                         taken as Auto Mode's default one"
                    );
                }
                let mut class: NodeClass = builtin::node_class();
                class.metadata.name = Some(class_name.to_owned());
                let class = serde_json::to_value(class)?;
                self.cluster.create_object(&classes, "", class, WriteOptions::default())?;
            }
            let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": timestamp(self.cluster.clock().now())});
            let options = WriteOptions::default();
            self.cluster.update_object(&served, "", name, Part::Status, options, |old| {
                let mut value = old.value.clone();
                value["status"]["conditions"] = json!([ready]);
                Ok(value)
            })?;
        }
        Ok(())
    }
}

/// Name of the pool that is assumed if none is given.
const EVERYTHING: &str = "default";

/// A pool that allows everything.
fn everything() -> NodePool {
    let mut pool = builtin::general_purpose();
    pool.metadata = kube::api::ObjectMeta {
        name: Some(EVERYTHING.to_owned()),
        ..kube::api::ObjectMeta::default()
    };
    pool.spec.template.spec.requirements = Vec::new();
    pool
}

/// Makes a pod one that the scheduler has tried in vain, and long ago.
pub fn waits(pod: &Arc<Pod>) -> Arc<Pod> {
    let mut pod = Pod::clone(pod);
    pod.unschedulable_since = Some(Timestamp::UNIX_EPOCH);
    Arc::new(pod)
}

fn kind(manifest: &Manifest) -> &str {
    manifest.value["kind"].as_str().unwrap_or_default()
}

fn namespace(manifest: &Manifest) -> &str {
    let namespace = manifest.value["metadata"]["namespace"].as_str();
    namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// Whether an object is of another project's kind, that no built-in group could have.
fn is_foreign(manifest: &Manifest, cluster: &Cluster) -> bool {
    let group = manifest.group_version().0;
    let known = cluster.kinds().iter().any(|kind| kind.group == group);
    !known && !group.is_empty() && !kind(manifest).is_empty()
}

/// An object as its author wrote it: without what a server has added.
fn as_new(mut manifest: Manifest) -> Manifest {
    if let Some(object) = manifest.value.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = manifest.value["metadata"].as_object_mut() {
        for field in ["resourceVersion", "managedFields", "uid", "creationTimestamp", "generation"]
        {
            metadata.remove(field);
        }
    }
    manifest
}

fn typed<K: DeserializeOwned>(manifest: &Manifest, value: Value) -> anyhow::Result<K> {
    serde_json::from_value(value)
        .with_context(|| format!("{}: {} cannot be read", manifest.source, manifest.title()))
}
