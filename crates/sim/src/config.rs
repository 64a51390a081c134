//! The simulated timings, as a file.

use std::path::Path;

use aerostat_cluster::kubelet::Settings as Kubelet;
use aerostat_provider::sim::{Stock, Timings as Cloud};
use anyhow::Context;
use serde::{Deserialize, Serialize};

/// How the simulated world behaves: `--config FILE`. Everything has a default.
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
    /// Reads a YAML (or JSON) file.
    ///
    /// # Errors
    ///
    /// Names the file, the line and the field that is wrong.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the config file {} cannot be read", path.display()))?;
        serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is no valid config file", path.display()))
    }
}
