//! Scenario files: what is there, step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use aerostat_api::labels;
use aerostat_api::{NodeOverlay, NodePool, Quantity};
use aerostat_engine::instance::{InstanceType, Offering, Reservation};
use aerostat_engine::overlay::{Overlay, Target};
use aerostat_engine::pod::{Owner, Pod, Selector};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{
    MinValuesPolicy, Obsolete, Pdb, Pool, Preferences, Promise, Stage, StateNode,
};
use aerostat_engine::storage::{Claim, Class, Volume};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use super::{World, pool, type_labels};

/// A scenario.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// A file of `tests/catalogs`.
    pub catalog: Option<String>,
    #[serde(default)]
    pub types: Vec<Kind>,
    #[serde(default)]
    pub pools: Vec<NodePool>,
    #[serde(default)]
    pub overlays: Vec<NodeOverlay>,
    #[serde(default)]
    pub daemons: Vec<core::Pod>,
    pub steps: Vec<Step>,
}

/// An instance type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kind {
    name: String,
    #[serde(default = "amd64")]
    arch: String,
    cpu: Quantity,
    memory: Quantity,
    allocatable: BTreeMap<String, Quantity>,
    zones: Vec<String>,
    price: f64,
    spot: Option<f64>,
    #[serde(default)]
    sold_out: Vec<String>,
    #[serde(default)]
    reserved: Vec<Reserved>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Capacity of a type that was bought in advance.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reserved {
    id: String,
    zone: String,
    count: u32,
}

/// What changes at a moment; the plan of the step before has been carried out by then.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    pub at: String,
    #[serde(default)]
    nodes: Vec<NodeSpec>,
    #[serde(default)]
    pods: Vec<PodSpec>,
    #[serde(default)]
    pub remove: Vec<String>,
    /// Machines that are gone, by the name of their claim.
    #[serde(default)]
    lost: Vec<String>,
    /// Labels of namespaces.
    #[serde(default)]
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// PersistentVolumeClaims, PersistentVolumes and StorageClasses.
    #[serde(default)]
    claims: Vec<core::PersistentVolumeClaim>,
    #[serde(default)]
    volumes: Vec<core::PersistentVolume>,
    #[serde(default)]
    storage_classes: Vec<StorageClass>,
    /// PodDisruptionBudgets and how many pods they let go, in the namespace `default`.
    #[serde(default)]
    pdbs: Vec<PdbSpec>,
    /// Grace for preemption, in seconds.
    preemption_grace: Option<u64>,
    max_instance_types: Option<usize>,
    /// `Respect`, `Ignore` or `Priced`.
    preferences: Option<String>,
    /// `MIN_VALUES_POLICY`.
    #[serde(default)]
    best_effort: bool,
}

/// A PodDisruptionBudget for the pods with these labels.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PdbSpec {
    name: String,
    labels: BTreeMap<String, String>,
    allowed: i32,
}

/// A machine; one with the name of another takes its place.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeSpec {
    name: String,
    claim: Option<String>,
    pool: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    zone: String,
    #[serde(default = "initialized")]
    stage: String,
    initialized: Option<String>,
    last_pod_event: Option<String>,
    nominated_until: Option<String>,
    /// `Drifted` or `Requested`.
    obsolete: Option<String>,
    expires: Option<String>,
    #[serde(default)]
    deleting: bool,
    #[serde(default)]
    do_not_disrupt: bool,
    #[serde(default)]
    taints: Vec<core::Taint>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// How many volumes it can attach, by CSI driver.
    #[serde(default)]
    attach_limits: BTreeMap<String, u32>,
}

