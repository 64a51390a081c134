//! When a node was last heard of, and what it becomes when it falls silent.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A node that is silent for so long is unknown. Source: `--node-monitor-grace-period`.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// The same for a node that has never told its state. Source: `--node-startup-grace-period`.
const STARTUP_GRACE: SignedDuration = SignedDuration::from_mins(1);

/// What was heard of a node.
#[derive(Debug)]
pub(super) struct Health {
    heard: Timestamp,
    heartbeat: Option<Timestamp>,
    renewed: Option<Timestamp>,
    /// When its lease was last looked at.
    looked: Timestamp,
    grace: SignedDuration,
    /// Status of its `Ready` condition.
    pub(super) ready: Option<String>,
    /// Whether something has happened since it was last looked at.
    pub(super) news: bool,
}

impl Health {
    /// A node that is seen for the first time.
    pub(super) fn new(node: &Node, now: Timestamp) -> Self {
        let mut health = Self {
            heard: node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0),
            heartbeat: None,
            renewed: None,
            looked: now,
            grace: STARTUP_GRACE,
            ready: None,
            news: true,
        };
        health.observe(node, now);
        health
    }

    /// The node was written.
    pub(super) fn observe(&mut self, node: &Node, now: Timestamp) {
        self.news = true;
        let Some(ready) = ready(node) else { return };
        self.ready = Some(ready.status.clone());
        let heartbeat = ready.last_heartbeat_time.as_ref().map(|time| time.0);
        if self.grace == STARTUP_GRACE || heartbeat != self.heartbeat {
            self.heard = now;
            self.heartbeat = heartbeat;
        }
        self.grace = GRACE;
    }

    /// Its lease is looked at: it was last renewed `at`, by the clock of whoever did.
    pub(super) fn renewed(&mut self, at: Option<Timestamp>, now: Timestamp) {
        if let Some(at) = at.filter(|_| at > self.renewed) {
            // A clock that is wrong tells only that it was, since the last look.
            let is_right = self.looked <= at && at <= now;
            self.heard = self.heard.max(if is_right { at } else { now });
            self.renewed = Some(at);
        }
        self.looked = now;
    }

    /// When it will have been silent for too long.
    pub(super) fn silent_at(&self) -> Timestamp {
        self.heard + self.grace
    }
}

/// The `Ready` condition.
pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// Whether [`make_unknown`] would change anything.
pub(super) fn may_become_unknown(node: &Node) -> bool {
    ready(node).is_none_or(|ready| ready.status != "Unknown")
}

/// Nobody knows how the node is.
pub(super) fn make_unknown(node: &mut Node, now: Timestamp) {
    let created = node.metadata.creation_timestamp.clone();
    let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
    for type_ in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            None => conditions.push(NodeCondition {
                type_: type_.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: created.clone(),
                last_transition_time: Some(Time(now)),
            }),
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".into();
                condition.reason = Some("NodeStatusUnknown".into());
                condition.message = Some("Kubelet stopped posting node status.".into());
                condition.last_transition_time = Some(Time(now));
            }
            Some(_) => {}
        }
    }
}
