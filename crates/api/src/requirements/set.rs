//! One requirement as a set of values.

use std::collections::BTreeSet;
use std::fmt;

use super::{Operator, Requirement};
use crate::labels;
use crate::nodepool::NodeSelectorRequirement;

/// Old names of labels, and what they are called now.
const ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", labels::ZONE),
    ("failure-domain.beta.kubernetes.io/region", labels::REGION),
    ("beta.kubernetes.io/arch", labels::ARCH),
    ("beta.kubernetes.io/os", labels::OS),
    ("beta.kubernetes.io/instance-type", labels::INSTANCE_TYPE),
];

impl Requirement {
    /// Reads one requirement. Old label names become today's.
    ///
    /// # Errors
    ///
    /// If the values do not suit the operator: `In` and `NotIn` take some, `Gt`, `Lt`, `Gte` and
    /// `Lte` one integer, `Exists` and `DoesNotExist` none.
    pub fn new(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let values: Vec<String> = values.into_iter().collect();
        let bound = || match values.as_slice() {
            [value] => value
                .parse::<i64>()
                .map_err(|_| format!("{key}: {operator} takes one integer, {value:?} is none")),
            _ => Err(format!("{key}: {operator} takes one integer, not {} values", values.len())),
        };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Err(format!("{key}: {operator} takes at least one value"))
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Err(format!("{key}: {operator} takes no values"))
            }
            Operator::In => Ok(Self::set(key, false, values)),
            Operator::NotIn => Ok(Self { present: false, ..Self::set(key, true, values) }),
            Operator::Exists => Ok(Self::set(key, true, [])),
            Operator::DoesNotExist => Ok(Self::absent(key)),
            Operator::Gt => Ok(match bound()?.checked_add(1) {
                Some(gte) => Self { gte: Some(gte), ..Self::set(key, true, []) },
                None => Self::set(key, false, []),
            }),
            Operator::Lt => Ok(match bound()?.checked_sub(1) {
                Some(lte) => Self { lte: Some(lte), ..Self::set(key, true, []) },
                None => Self::set(key, false, []),
            }),
            Operator::Gte => Ok(Self { gte: Some(bound()?), ..Self::set(key, true, []) }),
            Operator::Lte => Ok(Self { lte: Some(bound()?), ..Self::set(key, true, []) }),
        }
    }

    /// The label has one of these values; absent if there are none.
    #[must_use]
    pub fn one_of(key: &str, values: impl IntoIterator<Item = String>) -> Self {
        Self::set(key, false, values)
    }

    fn set(key: &str, complement: bool, values: impl IntoIterator<Item = String>) -> Self {
        let name = ALIASES.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new);
        Self {
            key: name.to_owned(),
            complement,
            present: true,
            values: values.into_iter().collect(),
            gte: None,
            lte: None,
            min_values: None,
        }
    }

    fn absent(key: &str) -> Self {
        Self { present: false, ..Self::set(key, false, []) }
    }

    /// The label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether the label may have this value.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && within(value, self.gte, self.lte)
    }

    /// Whether the label may be absent.
    #[must_use]
    pub fn allows_absence(&self) -> bool {
        !self.present
    }

    /// Whether no value is allowed: the label must be absent, or nothing can satisfy it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// The values, if only some are allowed.
    #[must_use]
    pub fn values(&self) -> Option<&BTreeSet<String>> {
        (!self.complement).then_some(&self.values)
    }

    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; bounds count as `Exists` or `NotIn`.
    #[must_use]
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// The values that both allow. Both must be about the same label.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let present = self.present || other.present;
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) {
            return Self { min_values, present, ..Self::absent(&self.key) };
        }
        let complement = self.complement && other.complement;
        let mut values: BTreeSet<String> = match (self.complement, other.complement) {
            (true, true) => &self.values | &other.values,
            (true, false) => &other.values - &self.values,
            (false, true) => &self.values - &other.values,
            (false, false) => &self.values & &other.values,
        };
        values.retain(|value| within(value, gte, lte));
        let (gte, lte) = if complement { (gte, lte) } else { (None, None) };
        Self { key: self.key.clone(), complement, present, values, gte, lte, min_values }
    }

    /// One value that the label may have: the first, the lowest, or 0 (or what is next to it).
    /// `None` if it must be absent.
    #[must_use]
    pub fn any(&self) -> Option<String> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let lowest = self.gte.unwrap_or_else(|| self.lte.map_or(0, |lte| lte.min(0)));
        let highest = self.lte.unwrap_or(i64::MAX);
        (lowest..=highest).map(|value| value.to_string()).find(|value| self.has(value))
    }

    /// As a claim's requirements. Upstream loses the excluded values of a bounded set and that a
    /// value must exist beside excluded ones; here each gets an entry of its own.
    pub(super) fn to_claim(&self) -> Vec<NodeSelectorRequirement> {
        let entry = |operator: Operator, values: Vec<String>| NodeSelectorRequirement {
            key: self.key.clone(),
            operator: operator.to_string(),
            values,
            min_values: None,
        };
        let mut entries = Vec::new();
        entries.extend(self.gte.map(|gte| entry(Operator::Gte, vec![gte.to_string()])));
        entries.extend(self.lte.map(|lte| entry(Operator::Lte, vec![lte.to_string()])));
        if entries.is_empty() || !self.values.is_empty() {
            entries.push(entry(self.operator(), self.values.iter().cloned().collect()));
        }
        let implied = self.gte.or(self.lte).is_some() || self.operator() != Operator::NotIn;
        if self.present && (!implied || self.is_empty()) {
            entries.push(entry(Operator::Exists, Vec::new()));
        }
        entries[0].min_values = self.min_values;
        entries
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = self.operator();
        write!(f, "{} {operator}", self.key)?;
        if matches!(operator, Operator::In | Operator::NotIn) {
            let mut shown: Vec<&str> = self.values.iter().take(5).map(String::as_str).collect();
            let others = self.values.len().saturating_sub(5);
            let more = format!("and {others} others");
            if others > 0 {
                shown.push(&more);
            }
            write!(f, " [{}]", shown.join(" "))?;
        }
        if let Some(gte) = self.gte {
            write!(f, " >={gte}")?;
        }
        if let Some(lte) = self.lte {
            write!(f, " <={lte}")?;
        }
        if let Some(min) = self.min_values {
            write!(f, " minValues {min}")?;
        }
        Ok(())
    }
}

/// Only integers are within bounds, if there are any.
fn within(value: &str, gte: Option<i64>, lte: Option<i64>) -> bool {
    if gte.is_none() && lte.is_none() {
        return true;
    }
    let Ok(value) = value.parse::<i64>() else { return false };
    gte.is_none_or(|gte| gte <= value) && lte.is_none_or(|lte| value <= lte)
}
