//! One event, for people and for programs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What kind of event a line tells, causes before effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A node joined.
    NodeJoined,
    /// A node is ready for pods.
    NodeReady,
    /// A pod makes lower ones leave.
    PodPreempts,
    /// A pod was preempted.
    PodPreempted,
    /// A pod was deleted.
    PodDeleted,
    /// A pod was bound to a node.
    PodScheduled,
    /// Pods wait for a node.
    PodWaits,
    /// Pods cannot be placed at all.
    PodUnplaced,
    /// A node was ordered.
    NodeOrdered,
    /// A pod's sandbox failed.
    SandboxFailed,
    /// An image is pulled.
    ImagePulling,
    /// An image is there.
    ImagePulled,
    /// A pod runs.
    PodRunning,
    /// A pod has ended.
    PodEnded,
    /// A node is to go.
    NodeLeaving,
    /// A node is gone.
    NodeGone,
    /// Something that the user should know.
    Notice,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// When.
    pub time: Timestamp,
    /// What kind.
    pub kind: Kind,
    /// The sentence for people.
    pub text: String,
    /// The facts for programs.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl Line {
    /// A line with facts; `facts` must be an object.
    #[must_use]
    pub fn new(time: Timestamp, kind: Kind, text: impl Into<String>, facts: Value) -> Self {
        let facts = match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        };
        Self { time, kind, text: text.into(), facts }
    }

    /// A sign for people who skim.
    #[must_use]
    pub fn sign(&self) -> &'static str {
        match self.kind {
            Kind::PodWaits => "…",
            Kind::PodUnplaced | Kind::SandboxFailed | Kind::Notice => "!",
            Kind::PodPreempts | Kind::PodPreempted => "×",
            Kind::NodeOrdered => "$",
            Kind::NodeJoined | Kind::NodeReady => "+",
            Kind::PodScheduled | Kind::ImagePulling | Kind::ImagePulled => "·",
            Kind::PodRunning => "▶",
            Kind::PodEnded => "✓",
            Kind::PodDeleted | Kind::NodeLeaving | Kind::NodeGone => "-",
        }
    }
}