/// Pods that are alike.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodSpec {
    name: String,
    #[serde(default)]
    spec: Option<core::PodSpec>,
    #[serde(default = "namespace")]
    namespace: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default = "one")]
    replicas: u32,
    /// How many of them the owner has not created yet.
    #[serde(default)]
    promised: u32,
    /// How many of them the scheduler has not looked at yet.
    #[serde(default)]
    unseen: u32,
    /// `Kind/name`.
    owner: Option<String>,
    node: Option<String>,
    nominated: Option<String>,
    /// Since when the scheduler has found them unschedulable; long ago unless said.
    since: Option<String>,
    #[serde(default)]
    gated: bool,
    #[serde(default)]
    deleting: bool,
}

fn amd64() -> String {
    "amd64".to_owned()
}
fn initialized() -> String {
    "Initialized".to_owned()
}
fn namespace() -> String {
    "default".to_owned()
}
fn one() -> u32 {
    1
}

/// A time of the one day on which all scenarios play.
pub fn time(text: &str) -> Timestamp {
    format!("2025-01-06T{text}Z").parse().unwrap()
}

impl Scenario {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        serde_saphyr::from_str(&text).map_err(|error| error.to_string())
    }

    pub fn world(&self, root: &Path) -> World {
        let mut types: Vec<InstanceType> = self.types.iter().map(Kind::instance_type).collect();
        if let Some(name) = &self.catalog {
            types.extend(catalog(root, name));
        }
        types.sort_by(|a, b| a.name.cmp(&b.name));
        let types = Arc::new(types);
        let mut world = World::new(types.clone());
        world.snapshot.pools = self.pools.iter().map(|p| pool(p, &types)).collect();
        overlay(&mut world.snapshot.pools, &self.overlays);
        world.snapshot.daemons = self
            .daemons
            .iter()
            .map(|daemon| {
                let name = daemon.metadata.name.clone().unwrap();
                let mut pod = Pod::from_k8s(daemon).unwrap();
                pod.owner = Some(owner(&format!("DaemonSet/{name}")));
                Arc::new(pod)
            })
            .collect();
        world
    }
}

/// Applies overlays, as the controllers do.
fn overlay(pools: &mut [Pool], overlays: &[NodeOverlay]) {
    let overlays: Vec<_> = overlays.iter().map(|o| Overlay::from_k8s(o).unwrap()).collect();
    let target = |pool: &Pool| {
        let mut node_labels = pool.labels.clone();
        node_labels.insert(labels::NODEPOOL.to_owned(), pool.name.clone());
        Target { labels: node_labels, types: pool.types.clone() }
    };
    let targets: Vec<_> = pools.iter().map(target).collect();
    let (types, _) = aerostat_engine::overlay::apply(&overlays, &targets);
    pools.iter_mut().zip(types).for_each(|(pool, types)| pool.types = types);
}

/// The instance types of a file of `tests/catalogs`.
pub fn catalog(root: &Path, name: &str) -> Vec<InstanceType> {
    let text = std::fs::read_to_string(root.join(format!("catalogs/{name}.yaml"))).unwrap();
    let kinds: Vec<Kind> = serde_saphyr::from_str(&text).unwrap();
    kinds.iter().map(Kind::instance_type).collect()
}

impl Kind {
    fn instance_type(&self) -> InstanceType {
        let mut labels = type_labels(&self.name, &self.arch, &self.cpu.to_string());
        labels.extend(self.labels.clone());
        let offering = |zone: &String, capacity_type: &str, price: f64| Offering {
            zone: zone.clone(),
            capacity_type: capacity_type.to_owned(),
            price,
            available: !self.sold_out.contains(zone),
            reservation: None,
        };
        let on_demand = self.zones.iter().map(|zone| offering(zone, "on-demand", self.price));
        let spot = self
            .spot
            .into_iter()
            .flat_map(|price| self.zones.iter().map(move |zone| offering(zone, "spot", price)));
        let reserved = self.reserved.iter().map(|reserved| Offering {
            reservation: Some(Reservation { id: reserved.id.clone(), available: reserved.count }),
            ..offering(&reserved.zone, "reserved", self.price / 1e7)
        });
        let mut capacity = Resources::from_quantities(&self.allocatable);
        capacity.cpu = self.cpu.milli();
        capacity.memory = self.memory.units();
        InstanceType {
            name: self.name.clone(),
            labels,
            offerings: on_demand.chain(spot).chain(reserved).collect(),
            capacity,
            allocatable: Resources::from_quantities(&self.allocatable),
        }
    }
}

