//! Pods from created to running to ended, and where their waiting time went.

use std::collections::BTreeMap;

use aerostat_cluster::Change;
use aerostat_engine::resources::Resources;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod, PodCondition};

/// All pods of a run. Those of DaemonSets come and go with their nodes: they are not counted.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    /// By UID.
    live: BTreeMap<String, Record>,
    pending: u64,
    pub(crate) counts: Counts,
    pub(crate) waits: Vec<Wait>,
    /// Pods that had to leave their node, by the reason that their condition gives.
    pub(crate) moved: BTreeMap<String, u64>,
}

/// How many pods there were, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) total: u64,
    pub(crate) finished: u64,
    /// Of the finished: those that were deleted before they ended by themselves.
    pub(crate) removed: u64,
    pub(crate) running: u64,
    pub(crate) pending: u64,
    pub(crate) failed: u64,
}

/// How long a pod waited, in milliseconds, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// When it ran.
    pub(crate) ended: Timestamp,
    /// Until it had a node, as far as its node was there.
    pub(crate) queue: i64,
    /// Until its node was ready.
    pub(crate) node: i64,
    /// From then until its sandbox was made.
    pub(crate) network: i64,
    /// Until its images were there.
    pub(crate) image: i64,
    /// Until it ran.
    pub(crate) start: i64,
}

impl Wait {
    pub(crate) fn total(&self) -> i64 {
        self.queue + self.node + self.network + self.image + self.start
    }
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub(crate) struct OnNode {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) requests: Resources,
    pub(crate) daemon: bool,
}

/// What a change of a pod means for machines.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// It was bound to a node.
    pub(crate) bound: Option<(String, OnNode)>,
    /// It no longer uses a machine, of this claim.
    pub(crate) released: Option<(String, OnNode)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

#[derive(Debug)]
struct Record {
    pod: OnNode,
    /// Whether anybody waits for it: a placeholder of negative priority has all the time.
    waited_for: bool,
    phase: Phase,
    created: Timestamp,
    bound: Option<Timestamp>,
    node_ready: Option<Timestamp>,
    sandbox: Option<Timestamp>,
    pulled: Option<Timestamp>,
    /// The claim whose machine it uses.
    machine: Option<String>,
    disruption: Option<String>,
}

impl Pods {
    /// A pod came, changed or went. `ready` tells since when a node is ready.
    pub(crate) fn take(
        &mut self,
        change: &Change<Pod>,
        now: Timestamp,
        ready: impl Fn(&str) -> Option<Timestamp>,
    ) -> Step {
        match change {
            Change::Applied { new, .. } => self.applied(new, now, ready),
            Change::Deleted(pod) => self.deleted(pod),
        }
    }

