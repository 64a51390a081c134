//! One simulated machine: readiness, heartbeats, what its status says.
//!
//! Source: kubernetes `pkg/kubelet/nodestatus/setters.go`, `pkg/kubelet/kubelet_node_status.go`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use aerostat_api::Duration;
use aerostat_engine::node::Usage;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{self as core, NodeCondition, NodeStatus, ObjectReference};
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};

use super::admit;
use super::images::Images;
use super::kwok;
use super::pod::Pod;
use crate::events::{self, EventType};
use crate::registry::leases::{self, RENEWAL};
use crate::{Cluster, Status};

/// Marks the nodes that are played here: an annotation with the value `true`.
pub const MARKER: &str = "sim.aerostat.dev/kubelet";

/// How often a status is posted that has not changed.
const REPORT: SignedDuration = SignedDuration::from_mins(5);
const LEASE_SECONDS: i32 = 40;
/// The CSI driver that is part of Auto Mode's nodes.
const DRIVER: &str = "ebs.csi.eks.amazonaws.com";
/// How many volumes can be attached: of a machine's 28 attachments, one is its network interface
/// and two are its root and data volumes.
const ATTACHED: i32 = 25;

/// Condition, reason (also its event) and message of a node in good health.
const HEALTHY: [(&str, &str, &str, &str); 3] = [
    (
        "MemoryPressure",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
        "NodeHasSufficientMemory",
    ),
    (
        "DiskPressure",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
        "NodeHasNoDiskPressure",
    ),
    (
        "PIDPressure",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
        "NodeHasSufficientPID",
    ),
];

/// Whether a node is played here.
pub(super) fn is_simulated(node: &core::Node) -> bool {
    let mark = node.metadata.annotations.as_ref().and_then(|all| all.get(MARKER));
    mark.is_some_and(|mark| mark == "true") || kwok::plays(node)
}

/// The address of a node that is played here, once its machine has booted.
pub(super) fn simulated(node: &core::Node) -> Option<Ipv4Addr> {
    let marked = is_simulated(node);
    let addresses = node.status.as_ref().filter(|_| marked)?.addresses.as_ref()?;
    let internal = addresses.iter().find(|address| address.type_ == "InternalIP")?;
    internal.address.parse().ok()
}

#[derive(Debug)]
pub(super) struct Node {
    /// Tells it from an earlier node of the same name.
    pub(super) id: u64,
    pub(super) object: Arc<core::Node>,
    usage: Usage,
    pub(super) ip: Ipv4Addr,
    pub(super) images: Images,
    pub(super) ready: bool,
    /// Whether KWOK would play it.
    pub(super) kwok: bool,
    network_from: Option<Timestamp>,
    /// When its status was last posted, and how many images it listed.
    posted: (Timestamp, usize),
    /// When its heart beat first; it goes on every ten seconds.
    born: Timestamp,
    /// At which beat it looks at its status again.
    pub(super) looks_at: Timestamp,
}

impl Node {
    pub(super) fn new(id: u64, object: Arc<core::Node>, ip: Ipv4Addr, now: Timestamp) -> Self {
        Self {
            id,
            kwok: kwok::plays(&object),
            object,
            usage: Usage::default(),
            ip,
            images: Images::default(),
            ready: false,
            network_from: None,
            posted: (now, 0),
            born: now,
            looks_at: now,
        }
    }

    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Since when the API has the node Ready, if it has.
    pub(super) fn ready_since(&self) -> Option<Timestamp> {
        let conditions = self.object.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
        let since =
            ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        (ready.status == "True").then_some(since)
    }

    pub(super) fn become_ready(&mut self, since: Timestamp, network_delay: Duration) {
        self.ready = true;
        let delay = SignedDuration::try_from(network_delay.0).unwrap_or(SignedDuration::MAX);
        self.network_from = Some(since.checked_add(delay).unwrap_or(Timestamp::MAX));
    }

    /// Whether pods on it can get an address.
    pub(super) fn network_ready(&self, now: Timestamp) -> bool {
        self.network_from.is_some_and(|from| from <= now)
    }

    /// Takes a pod in, or says why not: reason and message.
    pub(super) fn admit(&mut self, pod: &mut Pod) -> Option<(String, String)> {
        let refused = |why: String| Some(("UnexpectedAdmissionError".to_owned(), why));
        let limits = match aerostat_engine::node::Node::from_k8s(&self.object) {
            Ok(limits) => limits,
            Err(why) => return refused(why),
        };
        let claim = match aerostat_engine::pod::Pod::from_k8s(&pod.object) {
            Ok(claim) => claim,
            Err(why) => return refused(why),
        };
        let refusal = admit::refusal(&claim, &limits, &self.usage);
        if refusal.is_none() {
            self.usage.add(&claim);
            pod.claim = Some(claim);
        }
        refusal
    }

    /// What the pod took is free again.
    pub(super) fn release(&mut self, pod: &Pod) {
        if let Some(claim) = &pod.claim {
            self.usage.remove(claim);
        }
    }

