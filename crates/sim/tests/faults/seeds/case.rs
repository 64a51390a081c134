//! What happens to a cluster, as data: drawn from a seed, or read from a file.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::world::START;

/// A world and everything that is done to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The seed of the world's own chance: names, UIDs, machines.
    pub seed: u64,
    /// NodePools; the first takes every pod, and has no limits.
    pub pools: Vec<Pool>,
    /// Deployments, from the start or from their first scaling on.
    pub workloads: Vec<Workload>,
    /// Jobs, from the start on.
    #[serde(default)]
    pub jobs: Vec<Job>,
    /// DaemonSets, from the start on.
    #[serde(default)]
    pub daemons: Vec<Daemon>,
    /// What happens, in any order.
    pub happenings: Vec<Happening>,
}

/// A NodePool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    pub name: String,
    /// `on-demand`, `spot`.
    pub capacity_types: Vec<String>,
    pub weight: Option<u32>,
    /// Most cpus of its machines together.
    pub limit_cpu: Option<u32>,
    /// Most machines.
    pub limit_nodes: Option<u32>,
    pub budgets: Vec<Budget>,
    /// In seconds, as all times; `None` is `Never`.
    pub consolidate_after: Option<u64>,
    pub policy: String,
    /// `None` is `Never`.
    pub expire_after: Option<u64>,
    pub termination_grace: Option<u64>,
    pub replicas: Option<u32>,
}

/// How many nodes may be disrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// `1`, `50%`.
    pub nodes: String,
    /// For all reasons if there is none.
    pub reasons: Option<Vec<String>>,
    /// From which minute on, and for how many, each day; always if there is none.
    #[serde(default)]
    pub minutes: Option<(u64, u64)>,
}

/// A Job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    pub name: String,
    /// How many, at the same time.
    pub pods: u32,
    pub cpu_milli: u32,
    /// How long each runs.
    pub secs: u64,
}

/// A DaemonSet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Daemon {
    pub name: String,
    pub cpu_milli: u32,
}

/// A Deployment, and perhaps its PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    pub replicas: u32,
    pub cpu_milli: u32,
    pub memory_mib: u32,
    pub grace: u64,
    pub guard: Option<Guard>,
    /// `true`, or a duration.
    pub do_not_disrupt: Option<String>,
    /// Whether its containers ignore SIGTERM.
    pub ignores_term: bool,
    /// The pool that it has to be on.
    pub pool: Option<String>,
    /// Over what its pods are spread: `zone`, `host`.
    pub spread: Option<String>,
    /// `aerostat.dev/pod-move-usd`.
    pub move_usd: Option<String>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Guard {
    MinAvailable(u32),
    MaxUnavailable(u32),
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// Seconds from the start.
    pub at: u64,
    pub what: What,
}

