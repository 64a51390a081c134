//! The options of the planner, the same for every verb that plans.

use aerostat_engine::snapshot::{MinValuesPolicy, PackingRule, Preferences, Settings};
use clap::ValueEnum;

/// How it is decided which nodes are bought.
#[derive(Debug, clap::Args)]
pub struct Planner {
    /// By which rule pods are put together on new nodes.
    #[arg(long, value_enum, default_value_t = Packing::Price)]
    packing: Packing,

    /// What becomes of what pods prefer but do not demand.
    #[arg(long, value_enum, ignore_case = true, default_value_t = PreferencePolicy::Priced)]
    preference_policy: PreferencePolicy,

    /// What becomes of pods for which a NodePool's minValues cannot be had.
    #[arg(long, value_enum, ignore_case = true, default_value_t = MinValues::Strict)]
    min_values_policy: MinValues,
}

impl Planner {
    /// The settings that these options make.
    pub fn settings(&self) -> Settings {
        Settings {
            packing: self.packing.into(),
            preferences: self.preference_policy.into(),
            min_values: self.min_values_policy.into(),
            ..Settings::default()
        }
    }
}

/// By which rule pods are put together on new nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Packing {
    /// For the least money.
    Price,
    /// As Karpenter does, to compare with.
    Karpenter,
}

impl From<Packing> for PackingRule {
    fn from(packing: Packing) -> Self {
        match packing {
            Packing::Price => Self::Price,
            Packing::Karpenter => Self::Karpenter,
        }
    }
}

/// What becomes of what pods prefer but do not demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PreferencePolicy {
    /// It is a demand for as long as it can be met.
    Respect,
    /// It does not count.
    Ignore,
    /// It is met where that costs nothing or little.
    Priced,
}

impl From<PreferencePolicy> for Preferences {
    fn from(policy: PreferencePolicy) -> Self {
        match policy {
            PreferencePolicy::Respect => Self::Respect,
            PreferencePolicy::Ignore => Self::Ignore,
            PreferencePolicy::Priced => Self::Priced,
        }
    }
}

/// What becomes of pods for which a NodePool's minValues cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum MinValues {
    /// They get nothing from that NodePool.
    Strict,
    /// They get a node with as many choices as there are.
    BestEffort,
}

impl From<MinValues> for MinValuesPolicy {
    fn from(policy: MinValues) -> Self {
        match policy {
            MinValues::Strict => Self::Strict,
            MinValues::BestEffort => Self::BestEffort,
        }
    }
}
