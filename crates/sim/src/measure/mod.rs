//! What a run costs and how long its pods wait, seen from outside: only the events of the store
//! are read, and nothing is asked again and again.
//!
//! ```text
//! NodeClaims ──> machines ──┐
//! Nodes ──┐                 ├─> gauges ──> report
//! Pods ───┴────> pods ──────┘
//! NodePools ───> floor (what it costs at least)
//! decisions ───> blockers (why machines stay, and pods wait)
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `machines` | what was bought, from when to when, and who used it |
//! | `pods` | from created to running to ended |
//! | `floor` | the lower bound of what pods cost |
//! | `blockers` | why machines stay, and pods wait |
//! | `gauges` | what is the case over time |

pub(crate) mod blockers;
pub(crate) mod floor;
pub(crate) mod gauges;
pub(crate) mod machines;
pub(crate) mod pods;

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::{NodeClaim, NodePool};
use aerostat_clock::Clock;
use aerostat_cluster::{Change, Cluster, Informer};
use aerostat_controllers::Decision;
use aerostat_engine::resources::Resources;
use aerostat_provider::catalog::Region;
use aerostat_provider::sim::Reserved;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use blockers::Blockers;
use floor::Floor;
use gauges::{Gauge, Gauges};
use machines::Machines;
use pods::Pods;

/// Follows a cluster and keeps account.
pub struct Meter {
    clock: Clock,
    claims: Informer<NodeClaim>,
    pools: Informer<NodePool>,
    node_changes: Informer<Node>,
    pod_changes: Informer<Pod>,
    events: Informer<Event>,
    decisions: UnboundedReceiver<Decision>,
    /// Who else wants to know of them.
    listener: Option<UnboundedSender<Decision>>,
    pub(crate) ledger: Ledger,
}

/// The account.
pub(crate) struct Ledger {
    pub(crate) machines: Machines,
    pub(crate) pods: Pods,
    pub(crate) floor: Floor,
    pub(crate) gauges: Gauges,
    pub(crate) blockers: Blockers,
    nodes: BTreeMap<String, NodeFacts>,
    /// What pods on machines ask for, daemons aside.
    asked: (i64, i64),
}

/// What is known of a Node.
struct NodeFacts {
    provider_id: String,
    ready: Option<Timestamp>,
}

/// One change of any kind.
enum Seen {
    Claim(Change<NodeClaim>),
    Pool(Change<NodePool>),
    Node(Change<Node>),
    Pod(Change<Pod>),
    Event(Change<Event>),
    Decision(Box<Decision>),
}

impl Meter {
    /// A meter of a cluster, and of what is decided about it, in a region of which so much is
    /// reserved, until `end`; `fee` is Auto Mode's, 0.12 for 12 %. `None` if the cluster knows no
    /// NodePools and NodeClaims.
    #[must_use]
    pub fn new(
        cluster: &Cluster,
        decisions: UnboundedReceiver<Decision>,
        region: Arc<Region>,
        reservations: &[Reserved],
        fee: f64,
        end: Timestamp,
    ) -> Option<Self> {
        let clock = cluster.clock();
        Some(Self {
            clock,
            claims: cluster.informer_of("karpenter.sh", "nodeclaims")?,
            pools: cluster.informer_of("karpenter.sh", "nodepools")?,
            node_changes: cluster.informer(),
            pod_changes: cluster.informer(),
            events: cluster.informer(),
            decisions,
            listener: None,
            ledger: Ledger {
                machines: Machines::new(region.clone(), fee),
                pods: Pods::default(),
                floor: Floor::new(region, reservations),
                gauges: Gauges::new(clock.now(), end),
                blockers: Blockers::new(clock.now()),
                nodes: BTreeMap::new(),
                asked: (0, 0),
            },
        })
    }

    /// Everything that is decided from now on, once it is accounted for.
    pub fn pass_on_decisions(&mut self) -> UnboundedReceiver<Decision> {
        let (sender, receiver) = unbounded_channel();
        self.listener = Some(sender);
        receiver
    }

    /// Keeps account until dropped. Cancel-safe.
    pub async fn run(&mut self) {
        loop {
            let seen = tokio::select! {
                biased;
                Some(change) = self.claims.next() => Seen::Claim(change),
                Some(change) = self.pools.next() => Seen::Pool(change),
                Some(change) = self.node_changes.next() => Seen::Node(change),
                Some(change) = self.pod_changes.next() => Seen::Pod(change),
                Some(change) = self.events.next() => Seen::Event(change),
                Some(decision) = self.decisions.recv() => Seen::Decision(Box::new(decision)),
                else => return,
            };
            self.take(seen, self.clock.now());
            self.drain();
        }
    }

    fn take(&mut self, seen: Seen, now: Timestamp) {
        self.ledger.take(&seen, now);
        if let (Seen::Decision(decision), Some(listener)) = (seen, &self.listener) {
            // It may have stopped to listen.
            let _ = listener.send(*decision);
        }
    }

