//! Requirement algebra: sets of values that a node label may take.
//!
//! Source: kubernetes-sigs/karpenter `pkg/scheduling/requirement.go`, `requirements.go`. A set is
//! either plain (these values) or a complement (all but these), and a complement may have integer
//! bounds, both inclusive. An empty plain set allows no value: the label is absent, if it may be.

mod set;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::core::v1 as core;

use crate::labels;
use crate::nodepool::NodeSelectorRequirement;

/// The operators of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; the label may be absent.
    NotIn,
    /// Any value.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer above the value.
    Gt,
    /// An integer below the value.
    Lt,
    /// An integer not below the value.
    Gte,
    /// An integer not above the value.
    Lte,
}

impl FromStr for Operator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            "Gte" => Self::Gte,
            "Lte" => Self::Lte,
            _ => {
                return Err(format!(
                    "unknown operator {text:?}: use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte"
                ));
            }
        })
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What one label may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    key: String,
    complement: bool,
    /// Whether the label must have some value. Upstream infers this from the operator and so
    /// forgets it when `Exists` meets `NotIn`, or when two plain sets have nothing in common.
    present: bool,
    values: BTreeSet<String>,
    gte: Option<i64>,
    lte: Option<i64>,
    /// How many different values must stay possible; merged to the larger.
    pub min_values: Option<i64>,
}

/// Why two sets of requirements do not go together: one text for each label, by label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Incompatible(pub Vec<String>);

/// What the labels of a node may be: at most one requirement a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirements(BTreeMap<String, Requirement>);

impl Requirements {
    /// Reads a pool's or claim's requirements.
    ///
    /// # Errors
    ///
    /// As [`Requirement::new`], with the position of the requirement.
    pub fn from_pool(list: &[NodeSelectorRequirement]) -> Result<Self, String> {
        let mut requirements = Self::default();
        for (index, item) in list.iter().enumerate() {
            let mut requirement = item
                .operator
                .parse()
                .and_then(|operator| {
                    Requirement::new(&item.key, operator, item.values.iter().cloned())
                })
                .map_err(|error| format!("requirements[{index}]: {error}"))?;
            requirement.min_values = item.min_values;
            requirements.add(requirement);
        }
        Ok(requirements)
    }

    /// Reads the label expressions of a pod's node selector term.
    ///
    /// # Errors
    ///
    /// As [`Requirement::new`]; `Gte` and `Lte` are Karpenter's and mean nothing to the scheduler.
    pub fn from_expressions(list: &[core::NodeSelectorRequirement]) -> Result<Self, String> {
        let mut requirements = Self::default();
        for item in list {
            let values = item.values.iter().flatten().cloned();
            let operator = item.operator.parse()?;
            if matches!(operator, Operator::Gte | Operator::Lte) {
                return Err(format!(
                    "{}: pods cannot ask for {operator}: use In, NotIn, Exists, DoesNotExist, Gt or Lt",
                    item.key
                ));
            }
            requirements.add(Requirement::new(&item.key, operator, values)?);
        }
        Ok(requirements)
    }

    /// Each label must have its value.
    #[must_use]
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        let mut requirements = Self::default();
        for (key, value) in labels {
            requirements.add(Requirement::one_of(key, [value.clone()]));
        }
        requirements
    }

    /// Narrows it by one more requirement.
    pub fn add(&mut self, requirement: Requirement) {
        let narrowed = match self.0.get(&requirement.key) {
            Some(existing) => requirement.intersection(existing),
            None => requirement,
        };
        self.0.insert(narrowed.key.clone(), narrowed);
    }

    /// Narrows it by all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for requirement in other.0.values() {
            self.add(requirement.clone());
        }
    }

    /// Forgets a label.
    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.0.remove(key)
    }

    /// What is said of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    /// All of them, by label.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.0.values()
    }

    /// Whether a label may have this value (`None`: be absent).
    #[must_use]
    pub fn allows(&self, key: &str, value: Option<&str>) -> bool {
        self.0.get(key).is_none_or(|requirement| match value {
            Some(value) => requirement.has(value),
            None => requirement.allows_absence(),
        })
    }

    /// Whether some node may satisfy both. A label that only `incoming` names must be one of
    /// `well_known` (a new node can get any value of those), or be allowed to be absent.
    ///
    /// # Errors
    ///
    /// Karpenter's texts, one for each label that stands against it.
    pub fn compatible(
        &self,
        incoming: &Self,
        well_known: &BTreeSet<String>,
    ) -> Result<(), Incompatible> {
        let mut errors = Vec::new();
        for requirement in incoming.0.values() {
            let key = &requirement.key;
            if self.0.contains_key(key) || well_known.contains(key) || requirement.allows_absence()
            {
                continue;
            }
            let hint = self.typo_hint(key, well_known);
            errors.push(format!("label {key:?} does not have known values{hint}"));
        }
        if let Err(Incompatible(more)) = self.intersects(incoming) {
            errors.extend(more);
        }
        if errors.is_empty() { Ok(()) } else { Err(Incompatible(errors)) }
    }

    /// Whether the labels that both name have a value in common; others do not matter.
    ///
    /// # Errors
    ///
    /// Karpenter's texts, one for each label that has none.
    pub fn intersects(&self, incoming: &Self) -> Result<(), Incompatible> {
        let mut errors = Vec::new();
        for requirement in incoming.0.values() {
            let Some(existing) = self.0.get(&requirement.key) else { continue };
            if existing.intersection(requirement).is_empty()
                && !(existing.allows_absence() && requirement.allows_absence())
            {
                errors.push(format!("key {}, {requirement} not in {existing}", requirement.key));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Incompatible(errors)) }
    }

    /// ` (typo of "x"?)` if a known label looks much like `key`.
    fn typo_hint(&self, key: &str, well_known: &BTreeSet<String>) -> String {
        let suffix = key.split_once('/').map_or(key, |(_, name)| name);
        let like = |known: &str| {
            known.contains(key)
                || edit_distance(key, known) < known.len() / 5
                || known.ends_with(suffix)
        };
        let known = well_known.iter().chain(self.0.keys()).find(|known| like(known));
        known.map(|known| format!(" (typo of {known:?}?)")).unwrap_or_default()
    }

    /// As a claim's requirements, by label; two bounds take two entries.
    #[must_use]
    pub fn to_claim(&self) -> Vec<NodeSelectorRequirement> {
        self.0.values().flat_map(Requirement::to_claim).collect()
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(list: I) -> Self {
        let mut requirements = Self::default();
        for requirement in list {
            requirements.add(requirement);
        }
        requirements
    }
}

impl fmt::Display for Requirements {
    /// Sorted, comma-separated; the host name is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.values().filter(|requirement| requirement.key != labels::HOSTNAME);
        let mut texts: Vec<String> = shown.map(ToString::to_string).collect();
        texts.sort();
        f.write_str(&texts.join(", "))
    }
}

fn edit_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
