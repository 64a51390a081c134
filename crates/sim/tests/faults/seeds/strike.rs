//! What happens, done to a world.

use std::sync::Arc;

use aerostat_api::labels;
use aerostat_cluster::Cluster;
use aerostat_cluster::registry::{self, DeleteOptions, Part, WriteOptions};
use aerostat_provider::SimCloud;
use aerostat_provider::sim::Unavailable;
use aerostat_sim::World;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::case::{Case, What, Workload};
use super::cloud::FaultyCloud;
use super::layer::{Faults, Trouble};
use super::ledger::Ledger;
use super::play::Lasting;

/// Says that a simulated kubelet plays a node.
const PLAYED: &str = "sim.aerostat.dev/kubelet";
/// A finalizer that somebody else has set.
const HOLD: &str = "example.com/hold";

/// What things are done to.
pub struct Stage<'a> {
    case: &'a Case,
    cluster: Cluster,
    cloud: Arc<SimCloud>,
    faulty: Arc<FaultyCloud>,
    faults: Faults,
    ledger: Ledger,
    /// Nodes that something lasting was done to.
    nodes: Lasting<String>,
    sold_out: Lasting<Unavailable>,
}

impl<'a> Stage<'a> {
    pub fn new(
        world: &World,
        faults: &Faults,
        faulty: &Arc<FaultyCloud>,
        ledger: &Ledger,
        case: &'a Case,
    ) -> Self {
        Self {
            case,
            cluster: world.cluster.clone(),
            cloud: world.cloud.clone(),
            faulty: faulty.clone(),
            faults: faults.clone(),
            ledger: ledger.clone(),
            nodes: Lasting::new(),
            sold_out: Lasting::new(),
        }
    }

    /// The workloads of the beginning.
    pub fn set_up(&self) {
        for workload in &self.case.workloads {
            self.deploy(&workload.deployment());
            if let Some(budget) = workload.budget() {
                self.guard(budget);
            }
        }
        for job in &self.case.jobs {
            self.create("batch", "jobs", job.manifest());
        }
        for daemon in &self.case.daemons {
            self.create("apps", "daemonsets", daemon.manifest());
        }
    }

    fn now(&self) -> Timestamp {
        self.cluster.clock().now()
    }

    fn in_secs(&self, secs: u64) -> Timestamp {
        self.now() + SignedDuration::from_secs(secs.cast_signed())
    }

    fn deploy(&self, value: &Value) {
        let kind = self.cluster.kind_of::<Deployment>();
        let options = WriteOptions::default();
        self.cluster.create_object(&kind, "default", value.clone(), options).unwrap();
    }

    fn create(&self, group: &str, plural: &str, value: Value) {
        let kind = self.cluster.kind(group, plural).unwrap();
        self.cluster.create_object(&kind, "default", value, WriteOptions::default()).unwrap();
    }

    fn has_pool(&self, name: &str) -> bool {
        let kind = self.cluster.kind("karpenter.sh", "nodepools").unwrap();
        let (pools, _) = self.cluster.store().list(&kind.resource(), "");
        pools.iter().any(|pool| pool.name() == name)
    }

    fn guard(&self, value: Value) {
        let kind = self.cluster.kind_of::<PodDisruptionBudget>();
        let options = WriteOptions::default();
        self.cluster.create_object(&kind, "default", value, options).unwrap();
    }

