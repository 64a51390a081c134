//! Amounts of cpu, memory and the rest.

use std::collections::BTreeMap;

use aerostat_api::Quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use serde::{Deserialize, Serialize};

/// Amounts of resources: cpu in milli-cores, memory and storage in bytes, the rest in units.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// Milli-cores.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of ephemeral storage.
    pub storage: i64,
    /// Pods.
    pub pods: i64,
    /// Extended resources, hugepages and others by name; never holds a zero.
    pub other: BTreeMap<String, i64>,
}

impl Resources {
    /// Reads a Kubernetes resource list.
    ///
    /// # Errors
    ///
    /// Names the resource whose quantity cannot be read.
    pub fn from_k8s(list: &BTreeMap<String, Text>) -> Result<Self, String> {
        let mut resources = Self::default();
        for (name, text) in list {
            let quantity: Quantity =
                text.0.parse().map_err(|error| format!("{name}: {:?}: {error}", text.0))?;
            resources.set(name, quantity);
        }
        Ok(resources)
    }

    /// Reads a resource list of parsed quantities.
    #[must_use]
    pub fn from_quantities(list: &BTreeMap<String, Quantity>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list {
            resources.set(name, *quantity);
        }
        resources
    }

    fn set(&mut self, name: &str, quantity: Quantity) {
        match name {
            "cpu" => self.cpu = quantity.milli(),
            "memory" => self.memory = quantity.units(),
            "ephemeral-storage" => self.storage = quantity.units(),
            "pods" => self.pods = quantity.units(),
            _ if quantity.is_zero() => {
                self.other.remove(name);
            }
            _ => {
                self.other.insert(name.to_owned(), quantity.units());
            }
        }
    }

    /// Sets one resource by its Kubernetes name.
    pub(crate) fn set_amount(&mut self, name: &str, amount: i64) {
        match name {
            "cpu" => self.cpu = amount,
            "memory" => self.memory = amount,
            "ephemeral-storage" => self.storage = amount,
            "pods" => self.pods = amount,
            _ if amount == 0 => {
                self.other.remove(name);
            }
            _ => {
                self.other.insert(name.to_owned(), amount);
            }
        }
    }

    /// As a Kubernetes resource list, zeros left out.
    #[must_use]
    pub fn quantities(&self) -> BTreeMap<String, Quantity> {
        let fixed = [
            ("cpu", self.cpu, Quantity::from_milli(self.cpu)),
            ("memory", self.memory, Quantity::from_bytes(self.memory)),
            ("ephemeral-storage", self.storage, Quantity::from_bytes(self.storage)),
            ("pods", self.pods, Quantity::from_units(self.pods)),
        ];
        let fixed = fixed.into_iter().filter(|(_, amount, _)| *amount != 0);
        let other = self.other.iter().map(|(name, n)| (name.clone(), Quantity::from_units(*n)));
        fixed.map(|(name, _, quantity)| (name.to_owned(), quantity)).chain(other).collect()
    }

    /// Adds `other` to it.
    pub fn add(&mut self, other: &Self) {
        self.apply(other, i64::saturating_add);
    }

    /// Takes `other` from it; may go below zero.
    pub fn subtract(&mut self, other: &Self) {
        self.apply(other, i64::saturating_sub);
    }

    /// `count` times as much.
    #[must_use]
    pub fn times(&self, count: u32) -> Self {
        let times = |amount: i64| amount.saturating_mul(i64::from(count));
        let other = self.other.iter().map(|(name, amount)| (name.clone(), times(*amount)));
        Self {
            cpu: times(self.cpu),
            memory: times(self.memory),
            storage: times(self.storage),
            pods: times(self.pods),
            other: other.filter(|(_, amount)| *amount != 0).collect(),
        }
    }

    /// Keeps the larger of each.
    pub fn raise_to(&mut self, other: &Self) {
        self.apply(other, i64::max);
    }

    fn apply(&mut self, other: &Self, f: fn(i64, i64) -> i64) {
        self.cpu = f(self.cpu, other.cpu);
        self.memory = f(self.memory, other.memory);
        self.storage = f(self.storage, other.storage);
        self.pods = f(self.pods, other.pods);
        for (name, amount) in &other.other {
            let mine = self.other.entry(name.clone()).or_default();
            *mine = f(*mine, *amount);
        }
        self.other.retain(|_, amount| *amount != 0);
    }

    /// Whether `self` has room for `need`: only what is asked for counts.
    #[must_use]
    pub fn covers(&self, need: &Self) -> bool {
        let fits = |have: i64, need: i64| need <= 0 || need <= have;
        fits(self.cpu, need.cpu)
            && fits(self.memory, need.memory)
            && fits(self.storage, need.storage)
            && fits(self.pods, need.pods)
            && need.other.iter().all(|(name, n)| fits(self.get(name), *n))
    }

    /// The amount of one resource, by its Kubernetes name.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.storage,
            "pods" => self.pods,
            _ => self.other.get(name).copied().unwrap_or(0),
        }
    }
}