    /// Takes what has happened by now.
    pub fn drain(&mut self) {
        let now = self.clock.now();
        loop {
            let claim = self.claims.try_next().map(Seen::Claim);
            let seen = claim
                .or_else(|| self.pools.try_next().map(Seen::Pool))
                .or_else(|| self.node_changes.try_next().map(Seen::Node))
                .or_else(|| self.pod_changes.try_next().map(Seen::Pod))
                .or_else(|| self.events.try_next().map(Seen::Event))
                .or_else(|| Some(Seen::Decision(Box::new(self.decisions.try_recv().ok()?))));
            let Some(seen) = seen else { return };
            self.take(seen, now);
        }
    }

    /// Closes the account as of now.
    pub fn close(&mut self) {
        self.drain();
        let now = self.clock.now();
        self.ledger.gauges.advance(now);
        self.ledger.machines.close(now);
        self.ledger.blockers.advance(now);
    }
}

impl Ledger {
    fn take(&mut self, seen: &Seen, now: Timestamp) {
        self.gauges.advance(now);
        match seen {
            Seen::Claim(change) => self.claim(change, now),
            Seen::Pool(Change::Applied { new, .. }) => {
                self.floor.allow(new);
                self.show_demand();
            }
            Seen::Pool(Change::Deleted(_)) => {}
            Seen::Node(change) => self.node(change, now),
            Seen::Pod(change) => self.pod(change, now),
            Seen::Event(Change::Applied { new, old: None }) => self.pods.event(new, now),
            Seen::Event(_) => {}
            Seen::Decision(decision) => {
                for going in &decision.plan.terminations {
                    self.machines.given_up(&going.claim, &going.reason);
                }
                self.blockers.take(&decision.report, now);
            }
        }
    }

    fn claim(&mut self, change: &Change<NodeClaim>, now: Timestamp) {
        match change {
            Change::Applied { new, .. } => self.machines.claim(new, now),
            Change::Deleted(claim) => {
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                let left = self.machines.end(uid, now);
                // Its pods may be reported as running for a while: nobody pays for them any more.
                for pod in left {
                    if let Some(asked) = self.pods.left_behind(&pod) {
                        self.demand(&asked, -1);
                    }
                }
            }
        }
        let (count, rate, room) = self.machines.now();
        self.gauges.set(Gauge::Nodes, count);
        self.gauges.set(Gauge::Rate, rate);
        self.gauges.set(Gauge::CpuRoom, room.0);
        self.gauges.set(Gauge::MemoryRoom, room.1);
    }

    fn node(&mut self, change: &Change<Node>, now: Timestamp) {
        match change {
            Change::Applied { new, .. } => {
                let name = new.metadata.name.clone().unwrap_or_default();
                let provider_id = new.spec.as_ref().and_then(|spec| spec.provider_id.clone());
                let facts = self.nodes.entry(name).or_insert_with(|| NodeFacts {
                    provider_id: provider_id.unwrap_or_default(),
                    ready: None,
                });
                let conditions = new.status.as_ref().and_then(|status| status.conditions.as_ref());
                let is_ready = conditions
                    .into_iter()
                    .flatten()
                    .any(|condition| condition.type_ == "Ready" && condition.status == "True");
                if is_ready && facts.ready.is_none() {
                    facts.ready = Some(now);
                }
            }
            Change::Deleted(node) => {
                self.nodes.remove(node.metadata.name.as_deref().unwrap_or_default());
            }
        }
    }

    fn pod(&mut self, change: &Change<Pod>, now: Timestamp) {
        let nodes = &self.nodes;
        let ready = |node: &str| nodes.get(node).and_then(|facts| facts.ready);
        let step = self.pods.take(change, now, ready);
        if let Some((node, pod)) = step.bound {
            let provider_id = self.nodes.get(&node).map(|facts| facts.provider_id.as_str());
            let uid = provider_id.and_then(|id| self.machines.uid_of(id));
            if let Some(uid) = uid {
                self.machines.carry(&uid, &pod, now);
                if !pod.daemon {
                    self.demand(&pod.requests, 1);
                }
                self.pods.paid(&pod.uid, uid);
            }
        }
        if let Some((machine, pod)) = step.released {
            self.machines.release(&machine, &pod.uid, now);
            if !pod.daemon {
                self.demand(&pod.requests, -1);
            }
        }
        self.gauges.set(Gauge::Pending, self.pods.pending_now());
    }

    /// Pods on machines ask for so much more (`sign` 1) or less.
    fn demand(&mut self, requests: &Resources, sign: i64) {
        self.asked.0 += sign * requests.cpu;
        self.asked.1 += sign * requests.memory;
        self.show_demand();
    }

    fn show_demand(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "sums of requests fit 53 bits")]
        let (cpu, memory) = (self.asked.0 as f64, self.asked.1 as f64);
        self.gauges.set(Gauge::CpuAsked, cpu);
        self.gauges.set(Gauge::MemoryAsked, memory);
        self.gauges.set(Gauge::Floor, self.floor.rate(cpu, memory));
    }
}
