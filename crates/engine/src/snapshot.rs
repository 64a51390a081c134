//! Everything that a decision may look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aerostat_api::nodepool::{Budget, NodeClassRef, NodeSelectorRequirement};
use aerostat_api::{NillableDuration, Quantity, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use crate::cost::Price;
use crate::instance::InstanceType;
use crate::node::Node;
use crate::pod::{Pod, PodKey, Selector};
use crate::resources::Resources;
use crate::storage::Storage;

/// The cluster at one moment. Every list is sorted by name, so that equal clusters plan equally.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// All pods that have not ended, bound or not.
    pub pods: Vec<Arc<Pod>>,
    /// Pods that an owner has promised and not yet created.
    pub promised: Vec<Promise>,
    /// Every node and every claim on its way to be one.
    pub nodes: Vec<StateNode>,
    /// The labels of every namespace.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// NodePools.
    pub pools: Vec<Pool>,
    /// One pod as each DaemonSet would create it.
    pub daemons: Vec<Arc<Pod>>,
    /// Where earlier plans put pods that are still pending: the name of a node, or of a claim
    /// that has none yet. A memory that may be empty (after a restart); it keeps pods where they
    /// were promised to be.
    pub nominations: BTreeMap<PodKey, String>,
    /// Pods for which machines came up in vain, by UID. A memory that may be empty, too.
    pub holds: BTreeMap<String, Hold>,
    /// Claims whose replacement came to nothing, and until when they are not given up to save money.
    /// A memory that may be empty, too.
    pub spared: BTreeMap<String, Timestamp>,
    /// Persistent volumes.
    pub storage: Arc<Storage>,
    /// PodDisruptionBudgets.
    pub pdbs: Vec<Pdb>,
    /// Settings of the decision.
    pub settings: Settings,
}

/// A pod that does not run on the machines that were ordered for it: something keeps it off that no
/// plan can know. The next machine is ordered later each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// How many machines came up for it.
    pub machines: u32,
    /// No machine is ordered for it before.
    pub until: Timestamp,
}

/// Settings of the decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How long a pod that could preempt lower pods waits for the scheduler before it orders.
    pub preemption_grace: Duration,
    /// The fee on top of the on-demand price, 0.12 for Auto Mode's 12 %. For reports only.
    pub fee: f64,
    /// How many instance types a claim keeps as alternatives.
    pub max_instance_types: usize,
    /// What becomes of pods for which minValues cannot be had.
    pub min_values: MinValuesPolicy,
    /// What becomes of preferences: preferred affinity, spread constraints that may be broken,
    /// `PreferNoSchedule` taints.
    pub preferences: Preferences,
    /// What a pod's preferences may cost at [`Preferences::Priced`], in USD per hour and pod.
    pub preference_price: f64,
    /// By which rule pods are put together on new machines.
    pub packing: PackingRule,
    /// How long a peer's controllers wait where ours do not.
    pub waits: Waits,
    /// Instance types of cluster-autoscaler's node groups: with them its rules hold, to compare with.
    pub node_groups: Option<Vec<String>>,
    /// How much work may go into making a plan cheaper once there is one, in steps: a class of
    /// pods tried on a machine, some nanoseconds each. A plan whose steps are used up is a good
    /// plan still.
    pub refine: u64,
}

/// How long a peer's controllers wait, to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How long no pod may have come before what came is planned, and how long that is waited for
    /// at most.
    pub batch: Option<(Duration, Duration)>,
    /// Plans are made at whole multiples of this time only.
    pub scan: Option<Duration>,
    /// How long it is waited, after a machine may be given up to save money, whether that stays so.
    pub validation: Duration,
}

impl Waits {
    /// Karpenter's. Source: kubernetes-sigs/karpenter `pkg/operator/options/options.go`
    /// (`BATCH_IDLE_DURATION`, `BATCH_MAX_DURATION`), `pkg/controllers/disruption/consolidation.go`
    /// (`consolidationTTL`).
    pub const KARPENTER: Self = Self {
        batch: Some((Duration::from_secs(1), Duration::from_secs(10))),
        scan: None,
        validation: Duration::from_secs(15),
    };

    /// cluster-autoscaler's `--scan-interval`.
    pub const CLUSTER_AUTOSCALER: Self =
        Self { batch: None, scan: Some(Duration::from_secs(10)), validation: Duration::ZERO };
}

/// What becomes of what pods would like but do not demand.
///
/// Source of the first two: kubernetes-sigs/karpenter `pkg/operator/options/options.go`,
/// `PREFERENCE_POLICY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preferences {
    /// It is a demand for as long as it can be met, whatever it costs.
    Respect,
    /// It does not count.
    Ignore,
    /// It is met where that costs nothing, or no more than a price.
    #[default]
    Priced,
}

/// By which rule pods are put together on new machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackingRule {
    /// For the least money.
    #[default]
    Price,
    /// As Karpenter does, to compare with.
    Karpenter,
}

/// What becomes of pods for which the minValues of a pool cannot be had.
///
/// Source: kubernetes-sigs/karpenter `pkg/operator/options/options.go`, `MIN_VALUES_POLICY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// They get nothing from the pool.
    #[default]
    Strict,
    /// They get a machine with as many values as there are; its claim says so.
    BestEffort,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            preemption_grace: Duration::from_secs(2),
            fee: 0.12,
            max_instance_types: 60,
            min_values: MinValuesPolicy::Strict,
            preferences: Preferences::Priced,
            preference_price: 0.0005,
            packing: PackingRule::Price,
            waits: Waits::default(),
            node_groups: None,
            refine: 20_000,
        }
    }
}

