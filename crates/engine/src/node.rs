//! Nodes as the predicates see them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

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
}