    fn applied(
        &mut self,
        pod: &Pod,
        now: Timestamp,
        ready: impl Fn(&str) -> Option<Timestamp>,
    ) -> Step {
        let mut step = Step::default();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let record = self.live.entry(uid).or_insert_with_key(|uid| {
            let record = Record::new(uid, pod, now);
            if !record.pod.daemon {
                self.counts.total += 1;
                self.pending += 1;
            }
            record
        });
        let status = pod.status.as_ref();
        let conditions: &[PodCondition] =
            status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let condition = |name: &str| {
            conditions
                .iter()
                .find(|condition| condition.type_ == name && condition.status == "True")
        };
        if let Some(disruption) = condition("DisruptionTarget") {
            record.disruption = disruption.reason.clone();
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if let Some(node) = node.filter(|node| !node.is_empty() && record.bound.is_none()) {
            record.bound = Some(now);
            record.node_ready = ready(node);
            step.bound = Some((node.to_owned(), record.pod.clone()));
        }
        if pod.metadata.deletion_timestamp.is_some() && record.phase != Phase::Pending {
            // How it ends now is not its own doing.
            return step;
        }
        let phase = match status.and_then(|status| status.phase.as_deref()) {
            Some("Running") => Phase::Running,
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            _ => Phase::Pending,
        };
        if phase == record.phase {
            return step;
        }
        let ran = matches!(phase, Phase::Running | Phase::Succeeded);
        if record.phase == Phase::Pending && !record.pod.daemon {
            self.pending -= 1;
            if ran && record.waited_for {
                self.waits.push(record.wait(now));
            }
        }
        record.phase = phase;
        if matches!(phase, Phase::Succeeded | Phase::Failed)
            && let Some(machine) = record.machine.take()
        {
            step.released = Some((machine, record.pod.clone()));
        }
        step
    }

    fn deleted(&mut self, pod: &Pod) -> Step {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let Some(mut record) = self.live.remove(uid) else { return Step::default() };
        let machine = record.machine.take();
        let released = machine.map(|machine| (machine, record.pod.clone()));
        let step = Step { bound: None, released };
        if record.pod.daemon {
            return step;
        }
        match record.phase {
            Phase::Failed => self.counts.failed += 1,
            Phase::Succeeded => self.counts.finished += 1,
            Phase::Pending | Phase::Running => {
                self.counts.finished += 1;
                self.counts.removed += 1;
                if record.phase == Phase::Pending {
                    self.pending -= 1;
                }
                if let Some(reason) = record.disruption.filter(|_| record.bound.is_some()) {
                    *self.moved.entry(reason).or_default() += 1;
                }
            }
        }
        step
    }

    /// A pod uses the machine of a claim.
    pub(crate) fn paid(&mut self, uid: &str, machine: String) {
        if let Some(record) = self.live.get_mut(uid) {
            record.machine = Some(machine);
        }
    }

    /// Its machine is gone: what it asked for, unless it is a daemon.
    pub(crate) fn left_behind(&mut self, uid: &str) -> Option<Resources> {
        let record = self.live.get_mut(uid)?;
        record.machine = None;
        (!record.pod.daemon).then(|| record.pod.requests.clone())
    }

    /// Something was written about an object: the first word of an image says that the sandbox is
    /// made, the last image that is there counts.
    pub(crate) fn event(&mut self, event: &Event, now: Timestamp) {
        let reason = event.reason.as_deref().unwrap_or_default();
        if !matches!(reason, "Pulling" | "Pulled") {
            return;
        }
        let uid = event.involved_object.uid.as_deref().unwrap_or_default();
        if let Some(record) = self.live.get_mut(uid).filter(|r| r.phase == Phase::Pending) {
            record.sandbox.get_or_insert(now);
            if reason == "Pulled" {
                record.pulled = Some(now);
            }
        }
    }

    /// How many do not run yet.
    pub(crate) fn pending_now(&self) -> f64 {
        f64::from(u32::try_from(self.pending).unwrap_or(u32::MAX))
    }

    /// The counts as of now.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.counts;
        for record in self.live.values().filter(|record| !record.pod.daemon) {
            *match record.phase {
                Phase::Pending => &mut counts.pending,
                Phase::Running => &mut counts.running,
                Phase::Succeeded => &mut counts.finished,
                Phase::Failed => &mut counts.failed,
            } += 1;
        }
        counts
    }
}

impl Record {
    fn new(uid: &str, pod: &Pod, now: Timestamp) -> Self {
        let owners = pod.metadata.owner_references.iter().flatten();
        let daemon =
            owners.into_iter().any(|o| o.kind == "DaemonSet" && o.controller == Some(true));
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        // A pod that the planner cannot read takes no room that it knows of.
        let read = aerostat_engine::pod::Pod::from_k8s(pod).ok();
        Self {
            pod: OnNode {
                uid: uid.to_owned(),
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                requests: read.map(|pod| pod.requests).unwrap_or_default(),
                daemon,
            },
            waited_for: priority >= 0 && !daemon,
            phase: Phase::Pending,
            created: now,
            bound: None,
            node_ready: None,
            sandbox: None,
            pulled: None,
            machine: None,
            disruption: None,
        }
    }

    /// Parts the time from created to running.
    fn wait(&self, running: Timestamp) -> Wait {
        let millis = |from: Timestamp, to: Timestamp| to.duration_since(from).as_millis() as i64;
        let bound = self.bound.unwrap_or(running);
        let ready = self.node_ready.map_or(self.created, |ready| ready.clamp(self.created, bound));
        let sandbox = self.sandbox.map_or(bound, |made| made.clamp(bound, running));
        let pulled = self.pulled.map_or(sandbox, |pulled| pulled.clamp(sandbox, running));
        Wait {
            ended: running,
            queue: millis(ready, bound),
            node: millis(self.created, ready),
            network: millis(bound, sandbox),
            image: millis(sandbox, pulled),
            start: millis(pulled, running),
        }
    }
}