/// Pods that an owner (a ReplicaSet, a Job) still has to create.
#[derive(Clone, Debug)]
pub struct Promise {
    /// How one of them looks.
    pub pod: Arc<Pod>,
    /// How many are missing.
    pub count: u32,
}

/// A PodDisruptionBudget, as its controller last reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pdb {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which pods of the namespace it is about; `None` matches none.
    pub selector: Option<Selector>,
    /// How many of them may be disrupted now.
    pub allowed: i32,
}

/// Why a machine is to be replaced though nothing is wrong with its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Obsolete {
    /// The command's reason: `Drifted`, or `Requested` if somebody asked for it.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// What a claim was ordered to take the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaces {
    /// The claims that go once it is up.
    pub claims: BTreeSet<String>,
    /// The command's reason, `Drifted` for example.
    pub reason: String,
}

/// A node, a claim, or both: one machine.
#[derive(Clone, Debug)]
pub struct StateNode {
    /// The node as its pods see it. Until the Node is registered the name is the claim's and the
    /// labels and allocatable are what the claim promises; taints that will go by themselves
    /// (unregistered, not-ready, startup taints) are left out until it is initialized.
    pub node: Node,
    /// Whether `node.name` is that of a Node object.
    pub has_node: bool,
    /// The claim behind it; `None` for nodes that Aerostat does not manage.
    pub claim: Option<String>,
    /// The pool behind it.
    pub pool: Option<String>,
    /// How far it has come.
    pub stage: Stage,
    /// Whether node or claim has a deletion timestamp.
    pub deleting: bool,
    /// Whether node or claim carries `karpenter.sh/do-not-disrupt: "true"`.
    pub do_not_disrupt: bool,
    /// What the machine has; of a claim that is not launched yet, the most it may get. Counts
    /// towards limits.
    pub capacity: Resources,
    /// When the claim (or the node) was created.
    pub created: Timestamp,
    /// When the claim became initialized.
    pub initialized: Option<Timestamp>,
    /// When a pod last came or went.
    pub last_pod_event: Option<Timestamp>,
    /// Until when a pending pod has been promised this node.
    pub nominated_until: Option<Timestamp>,
    /// USD per hour, if known; of a claim that is not launched yet, the most it may cost. Counts
    /// towards limits.
    pub price: Option<f64>,
    /// For how many pods of each class the claim was ordered, as [`crate::plan::planned`] reads it
    /// from the claim.
    pub planned: BTreeMap<String, u32>,
    /// Which machines it takes the place of, as [`crate::plan::replaces`] reads it from the claim.
    pub replaces: Option<Replaces>,
    /// Why it is to be replaced, whatever it costs.
    pub obsolete: Option<Obsolete>,
    /// When its claim expires.
    pub expires: Option<Timestamp>,
}

impl StateNode {
    /// Whether it carries the taint `karpenter.sh/disrupted`: it is about to go and takes no pods.
    #[must_use]
    pub fn is_disrupted(&self) -> bool {
        self.node.taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT)
    }
}

/// How far a machine has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Ordered; the provider has not answered.
    Ordered,
    /// Launched; no Node yet.
    Launched,
    /// Its Node has joined.
    Registered,
    /// Ready for pods.
    Initialized,
}

/// A NodePool, resolved.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// UID, for owner references.
    pub uid: String,
    /// Weight; 0 unless set.
    pub weight: i32,
    /// Whether it may launch (Ready condition, not being deleted).
    pub usable: Result<(), String>,
    /// Requirements of its template.
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Labels of its template.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its template.
    pub annotations: BTreeMap<String, String>,
    /// Taints of its template.
    pub taints: Vec<Taint>,
    /// Startup taints of its template.
    pub startup_taints: Vec<Taint>,
    /// What it costs to move a pod of its nodes, unless the pod says; see
    /// [`crate::cost::move_price`].
    pub move_price: Option<Price>,
    /// Which class its nodes use.
    pub class: Option<NodeClassRef>,
    /// Hash of its template.
    pub hash: String,
    /// Limits.
    pub limits: BTreeMap<String, Quantity>,
    /// The most that all its machines together may cost an hour, without fees; see
    /// [`crate::cost::spending_limit`].
    pub max_price: Option<Price>,
    /// Set: a static pool, which holds this many nodes whatever the pods need.
    pub replicas: Option<u32>,
    /// Budgets.
    pub budgets: Vec<Budget>,
    /// The name of the time zone of their schedules; UTC if there is none.
    pub budget_time_zone: Option<String>,
    /// How long a node must be quiet; `None` for never.
    pub consolidate_after: Option<Duration>,
    /// `WhenEmpty`, `WhenEmptyOrUnderutilized` or `Balanced`.
    pub policy: String,
    /// How long a node may drain.
    pub termination_grace: Option<aerostat_api::Duration>,
    /// How old a node may grow.
    pub expire_after: Option<NillableDuration>,
    /// What it may launch, sorted by name.
    pub types: Arc<Vec<InstanceType>>,
}
