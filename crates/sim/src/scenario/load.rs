//! How much work a workload has over time, for the autoscaler that follows it.

use std::time::Duration;

use aerostat_api::Quantity;
use aerostat_cluster::registry::{Part, WriteOptions};
use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, json};

use super::action::find;
use crate::arrivals::profile::Profile;
use crate::script::Stage;
use crate::span::{Span, after};

/// The work of one workload: what its pods use together, at a factor of 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Load {
    /// Whose: `deployments.apps/default/web`.
    pub of: String,
    /// Cpu that its pods use together.
    #[serde(default)]
    pub cpu: Option<Quantity>,
    /// Memory that its pods use together.
    #[serde(default)]
    pub memory: Option<Quantity>,
    /// How that changes over the day; it does not, if not given.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// How often it is told anew.
    #[serde(default = "minute")]
    pub every: Span,
}

fn minute() -> Span {
    Span(Duration::from_secs(60))
}

impl Load {
    /// Whether it can be told.
    ///
    /// # Errors
    ///
    /// Names the field that is wrong.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.of.splitn(3, '/').count() < 3 {
            bail!("of: {:?} is no plural.group/namespace/name", self.of);
        }
        let amounts = [("cpu", self.cpu), ("memory", self.memory)];
        if amounts.iter().all(|(_, amount)| amount.is_none()) {
            bail!("give cpu, memory or both");
        }
        for (name, amount) in amounts {
            if let Some(amount) = amount.filter(|amount| amount.is_negative()) {
                bail!("{name}: {amount} is below 0");
            }
        }
        if self.every.0 < Duration::from_secs(1) {
            bail!("every: write 1s or more");
        }
        self.profile.iter().try_for_each(|profile| profile.check().context("profile"))
    }

    /// Tells it as of now, by annotations of the workload; when to tell it again.
    ///
    /// # Errors
    ///
    /// If the workload is not there.
    pub fn tell(&self, stage: &Stage, now: Timestamp) -> anyhow::Result<Option<Timestamp>> {
        let (kind, objects) = find(&stage.cluster, &self.of)?;
        let factor = self.profile.as_ref().map_or(1.0, |profile| profile.level(now));
        let amounts = [("cpu", self.cpu), ("memory", self.memory)];
        let told: Map<_, _> = amounts
            .into_iter()
            .filter_map(|(name, amount)| {
                let key = format!("sim.aerostat.dev/load-{name}");
                Some((key, json!(scaled(amount?, factor).to_string())))
            })
            .collect();
        let patch = json!({"metadata": {"annotations": told}});
        for object in objects {
            let (namespace, name) = (object.namespace(), object.name());
            let (part, options) = (Part::Main, WriteOptions::default());
            stage.cluster.update_object(&kind, namespace, name, part, options, |old| {
                let mut value = old.value.clone();
                json_patch::merge(&mut value, &patch);
                Ok(value)
            })?;
        }
        Ok(self.profile.as_ref().map(|_| after(now, self.every.0)))
    }
}

fn scaled(amount: Quantity, factor: f64) -> Quantity {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "clamped")]
    let milli = (amount.milli() as f64 * factor).round().clamp(0.0, 9e18) as i64;
    Quantity::from_milli(milli)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let load: Load = serde_saphyr::from_str(text).unwrap();
        load.check().map_or_else(|error| format!("{error:#}"), |()| "none".to_owned())
    }

    #[test]
    fn mistakes_are_named() {
        let of = "of: deployments.apps/default/web";
        assert_eq!(problem(&format!("{of}\ncpu: 4")), "none");
        assert!(problem("of: web\ncpu: 4").contains("no plural.group/namespace/name"));
        assert!(problem(of).contains("give cpu, memory or both"));
        assert!(problem(&format!("{of}\ncpu: -1")).contains("cpu: -1 is below 0"));
        assert!(problem(&format!("{of}\ncpu: 1\nevery: 10ms")).contains("every: write 1s"));
        let profile = "profile: {weekday: [1, 2]}";
        assert!(problem(&format!("{of}\ncpu: 1\n{profile}")).contains("profile: weekday"));
        assert_eq!(scaled("2Gi".parse().unwrap(), 0.5), "1Gi".parse().unwrap());
    }
}