/// What people do, and what goes wrong. `node` counts the nodes that are there, by name, round and
/// round; `secs` is how long it lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum What {
    /// A Deployment gets another number of replicas.
    Scale { workload: String, replicas: u32 },
    /// Many small pods at once, which go after a while.
    Burst { pods: u32, secs: u64 },
    /// A Deployment goes.
    Remove { workload: String },
    /// Somebody deletes pods of a Deployment.
    Churn { workload: String, pods: u32 },
    /// Somebody edits a pool's template: its machines drift.
    Drift { pool: String },
    /// Somebody deletes a pool.
    DeletePool { pool: String },
    /// Somebody deletes a Node.
    DeleteNode { node: usize },
    /// Somebody deletes a NodeClaim.
    DeleteClaim { node: usize },
    /// Somebody asks for another machine in place of one.
    Replace { node: usize },

    /// The controllers die at the so manieth of their next writes, before or after its effect.
    Crash { write: u64, after: bool },
    /// The watches of a kind, or all, tell nothing new.
    Stale { kind: Option<String>, secs: u64 },
    /// All watches break off.
    DropWatches,
    /// The watch of a kind breaks off, and what it has missed is no longer known.
    Gone { kind: String },
    /// Every so manieth request is answered with this code and not done.
    Answer { code: u16, every: u64, secs: u64 },
    /// Every so manieth request gets no answer: done or not, the caller hears of a time-out.
    Unanswered { every: u64, done: bool, secs: u64 },

    /// Nothing that has all that is said here is to be had.
    SoldOut {
        instance_type: Option<String>,
        zone: Option<String>,
        capacity_type: Option<String>,
        secs: u64,
    },
    /// The next machines never join.
    NeverJoin { machines: usize },
    /// The next orders fail.
    OrdersFail { orders: u32 },
    /// The next orders are carried out, but the answer is lost.
    OrdersUnanswered { orders: u32 },
    /// The next so many ends of machines fail.
    EndsFail { ends: u32 },
    /// The cloud does not list machines.
    ListFails { secs: u64 },

    /// A node's kubelet stops, and comes back.
    NotReady { node: usize, secs: u64 },
    /// A machine is taken back in two minutes.
    Interrupt { node: usize },
    /// A machine is gone, and nobody says so.
    Lose { node: usize },
    /// A machine is terminated by somebody else.
    Terminate { node: usize },
    /// Something of a node's holds its object.
    HoldNode { node: usize, secs: u64 },
    /// Something of a pod's holds its object.
    HoldPod { workload: String, secs: u64 },
    /// No pod of a Deployment may be evicted.
    Freeze { workload: String, secs: u64 },
    /// The whole process, clock and all, stands still and goes on.
    Jump { secs: u64 },
}

impl What {
    /// How long it lasts.
    pub fn lasts(&self) -> u64 {
        match self {
            Self::Burst { secs, .. }
            | Self::Stale { secs, .. }
            | Self::Answer { secs, .. }
            | Self::Unanswered { secs, .. }
            | Self::SoldOut { secs, .. }
            | Self::ListFails { secs }
            | Self::NotReady { secs, .. }
            | Self::HoldNode { secs, .. }
            | Self::HoldPod { secs, .. }
            | Self::Freeze { secs, .. }
            | Self::Jump { secs } => *secs,
            Self::Interrupt { .. } => 120,
            _ => 0,
        }
    }
}

impl Case {
    /// When the last thing that happens is over, in seconds.
    pub fn ends(&self) -> u64 {
        let ends = self.happenings.iter().map(|happening| happening.at + happening.what.lasts());
        ends.max().unwrap_or(0)
    }
}

impl Budget {
    fn manifest(&self) -> Value {
        let mut budget = json!({"nodes": self.nodes});
        if let Some(reasons) = &self.reasons {
            budget["reasons"] = json!(reasons);
        }
        if let Some((from, lasts)) = self.minutes {
            let begins: Timestamp = START.parse().unwrap();
            let begins = begins + SignedDuration::from_mins(from.cast_signed());
            let begins = begins.to_zoned(TimeZone::UTC);
            budget["schedule"] = format!("{} {} * * *", begins.minute(), begins.hour()).into();
            budget["duration"] = format!("{lasts}m").into();
        }
        budget
    }

    /// For how long it has held, in seconds; `None` if it does not.
    pub fn held_for(&self, now: Timestamp) -> Option<i64> {
        let begins: Timestamp = START.parse().unwrap();
        let ran = now.duration_since(begins).as_secs();
        let Some((from, lasts)) = self.minutes else { return Some(ran) };
        let since = ran - (from * 60).cast_signed();
        (0..(lasts * 60).cast_signed()).contains(&since).then_some(since)
    }
}

impl Job {
    pub fn manifest(&self) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name},
            "spec": {
                "parallelism": self.pods, "completions": self.pods, "backoffLimit": 100,
                "template": {
                    "metadata": {
                        "labels": {"app": self.name},
                        "annotations": {"sim.aerostat.dev/duration": format!("{}s", self.secs)},
                    },
                    "spec": {"restartPolicy": "Never", "containers": [container(self.cpu_milli, 64)]},
                },
            },
        })
    }
}