    pub(super) fn record(&self, cluster: &Cluster, reason: &str, message: &str) {
        let node = self.name();
        let regarding = ObjectReference {
            kind: Some("Node".into()),
            name: Some(node.into()),
            // As kubelets have it: they know their node by name only.
            uid: Some(node.into()),
            ..ObjectReference::default()
        };
        let normal = EventType::Normal;
        events::record(cluster, "kubelet", Some(node), &regarding, normal, reason, message);
    }

    /// Says that the kubelet starts and finds the machine in good health.
    pub(super) fn announce(&self, cluster: &Cluster) {
        self.record(cluster, "Starting", "Starting kubelet.");
        for (_, _, _, event) in HEALTHY {
            self.record(cluster, event, &format!("Node {} status is now: {event}", self.name()));
        }
        let enforced = "Updated Node Allocatable limit across pods";
        self.record(cluster, "NodeAllocatableEnforced", enforced);
    }

    /// Posts the node's status.
    pub(super) fn post(&mut self, cluster: &Cluster, now: Timestamp) -> Result<(), Status> {
        let images = self.images.listed(now);
        self.posted = (now, images.len());
        let ready = self.ready;
        cluster.modify_status::<core::Node>("", self.name(), |node| {
            let status = node.status.get_or_insert_default();
            status.images = (!images.is_empty()).then(|| images.clone());
            for (condition, reason, message, _) in HEALTHY {
                set_condition(status, condition, false, reason, message, now);
            }
            let (reason, message) = if ready {
                ("KubeletReady", "kubelet is posting ready status")
            } else {
                (
                    "KubeletNotReady",
                    "container runtime network not ready: NetworkReady=false \
                  reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin \
                  not initialized",
                )
            };
            set_condition(status, "Ready", ready, reason, message, now);
        })?;
        Ok(())
    }

    /// Whether the status is worth posting again.
    pub(super) fn wants_post(&self, now: Timestamp) -> bool {
        let (at, images) = self.posted;
        now.duration_since(at) >= REPORT || self.images.count(now) != images
    }

    /// The next beat at which the status may be worth posting.
    pub(super) fn next_look(&self, now: Timestamp) -> Timestamp {
        let (posted, _) = self.posted;
        let report = posted + REPORT;
        let due = self.images.next_after(posted).map_or(report, |at| at.min(report));
        let just_before = due.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(now);
        self.next_beat(now.max(just_before))
    }

    /// Its next beat after `at`.
    pub(super) fn next_beat(&self, at: Timestamp) -> Timestamp {
        let beats = at.duration_since(self.born).as_nanos().max(0) / RENEWAL.as_nanos() + 1;
        let until = i64::try_from(beats * RENEWAL.as_nanos()).unwrap_or(i64::MAX);
        self.born.checked_add(SignedDuration::from_nanos(until)).unwrap_or(Timestamp::MAX)
    }

    /// Says which CSI driver is on the machine and how many volumes it can attach.
    pub(super) fn register_drivers(&self, cluster: &Cluster) -> Result<(), Status> {
        let node = self.name();
        let csi = CSINode {
            metadata: ObjectMeta {
                name: Some(node.into()),
                owner_references: Some(vec![self.owner()]),
                ..ObjectMeta::default()
            },
            spec: CSINodeSpec {
                drivers: vec![CSINodeDriver {
                    name: DRIVER.into(),
                    node_id: node.into(),
                    topology_keys: Some(
                        [
                            "eks.amazonaws.com/compute-type",
                            "topology.ebs.csi.eks.amazonaws.com/zone",
                            "topology.kubernetes.io/zone",
                        ]
                        .map(str::to_owned)
                        .into(),
                    ),
                    allocatable: Some(VolumeNodeResources { count: Some(ATTACHED) }),
                }],
            },
        };
        match cluster.create("", &csi) {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        }
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: self.name().into(),
            uid: self.object.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }
    }

    /// Renews the node's lease from now on; makes it if it is not there.
    pub(super) fn keep_lease(&self, cluster: &Cluster, now: Timestamp) -> Result<(), Status> {
        let node = self.name();
        match cluster.write_renewal(node, now) {
            Err(status) if status.reason == "NotFound" => self.make_lease(cluster, now)?,
            other => other?,
        }
        cluster.keep_lease(node, now + RENEWAL);
        Ok(())
    }

    fn make_lease(&self, cluster: &Cluster, now: Timestamp) -> Result<(), Status> {
        let node = self.name();
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(node.into()),
                namespace: Some(leases::NAMESPACE.into()),
                owner_references: Some(vec![self.owner()]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(node.into()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                renew_time: Some(MicroTime(now)),
                ..LeaseSpec::default()
            }),
        };
        cluster.create(leases::NAMESPACE, &lease).map(drop)
    }
}

fn set_condition(
    status: &mut NodeStatus,
    name: &str,
    value: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let value = if value { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let at = conditions.iter().position(|condition| condition.type_ == name);
    let since = at.map(|at| &conditions[at]).filter(|old| old.status == value);
    let condition = NodeCondition {
        type_: name.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: since.map_or(Some(Time(now)), |old| old.last_transition_time.clone()),
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}
