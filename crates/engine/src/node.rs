//! Nodes as the predicates see them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::Taint;

use crate::pod::Pod;
use crate::resources::Resources;

/// What a node offers to pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// What pods may use.
    pub allocatable: Resources,
    /// How many volumes of each CSI driver can be attached; no entry, no limit.
    pub attach_limits: BTreeMap<String, u32>,
    /// Images present, by name, with their size in bytes.
    pub images: BTreeMap<String, i64>,
}

/// What pods use of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The sum of their requests.
    pub requested: Resources,
    /// The sum of their requests, with the scheduler's minima for those that ask for nothing
    /// (100m of cpu, 200Mi of memory a container).
    pub scored: Resources,
    /// Host ports in use: protocol, host IP, port.
    pub host_ports: Vec<(String, String, i32)>,
    /// How many volumes are attached, by CSI driver.
    pub attached: BTreeMap<String, u32>,
}

impl Node {
    /// Reads a node. What it has not reported yet counts as nothing; its attach limits are in
    /// another object.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read: a quantity, or a missing name.
    pub fn from_k8s(node: &core::Node) -> Result<Self, String> {
        let name = node.metadata.name.clone().filter(|name| !name.is_empty());
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let empty = BTreeMap::new();
        let allocatable = status.and_then(|status| status.allocatable.as_ref()).unwrap_or(&empty);
        let mut images = BTreeMap::new();
        for image in status.and_then(|status| status.images.as_ref()).into_iter().flatten() {
            for name in image.names.iter().flatten() {
                images.insert(name.clone(), image.size_bytes.unwrap_or(0));
            }
        }
        Ok(Self {
            name: name.ok_or("metadata.name: missing")?,
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable: Resources::from_k8s(allocatable)
                .map_err(|error| format!("status.allocatable: {error}"))?,
            attach_limits: BTreeMap::new(),
            images,
        })
    }
}

impl Usage {
    /// Counts `pod` in.
    pub fn add(&mut self, pod: &Pod) {
        self.requested.add(&pod.requests);
        self.scored.add(&pod.scored);
        self.host_ports.extend_from_slice(&pod.constraints.host_ports);
        for (driver, count) in &pod.constraints.volumes.attached {
            *self.attached.entry(driver.clone()).or_insert(0) += count;
        }
    }

    /// Counts `pod` out; it must have been counted in.
    pub fn remove(&mut self, pod: &Pod) {
        self.requested.subtract(&pod.requests);
        self.scored.subtract(&pod.scored);
        for port in &pod.constraints.host_ports {
            if let Some(at) = self.host_ports.iter().position(|used| used == port) {
                self.host_ports.remove(at);
            }
        }
        for (driver, count) in &pod.constraints.volumes.attached {
            if let Some(attached) = self.attached.get_mut(driver) {
                *attached = attached.saturating_sub(*count);
                if *attached == 0 {
                    self.attached.remove(driver);
                }
            }
        }
    }
}
