//! The plan as a stable interface: `docs/plan.schema.json` is its schema.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_engine::plan::Plan;
use aerostat_engine::pod::{Pod, PodKey};
use aerostat_engine::report::{LeftOut, Report, Unplaced};
use serde::Serialize;

/// What a plan comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Nodes to launch.
    pub nodes: Vec<Node>,
    /// Nodes that are there, or on their way, and take pods.
    pub existing_nodes: Vec<ExistingNode>,
    /// USD per hour of the nodes to launch, without Auto Mode's fee.
    pub total_price_per_hour: f64,
    /// USD per hour that any plan costs at least; absent if it was not computed.
    pub lower_bound_per_hour: Option<f64>,
    /// By how much the total is above the lower bound: 0.02 for 2 %. Absent if the bound is 0 and
    /// the total is not.
    pub gap: Option<f64>,
    /// Constraints that the bound leaves out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bound_ignores: Vec<String>,
    /// Pods without a place.
    pub unschedulable: Vec<Unschedulable>,
    /// What the plan does not heed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A node to launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its NodePool.
    pub node_pool: String,
    /// Its instance type.
    pub instance_type: String,
    /// Its zone: the first of the cheapest.
    pub zone: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    /// USD per hour, without Auto Mode's fee.
    pub price_per_hour: f64,
    /// Its pods, `namespace/name`.
    pub pods: Vec<String>,
}

/// A node that takes pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExistingNode {
    /// Its name; a claim's as long as there is no Node.
    pub name: String,
    /// The pods that are new on it, `namespace/name`.
    pub pods: Vec<String>,
}

/// A pod without a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unschedulable {
    /// `namespace/name`.
    pub pod: String,
    /// Why, one for each NodePool, the closest first.
    pub reasons: Vec<String>,
}

impl Outcome {
    /// What a plan for `pods` comes to.
    pub fn new(plan: &Plan, report: &Report, pods: &[Arc<Pod>]) -> Self {
        let mut told: BTreeSet<&PodKey> = BTreeSet::new();
        let mut nodes = Vec::new();
        for (launch, report) in plan.launches.iter().zip(&report.launches) {
            told.extend(&launch.pods);
            nodes.push(Node {
                node_pool: launch.pool.clone(),
                instance_type: report.instance_type.clone(),
                zone: report.zones.first().cloned().unwrap_or_default(),
                capacity_type: report.capacity_type.clone(),
                price_per_hour: report.price,
                pods: names(&launch.pods),
            });
        }
        let order = |node: &Node| {
            (
                node.node_pool.clone(),
                node.instance_type.clone(),
                node.zone.clone(),
                node.capacity_type.clone(),
                node.pods.clone(),
            )
        };
        nodes.sort_by_key(order);
        let mut existing: BTreeMap<&str, Vec<&PodKey>> = BTreeMap::new();
        for nomination in &plan.nominations {
            told.insert(&nomination.pod);
            let name = nomination.node.as_ref().or(nomination.claim.as_ref());
            let name = name.map(String::as_str).unwrap_or_default();
            existing.entry(name).or_default().push(&nomination.pod);
        }
        let existing_nodes = existing
            .into_iter()
            .map(|(name, pods)| ExistingNode { name: name.to_owned(), pods: names(pods) })
            .collect();
        let mut unschedulable: Vec<Unschedulable> = report
            .unplaced
            .iter()
            .map(|unplaced| Unschedulable { pod: name(&unplaced.pod), reasons: reasons(unplaced) })
            .collect();
        told.extend(report.unplaced.iter().map(|unplaced| &unplaced.pod));
        let keys: Vec<(PodKey, &Arc<Pod>)> =
            pods.iter().map(|pod| ((pod.namespace.clone(), pod.name.clone()), pod)).collect();
        unschedulable.extend(keys.iter().filter(|(key, _)| !told.contains(key)).map(
            |(key, pod)| Unschedulable { pod: name(key), reasons: vec![why_not(pod).to_owned()] },
        ));
        unschedulable.sort_by(|a, b| a.pod.cmp(&b.pod));
        let certificate = &report.certificate;
        let total: f64 = nodes.iter().map(|node| node.price_per_hour).sum();
        Self {
            nodes,
            existing_nodes,
            total_price_per_hour: micro(total),
            lower_bound_per_hour: Some(micro(certificate.lower_bound_per_hour)),
            gap: (certificate.gap < f64::MAX).then(|| micro(certificate.gap)),
            bound_ignores: certificate.ignores.clone(),
            unschedulable,
            left_out: report.left_out.clone(),
        }
    }
}

/// Each pool's own reason; where there are none, what the event would say.
fn reasons(unplaced: &Unplaced) -> Vec<String> {
    if unplaced.reasons.is_empty() {
        return vec![unplaced.message.clone()];
    }
    unplaced.reasons.iter().map(ToString::to_string).collect()
}

/// Why a pod was not looked at.
fn why_not(pod: &Pod) -> &'static str {
    if pod.gated {
        "spec.schedulingGates: it is not to be scheduled before its gates are gone"
    } else if pod.deleting {
        "it is being deleted"
    } else {
        "status.nominatedNodeName: the scheduler is making room for it"
    }
}

/// Without the dust that adding up binary fractions leaves.
fn micro(usd: f64) -> f64 {
    (usd * 1e6).round() / 1e6
}

fn name((namespace, name): &PodKey) -> String {
    format!("{namespace}/{name}")
}

fn names<'a>(pods: impl IntoIterator<Item = &'a PodKey>) -> Vec<String> {
    let mut names: Vec<String> = pods.into_iter().map(name).collect();
    names.sort();
    names
}