    fn workload(&self, name: &str) -> Option<&'a Workload> {
        self.case.workloads.iter().find(|workload| workload.name == name)
    }

    /// The so manieth node, round and round.
    fn node(&self, number: usize) -> Option<Arc<Node>> {
        let nodes = self.cluster.list::<Node>("");
        let at = number.checked_rem(nodes.len())?;
        Some(nodes[at].clone())
    }

    /// The claims, by name, round and round.
    fn claim(&self, number: usize) -> Option<String> {
        let kind = self.cluster.kind("karpenter.sh", "nodeclaims").unwrap();
        let (claims, _) = self.cluster.store().list(&kind.resource(), "");
        let at = number.checked_rem(claims.len())?;
        Some(claims[at].name().to_owned())
    }

    fn pods(&self, workload: &str) -> Vec<Arc<Pod>> {
        let pods = self.cluster.list::<Pod>("default").into_iter();
        pods.filter(|pod| pod.labels().get("app").is_some_and(|app| app == workload)).collect()
    }

    fn is_there(&self, deployment: &str) -> bool {
        self.cluster.get::<Deployment>("default", deployment).is_some()
    }

    /// Says until when something is wrong with the API or the cloud, and perhaps with what the
    /// controllers know.
    fn trouble(&self, until: Timestamp, is_dim: bool) {
        let mut book = self.ledger.book();
        book.troubled = book.troubled.max(until);
        if is_dim {
            book.dim = book.dim.max(until);
        }
    }

    /// A happening begins.
    pub async fn begin(&mut self, number: usize) {
        let what = &self.case.happenings[number].what;
        self.ledger.line(&format!("> {what:?}"));
        let until = self.in_secs(what.lasts());
        match what {
            What::Scale { .. }
            | What::Burst { .. }
            | What::Remove { .. }
            | What::Churn { .. }
            | What::Drift { .. }
            | What::DeletePool { .. }
            | What::DeleteNode { .. }
            | What::DeleteClaim { .. }
            | What::Replace { .. } => self.deed(number, what),
            What::Crash { write, after } => self.faults.crash(*write, *after),
            What::Stale { kind, .. } => {
                self.trouble(until, true);
                self.faults.trouble(Trouble::Stale(kind.clone()), until);
            }
            What::DropWatches => {
                self.trouble(self.in_secs(30), true);
                self.faults.break_watches(None, false);
            }
            What::Gone { kind } => {
                self.trouble(self.in_secs(30), true);
                self.faults.break_watches(Some(kind.clone()), true);
            }
            What::Answer { code, every, .. } => {
                self.trouble(until, true);
                self.faults.trouble(Trouble::Answer(*code, *every), until);
            }
            What::Unanswered { every, done, .. } => {
                self.trouble(until + SignedDuration::from_secs(30), true);
                self.faults.trouble(Trouble::Unanswered(*every, *done), until);
            }
            What::Jump { .. } => {}
            _ => self.misfortune(number, what, until),
        }
    }

    /// What goes wrong with the cloud, its machines, and what runs there.
    fn misfortune(&mut self, number: usize, what: &What, until: Timestamp) {
        let provider_id = |node: &Node| node.spec.as_ref().and_then(|s| s.provider_id.clone());
        let mishaps = || self.faulty.mishaps.lock().unwrap();
        match what {
            What::SoldOut { instance_type, zone, capacity_type, .. } => {
                let gone = Unavailable {
                    instance_type: instance_type.clone(),
                    zone: zone.clone(),
                    capacity_type: capacity_type.clone(),
                };
                self.sold_out.insert(number, gone);
                self.cloud.set_unavailable(self.sold_out.values().cloned().collect());
                self.ledger.book().was_sold_out = true;
            }
            What::NeverJoin { machines } => self.cloud.keep_from_booting(*machines),
            What::OrdersFail { orders } => mishaps().orders_fail = *orders,
            What::OrdersUnanswered { orders } => mishaps().orders_unanswered = *orders,
            What::EndsFail { ends } => mishaps().ends_fail = *ends,
            What::ListFails { .. } => {
                mishaps().lists_fail = Some(until);
                self.trouble(until, false);
            }
            What::Interrupt { node } | What::Lose { node } | What::Terminate { node } => {
                let Some(id) = self.node(*node).and_then(|node| provider_id(&node)) else { return };
                match what {
                    What::Interrupt { .. } => {
                        self.ledger.book().was_sold_out = true;
                        self.cloud.interrupt(&id);
                    }
                    What::Lose { .. } => self.cloud.lose(&id, false),
                    _ => self.cloud.lose(&id, true),
                }
            }
            What::NotReady { node, .. } => {
                let Some(node) = self.node(*node).map(|node| node.name_any()) else { return };
                self.play_node(&node, false);
                self.nodes.insert(number, node);
            }
            What::HoldNode { node, .. } => {
                let Some(node) = self.node(*node).map(|node| node.name_any()) else { return };
                // A node that has lost all its finalizers goes at this very moment.
                let _ = self.cluster.modify::<Node>("", &node, |node| hold(node.finalizers_mut()));
                self.nodes.insert(number, node);
            }
            What::HoldPod { workload, .. } => {
                if let Some(pod) = self.pods(workload).first() {
                    let change = |pod: &mut Pod| hold(pod.finalizers_mut());
                    // One that is being deleted takes no finalizer any more.
                    let _ = self.cluster.modify::<Pod>("default", &pod.name_any(), change);
                }
            }
            What::Freeze { workload, .. } => {
                if let Some(workload) = self.workload(workload) {
                    let name = format!("freeze-{number}");
                    self.guard(workload.guarded(&name, json!({"maxUnavailable": 0})));
                }
            }
            other => unreachable!("{other:?} is no misfortune"),
        }
    }

    /// What people do.
    fn deed(&self, number: usize, what: &What) {
        let none = DeleteOptions::default();
        match what {
            What::Scale { workload, replicas } if self.is_there(workload) => {
                let kind = self.cluster.kind_of::<Deployment>();
                let scale = json!({"spec": {"replicas": replicas}});
                let options = WriteOptions::default();
                let scaled = self.cluster.update_object(
                    &kind,
                    "default",
                    workload,
                    Part::Main,
                    options,
                    |old| registry::scaled(&kind, old, &scale),
                );
                scaled.unwrap();
            }
            What::Scale { workload, replicas } => {
                if let Some(workload) = self.workload(workload) {
                    let workload = Workload { replicas: *replicas, ..workload.clone() };
                    self.deploy(&workload.deployment());
                }
            }
            What::Burst { pods, .. } => {
                let burst = Workload {
                    name: format!("burst-{number}"),
                    replicas: *pods,
                    cpu_milli: 50,
                    memory_mib: 32,
                    grace: 1,
                    guard: None,
                    do_not_disrupt: None,
                    ignores_term: false,
                    pool: None,
                    spread: None,
                    move_usd: None,
                };
                self.deploy(&burst.deployment());
            }
            What::Remove { workload } if self.is_there(workload) => {
                self.cluster.delete::<Deployment>("default", workload, &none).unwrap();
            }
            What::Churn { workload, pods } => {
                for pod in self.pods(workload).iter().take(*pods as usize) {
                    let name = pod.name_any();
                    self.cluster.delete::<Pod>("default", &name, &none).unwrap();
                }
            }
            What::DeletePool { pool } if self.has_pool(pool) => {
                let kind = self.cluster.kind("karpenter.sh", "nodepools").unwrap();
                self.cluster.delete_object(&kind, "", pool, &none).unwrap();
            }
            What::Drift { pool } if self.has_pool(pool) => {
                let labels = json!({"example.com/revision": number.to_string()});
                let patch = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
                self.patch("nodepools", pool, &patch);
            }
            What::DeleteNode { node } => {
                if let Some(node) = self.node(*node) {
                    self.cluster.delete::<Node>("", &node.name_any(), &none).unwrap();
                }
            }
            What::DeleteClaim { node } => {
                if let Some(claim) = self.claim(*node) {
                    let kind = self.cluster.kind("karpenter.sh", "nodeclaims").unwrap();
                    self.cluster.delete_object(&kind, "", &claim, &none).unwrap();
                }
            }
            What::Replace { node } => {
                if let Some(claim) = self.claim(*node) {
                    let patch = json!({"metadata": {"annotations": {labels::REPLACE: "true"}}});
                    self.patch("nodeclaims", &claim, &patch);
                }
            }
            _ => {}
        }
    }

    /// What a happening has done is over.
    pub async fn end(&mut self, number: usize) {
        let what = &self.case.happenings[number].what;
        match what {
            What::Burst { .. } => {
                let (name, none) = (format!("burst-{number}"), DeleteOptions::default());
                self.cluster.delete::<Deployment>("default", &name, &none).unwrap();
            }
            What::SoldOut { .. } => {
                self.sold_out.remove(&number);
                self.cloud.set_unavailable(self.sold_out.values().cloned().collect());
            }
            What::NotReady { .. } => {
                if let Some(node) = self.nodes.remove(&number) {
                    self.play_node(&node, true);
                }
            }
            What::HoldNode { .. } => {
                if let Some(node) = self.nodes.remove(&number) {
                    let release = |node: &mut Node| release(node.finalizers_mut());
                    // It may be gone, if it never went.
                    let _ = self.cluster.modify::<Node>("", &node, release);
                }
            }
            What::HoldPod { .. } => {
                let held = |pod: &Arc<Pod>| pod.finalizers().iter().any(|name| name == HOLD);
                for pod in self.cluster.list::<Pod>("default").into_iter().filter(held) {
                    let release = |pod: &mut Pod| release(pod.finalizers_mut());
                    self.cluster.modify::<Pod>("default", &pod.name_any(), release).unwrap();
                }
            }
            What::Freeze { workload, .. } if self.workload(workload).is_some() => {
                let (name, none) = (format!("freeze-{number}"), DeleteOptions::default());
                self.cluster.delete::<PodDisruptionBudget>("default", &name, &none).unwrap();
            }
            _ => return,
        }
        self.ledger.line(&format!("> over: {what:?}"));
    }

    /// Whether a kubelet plays a node; the node may be gone.
    fn play_node(&self, name: &str, is_played: bool) {
        let id = self.cluster.get::<Node>("", name).and_then(|node| node.spec.clone()?.provider_id);
        let _ = self.cluster.modify::<Node>("", name, |node| {
            let annotations = node.annotations_mut();
            if is_played && id.is_some() {
                annotations.insert(PLAYED.to_owned(), "true".to_owned());
            } else {
                annotations.remove(PLAYED);
            }
        });
    }

    /// A merge patch of an object of Karpenter's.
    fn patch(&self, plural: &str, name: &str, patch: &Value) {
        let kind = self.cluster.kind("karpenter.sh", plural).unwrap();
        let options = WriteOptions::default();
        let patched = self.cluster.update_object(&kind, "", name, Part::Main, options, |old| {
            let mut value = old.value.clone();
            json_patch::merge(&mut value, patch);
            Ok(value)
        });
        patched.unwrap();
    }
}

fn hold(finalizers: &mut Vec<String>) {
    if !finalizers.iter().any(|name| name == HOLD) {
        finalizers.push(HOLD.to_owned());
    }
}

fn release(finalizers: &mut Vec<String>) {
    finalizers.retain(|name| name != HOLD);
}
