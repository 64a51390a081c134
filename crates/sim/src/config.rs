//! The simulated timings, as a file.

use std::path::Path;

use aerostat_cluster::kubelet::Settings as Kubelet;
use aerostat_provider::catalog::Flavor;
use aerostat_provider::sim::{Stock, Timings as Cloud};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the simulated world behaves: `--config FILE`. Everything has a default, which depends on
/// whose machines are simulated: those of the KWOK provider take no time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// How long machines take.
    pub cloud: Cloud,
    /// What the cloud has in stock.
    pub stock: Stock,
    /// How long pods take.
    pub kubelet: Kubelet,
}

impl Config {
    /// What holds if nothing is said.
    #[must_use]
    pub fn of(flavor: Flavor) -> Self {
        match flavor {
            Flavor::AutoMode => Self::default(),
            Flavor::Kwok => {
                Self { cloud: Cloud::none(), kubelet: Kubelet::instant(), ..Self::default() }
            }
        }
    }

    /// Reads a YAML (or JSON) file; what it does not say is as `flavor` has it.
    ///
    /// # Errors
    ///
    /// Names the file, the line and the field that is wrong.
    pub fn read(path: &Path, flavor: Flavor) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the config file {} cannot be read", path.display()))?;
        let invalid = || format!("{} is no valid config file", path.display());
        let config: Self = serde_saphyr::from_str(&text).with_context(invalid)?;
        if flavor == Flavor::AutoMode {
            return Ok(config);
        }
        let given: Value = serde_saphyr::from_str(&text).with_context(invalid)?;
        Self::over(flavor, given).with_context(invalid)
    }

    /// What `given` says; what it does not say is as `flavor` has it.
    ///
    /// # Errors
    ///
    /// Names the field that is wrong.
    pub fn over(flavor: Flavor, given: Value) -> anyhow::Result<Self> {
        let mut config = serde_json::to_value(Self::of(flavor))?;
        if let (Value::Object(given), Some(parts)) = (given, config.as_object_mut()) {
            for (part, given) in given {
                match (given, parts.get_mut(&part).and_then(Value::as_object_mut)) {
                    (Value::Object(given), Some(fields)) => fields.extend(given),
                    (given, _) => drop(parts.insert(part, given)),
                }
            }
        }
        Ok(serde_json::from_value(config)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_is_as_the_provider_has_it() {
        let given = json!({"cloud": {"boot": "7s"}, "kubelet": {"jobDuration": "1m"}});
        let config = Config::over(Flavor::Kwok, given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&config.cloud.boot).unwrap(), "7s");
        assert!(config.cloud.launch.is_none() && config.kubelet.node_ready_delay.0.is_zero());
        assert_eq!(config.kubelet.job_duration.0.as_secs(), 60);
        let config = Config::over(Flavor::AutoMode, given).unwrap();
        assert_eq!(config.cloud.launch, Cloud::default().launch);
        let wrong = Config::over(Flavor::Kwok, json!({"cloud": {"bot": "7s"}})).unwrap_err();
        assert!(wrong.to_string().contains("unknown field `bot`"), "{wrong}");
    }
}