impl Daemon {
    pub fn manifest(&self) -> Value {
        let labels = json!({"app": self.name});
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": self.name},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container(self.cpu_milli, 64)]},
                },
            },
        })
    }
}

fn container(cpu_milli: u32, memory_mib: u32) -> Value {
    json!({
        "name": "app", "image": "example.com/app:1",
        "resources": {"requests": {
            "cpu": format!("{cpu_milli}m"), "memory": format!("{memory_mib}Mi"),
        }},
    })
}

fn seconds(time: Option<u64>) -> Value {
    time.map_or_else(|| "Never".into(), |seconds| format!("{seconds}s").into())
}

impl Pool {
    /// As the API has it.
    pub fn manifest(&self) -> Value {
        let budgets: Vec<Value> = self.budgets.iter().map(Budget::manifest).collect();
        let mut spec = json!({
            "disruption": {
                "consolidateAfter": seconds(self.consolidate_after),
                "consolidationPolicy": self.policy,
                "budgets": budgets,
            },
            "template": {"spec": {
                "nodeClassRef":
                    {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
                "expireAfter": seconds(self.expire_after),
                "requirements": [{
                    "key": "karpenter.sh/capacity-type", "operator": "In",
                    "values": self.capacity_types,
                }],
            }},
        });
        let mut limits = serde_json::Map::new();
        limits.extend(self.limit_cpu.map(|cpu| ("cpu".to_owned(), cpu.to_string().into())));
        limits.extend(self.limit_nodes.map(|nodes| ("nodes".to_owned(), nodes.to_string().into())));
        if !limits.is_empty() {
            spec["limits"] = limits.into();
        }
        if let Some(grace) = self.termination_grace {
            spec["template"]["spec"]["terminationGracePeriod"] = seconds(Some(grace));
        }
        if let Some(weight) = self.weight {
            spec["weight"] = weight.into();
        }
        if let Some(replicas) = self.replicas {
            spec["replicas"] = replicas.into();
        }
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": self.name}, "spec": spec,
        })
    }
}

impl Workload {
    /// The Deployment.
    pub fn deployment(&self) -> Value {
        let labels = json!({"app": self.name});
        let mut annotations = serde_json::Map::new();
        let mut annotate = |key: &str, value: Option<&String>| {
            annotations.extend(value.map(|value| (key.to_owned(), value.clone().into())));
        };
        annotate("karpenter.sh/do-not-disrupt", self.do_not_disrupt.as_ref());
        annotate("aerostat.dev/pod-move-usd", self.move_usd.as_ref());
        let forever = "forever".to_owned();
        annotate("sim.aerostat.dev/stop-duration", Some(&forever).filter(|_| self.ignores_term));
        let mut spec = json!({
            "terminationGracePeriodSeconds": self.grace,
            "containers": [container(self.cpu_milli, self.memory_mib)],
        });
        if let Some(pool) = &self.pool {
            spec["nodeSelector"] = json!({"karpenter.sh/nodepool": pool});
        }
        if let Some(spread) = &self.spread {
            let key = match spread.as_str() {
                "zone" => "topology.kubernetes.io/zone",
                _ => "kubernetes.io/hostname",
            };
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }]);
        }
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": spec,
                },
            },
        })
    }

    /// Its PodDisruptionBudget.
    pub fn budget(&self) -> Option<Value> {
        let spec = match self.guard.as_ref()? {
            Guard::MinAvailable(count) => json!({"minAvailable": count}),
            Guard::MaxUnavailable(count) => json!({"maxUnavailable": count}),
        };
        Some(self.guarded(&self.name, spec))
    }

    /// A PodDisruptionBudget of its pods.
    pub fn guarded(&self, name: &str, mut spec: Value) -> Value {
        spec["selector"] = json!({"matchLabels": {"app": self.name}});
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name}, "spec": spec,
        })
    }
}
