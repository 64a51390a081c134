//! Changes over time, as SimKube records them: MessagePack or JSON, version 2.
//!
//! Source of the form: acrlabs/simkube `sk-store`. The lifecycles of pods that a trace may hold are
//! left out: how long a container runs is said by annotations, see docs/simulation.md.

use std::path::Path;

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A trace that was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trace {
    version: Value,
    /// Which kinds are in it, and what SimKube keeps beside the events: not read here.
    #[serde(default)]
    config: Value,
    #[serde(default)]
    index: Value,
    #[serde(default)]
    pod_lifecycles: Value,
    events: Vec<Event>,
}

/// What changed at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since 1970.
    pub(super) ts: i64,
    /// What came or changed.
    pub applied_objs: Vec<Value>,
    /// What went.
    pub deleted_objs: Vec<Value>,
}

impl Trace {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it is cut short, or is no trace of version 2.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("{shown} cannot be read"))?;
        Self::parse(&bytes).with_context(|| format!("{shown} is no SimKube trace"))
    }

    pub(super) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let trace: Self = if is_json {
            serde_json::from_slice(bytes)?
        } else {
            rmp_serde::from_slice(bytes).context("its MessagePack cannot be read to the end")?
        };
        if trace.version != 2 && trace.version != "2" {
            bail!("it is of version {}; version 2 is known", trace.version);
        }
        if !trace.events.is_sorted_by_key(|event| event.ts) {
            bail!("its events are not in order of time");
        }
        Ok(trace)
    }

    /// A trace of events in order of time.
    pub(super) fn new(events: Vec<Event>) -> Self {
        let template = json!({"podSpecTemplatePaths": ["/spec/template"]});
        let tracked = json!({"apps/v1.Deployment": template, "apps/v1.ReplicaSet": template,
            "apps/v1.DaemonSet": template, "batch/v1.Job": template});
        Self {
            version: 2.into(),
            config: json!({ "trackedObjects": tracked }),
            index: json!({}),
            pod_lifecycles: json!({}),
            events,
        }
    }

    /// Writes it: JSON if the file's name ends so, else MessagePack.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let bytes = if path.extension().is_some_and(|end| end == "json") {
            serde_json::to_vec_pretty(self)?
        } else {
            rmp_serde::to_vec_named(self)?
        };
        std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// What happens when, if the trace begins at `start`.
    pub(crate) fn events(self, start: Timestamp) -> impl Iterator<Item = (Timestamp, Event)> {
        let first = self.events.first().map_or(0, |event| event.ts);
        self.events.into_iter().map(move |event| {
            let after = SignedDuration::from_secs(event.ts.saturating_sub(first));
            (start.checked_add(after).unwrap_or(Timestamp::MAX), event)
        })
    }
}