impl Step {
    pub fn apply(&self, world: &mut World) {
        if let Some(seconds) = self.preemption_grace {
            world.snapshot.settings.preemption_grace = std::time::Duration::from_secs(seconds);
        }
        match self.preferences.as_deref() {
            Some("Respect") => world.snapshot.settings.preferences = Preferences::Respect,
            Some("Ignore") => world.snapshot.settings.preferences = Preferences::Ignore,
            Some("Priced") => world.snapshot.settings.preferences = Preferences::Priced,
            Some(other) => panic!("preferences: {other:?}"),
            None => {}
        }
        if let Some(most) = self.max_instance_types {
            world.snapshot.settings.max_instance_types = most;
        }
        if self.best_effort {
            world.snapshot.settings.min_values = MinValuesPolicy::BestEffort;
        }
        world.snapshot.namespaces.extend(self.namespaces.clone());
        let storage = Arc::make_mut(&mut world.snapshot.storage);
        for claim in &self.claims {
            let name = claim.metadata.name.clone().unwrap();
            storage.claims.insert((namespace(), name), Claim::from_k8s(claim).unwrap());
        }
        for volume in &self.volumes {
            let name = volume.metadata.name.clone().unwrap();
            storage.volumes.insert(name, Volume::from_k8s(volume).unwrap());
        }
        for class in &self.storage_classes {
            let name = class.metadata.name.clone().unwrap();
            storage.classes.insert(name, Class::from_k8s(class));
        }
        for spec in &self.pdbs {
            let selector = LabelSelector {
                match_labels: Some(spec.labels.clone()),
                ..LabelSelector::default()
            };
            world.snapshot.pdbs.retain(|pdb| pdb.name != spec.name);
            world.snapshot.pdbs.push(Pdb {
                namespace: namespace(),
                name: spec.name.clone(),
                selector: Some(Selector::from_k8s(&selector)),
                allowed: spec.allowed,
            });
        }
        let lost = |state: &StateNode| state.claim.as_ref().is_some_and(|c| self.lost.contains(c));
        world.snapshot.nodes.retain(|state| !lost(state));
        self.remove.iter().for_each(|name| world.remove_pod(name));
        for node in &self.nodes {
            let state = node.state(world, time(&self.at));
            world.snapshot.nodes.retain(|other| {
                other.node.name != node.name
                    && (state.claim.is_none() || other.claim != state.claim)
            });
            world.snapshot.nodes.push(state);
        }
        for spec in &self.pods {
            spec.apply(world, time(&self.at));
        }
    }
}

