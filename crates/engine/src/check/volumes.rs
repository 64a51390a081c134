//! Whether the volumes of a machine's pods can be had there, and attached.
//!
//! Sources: kubernetes `pkg/scheduler/framework/plugins/{volumebinding,nodevolumelimits}`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelectorTerm;

use super::classes::Classes;
use super::labels::node_allowed;
use super::machines::Machine;
use super::room::{Occupants, key};
use super::violation::{Misfit, Violation};
use crate::pod::{Constraints, Pod};
use crate::snapshot::Snapshot;
use crate::storage::{Claim, Storage};

/// Checks one machine, whatever it may become.
pub(super) fn check_volumes(
    machine: &Machine<'_>,
    classes: &Classes<'_>,
    occupants: &Occupants<'_>,
    snapshot: &Snapshot,
    violations: &mut Vec<Violation>,
) {
    let storage = &*snapshot.storage;
    for pod in machine.joining.keys().map(|class| classes.sample(*class)) {
        for claim in &pod.claims {
            let found = places(storage, pod, &claim.name);
            let misfit = match &found {
                None => Some(None),
                Some(terms) => {
                    let affinity = |terms: &Vec<NodeSelectorTerm>| Constraints {
                        node_affinity: Some(terms.clone()),
                        ..Constraints::default()
                    };
                    let allowed = terms.as_ref().map(affinity);
                    let mut not = machine.candidates.iter();
                    not.find(|c| allowed.as_ref().is_some_and(|a| !node_allowed(a, c))).map(Some)
                }
            };
            if let Some(candidate) = misfit {
                let misfit = Misfit::Volume(claim.name.clone());
                let machine = machine.title(candidate);
                violations.push(Violation::Misplaced { pod: key(pod), machine, misfit });
            }
        }
    }
    let Some(state) = machine.state() else { return };
    let mut joining: BTreeMap<&str, u64> = BTreeMap::new();
    for (class, count) in &machine.joining {
        for driver in drivers(storage, classes.sample(*class)) {
            *joining.entry(driver).or_default() += u64::from(*count);
        }
    }
    let there = || occupants.bound(machine).iter().chain(occupants.nominated(machine));
    for (driver, count) in joining {
        let Some(limit) = state.node.attach_limits.get(driver) else { continue };
        let attached = there().flat_map(|pod| drivers(storage, pod)).filter(|d| *d == driver);
        let asked = i128::from(count) + i128::try_from(attached.count()).unwrap_or(i128::MAX);
        if asked > i128::from(*limit) {
            violations.push(Violation::Overfull {
                machine: machine.title(None),
                resource: format!("volumes of {driver}"),
                asked,
                room: i64::from(*limit),
            });
        }
    }
}

/// Where a claim's volume can be: one of the terms must hold, `Some(None)` is everywhere; `None`
/// if it can be nowhere.
fn places(storage: &Storage, pod: &Pod, name: &str) -> Option<Option<Vec<NodeSelectorTerm>>> {
    let at = (pod.namespace.clone(), name.to_owned());
    let claim = storage.claims.get(&at)?;
    if claim.is_lost || claim.is_deleting {
        return None;
    }
    if let Some(volume) = &claim.volume {
        let volume = storage.volumes.get(volume)?;
        return claim.is_bound.then(|| volume.terms.clone());
    }
    let class = storage.classes.get(&claim.class).filter(|class| class.waits)?;
    let there = storage.volumes.values().filter(|volume| volume.suits(&at, claim));
    let mut all: Vec<Option<&Vec<NodeSelectorTerm>>> = there.map(|v| v.terms.as_ref()).collect();
    if class.provisioner != "kubernetes.io/no-provisioner" {
        all.push(class.terms.as_ref());
    }
    if all.is_empty() {
        return None;
    }
    Some(
        all.into_iter()
            .collect::<Option<Vec<_>>>()
            .map(|t| t.into_iter().flatten().cloned().collect()),
    )
}

/// The CSI driver of each of a pod's volumes.
fn drivers<'s>(storage: &'s Storage, pod: &'s Pod) -> impl Iterator<Item = &'s str> {
    let driver = |claim: &Claim| match &claim.volume {
        Some(volume) => storage.volumes.get(volume)?.driver.as_deref(),
        None => storage.classes.get(&claim.class).map(|class| match &*class.provisioner {
            "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
            provisioner => provisioner,
        }),
    };
    pod.claims.iter().filter_map(move |claim| {
        driver(storage.claims.get(&(pod.namespace.clone(), claim.name.clone()))?)
    })
}