impl NodeSpec {
    fn state(&self, world: &World, now: Timestamp) -> StateNode {
        let kind = world.types.iter().find(|kind| kind.name == self.kind).unwrap();
        let stage = match self.stage.as_str() {
            "Ordered" => Stage::Ordered,
            "Launched" => Stage::Launched,
            "Registered" => Stage::Registered,
            _ => Stage::Initialized,
        };
        let mut node_labels = kind.labels.clone();
        node_labels.insert(labels::ZONE.to_owned(), self.zone.clone());
        node_labels.insert(labels::CAPACITY_TYPE.to_owned(), "on-demand".to_owned());
        if let Some(pool) = &self.pool {
            node_labels.insert(labels::NODEPOOL.to_owned(), pool.clone());
        }
        node_labels.extend(self.labels.clone());
        let claim = self
            .claim
            .clone()
            .or_else(|| self.pool.as_ref().map(|_| format!("claim-{}", self.name)));
        let before = world.snapshot.nodes.iter().find(|other| other.claim == claim);
        let price = price(kind, &node_labels);
        StateNode {
            node: aerostat_engine::node::Node {
                name: self.name.clone(),
                labels: node_labels,
                taints: self.taints.clone(),
                allocatable: kind.allocatable.clone(),
                attach_limits: self.attach_limits.clone(),
                ..Default::default()
            },
            has_node: stage >= Stage::Registered,
            pool: self.pool.clone(),
            stage,
            deleting: self.deleting,
            do_not_disrupt: self.do_not_disrupt,
            capacity: kind.capacity.clone(),
            created: before.map_or(now, |state| state.created),
            initialized: Some(self.initialized.as_deref().map_or(now, time)),
            last_pod_event: self.last_pod_event.as_deref().map(time),
            nominated_until: self.nominated_until.as_deref().map(time),
            price: Some(price),
            planned: before.map(|state| state.planned.clone()).unwrap_or_default(),
            replaces: before.and_then(|state| state.replaces.clone()),
            obsolete: self
                .obsolete
                .as_deref()
                .map(|reason| Obsolete { reason: reason.to_owned(), since: now }),
            expires: self.expires.as_deref().map(time),
            claim,
        }
    }
}

/// What the offering costs that a node's labels name.
fn price(kind: &InstanceType, node_labels: &BTreeMap<String, String>) -> f64 {
    let is_meant = |offering: &&Offering| {
        node_labels.get(labels::ZONE) == Some(&offering.zone)
            && node_labels.get(labels::CAPACITY_TYPE) == Some(&offering.capacity_type)
    };
    kind.offerings.iter().find(is_meant).unwrap_or(&kind.offerings[0]).price
}

impl PodSpec {
    fn apply(&self, world: &mut World, now: Timestamp) {
        let since = self.since.as_deref().map_or(now - jiff::SignedDuration::from_mins(1), time);
        let pending = self.node.is_none() && self.nominated.is_none();
        let total = self.replicas - self.promised;
        for number in 1..=total {
            let name = if self.replicas == 1 {
                self.name.clone()
            } else {
                format!("{}-{number:03}", self.name)
            };
            // A pod that was there before changes.
            let before = world.snapshot.pods.iter().find(|pod| pod.name == name).cloned();
            world.remove_pod(&name);
            let mut pod = match before {
                Some(pod) if self.spec.is_none() => (*pod).clone(),
                _ => self.pod(&name, since),
            };
            pod.node.clone_from(&self.node);
            pod.nominated_node.clone_from(&self.nominated);
            pod.gated = self.gated;
            pod.deleting = self.deleting;
            let seen = pending && !self.gated && number <= total - self.unseen;
            pod.unschedulable_since = seen.then_some(since);
            world.add_pod(pod);
        }
        if self.promised > 0 || self.owner.is_some() {
            let owner = self.owner.as_deref().map(owner);
            world.snapshot.promised.retain(|promise| promise.pod.owner != owner);
            let pod = Arc::new(self.pod("", since));
            world.snapshot.promised.push(Promise { pod, count: self.promised });
        }
    }

    fn pod(&self, name: &str, created: Timestamp) -> Pod {
        let pod = core::Pod {
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                name: Some(if name.is_empty() { "promised" } else { name }.to_owned()),
                namespace: Some(self.namespace.clone()),
                labels: Some(self.labels.clone()),
                annotations: Some(self.annotations.clone()),
                ..Default::default()
            },
            spec: self.spec.clone(),
            status: None,
        };
        let mut pod = Pod::from_k8s(&pod).unwrap();
        pod.created = created;
        pod.owner = self.owner.as_deref().map(owner);
        pod
    }
}

fn owner(text: &str) -> Owner {
    let (kind, name) = text.split_once('/').unwrap();
    Owner { kind: kind.to_owned(), name: name.to_owned(), uid: text.to_owned() }
}
