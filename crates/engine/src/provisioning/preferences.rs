//! Wishes: preferred node affinity, preferred pod affinity and anti-affinity, spread constraints
//! that may be broken, `PreferNoSchedule` taints.
//!
//! A plan with the wishes as demands is made beside the plan without them. Pods that find no place
//! then give up one wish after the other in Karpenter's order; if the plan costs more than the
//! wishes are worth, all pods give up one. So a wish never turns into machines by itself.
//! Source of the order: kubernetes-sigs/karpenter
//! `pkg/controllers/provisioning/scheduling/preferences.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeSelectorTerm, Taint, Toleration};

use super::{Provisioning, as_required};
use crate::pod::{Constraints, Pod, PodKey, PodTerm};
use crate::predicates;
use crate::residents::Residents;
use crate::snapshot::{Preferences, Snapshot};

/// How often wishes are given up before all of those in the way are.
const ROUNDS: usize = 6;

/// Something that a pod would like, in the order in which pods give up.
enum Wish {
    Together(PodTerm),
    Apart(PodTerm),
    /// The heaviest that is left is a demand.
    Node(NodeSelectorTerm),
    /// Index of the constraint.
    Spread(usize),
    /// To stay off these taints.
    Untainted(Vec<Taint>),
}

/// The plan with as many wishes as the settings allow. `plain` is the plan without any.
pub(super) fn honoured(plain: Provisioning, snapshot: &Snapshot, now: Timestamp) -> Provisioning {
    let settings = &snapshot.settings;
    if settings.preferences == Preferences::Ignore {
        return plain;
    }
    let taints = preferred_taints(snapshot);
    let waits = |pod: &Arc<Pod>| pod.node.is_none() && !pod.terminal;
    let wishful: BTreeMap<PodKey, usize> = snapshot
        .pods
        .iter()
        .filter(|pod| waits(pod))
        .map(|pod| (key(pod), wishes(pod, &taints).len()))
        .filter(|(_, wishes)| *wishes > 0)
        .collect();
    if wishful.is_empty() || plain.launches.is_empty() && plain.nominations.is_empty() {
        return plain;
    }
    let hopeless: BTreeSet<PodKey> = plain.unplaced.iter().map(|u| u.pod.clone()).collect();
    let mut given_up: BTreeMap<PodKey, usize> = BTreeMap::new();
    for round in 0..=ROUNDS {
        let wished = hardened(snapshot, &taints, &given_up);
        let residents = Residents::of(&wished);
        let mut found = as_required(&wished, Some(snapshot), &residents, now);
        let lost: Vec<PodKey> = found
            .unplaced
            .iter()
            .map(|unplaced| unplaced.pod.clone())
            .filter(|pod| !hopeless.contains(pod) && wishful.contains_key(pod))
            .collect();
        let has_more = |pod: &PodKey| given_up.get(pod).copied().unwrap_or(0) < wishful[pod];
        let worth = wishful.keys().filter(|pod| has_more(pod)).count() as f64
            * settings.preference_price.max(0.0);
        let is_dear = settings.preferences == Preferences::Priced
            && cost(&found) > cost(&plain) + worth + 1e-9;
        let fewer = found.unplaced.len() > plain.unplaced.len();
        if lost.is_empty() && !fewer && !is_dear {
            restore_taints(&mut found, snapshot);
            // Who is told why there is no place is told without the wishes.
            found.unplaced = plain.unplaced;
            return found;
        }
        let step = if round + 1 >= ROUNDS { usize::MAX } else { 1 };
        let concerned: Vec<PodKey> = match lost.is_empty() {
            true => wishful.keys().filter(|pod| has_more(pod)).cloned().collect(),
            false => lost.into_iter().filter(|pod| has_more(pod)).collect(),
        };
        if concerned.is_empty() {
            break;
        }
        for pod in concerned {
            let all = wishful[&pod];
            let given_up = given_up.entry(pod).or_insert(0);
            *given_up = given_up.saturating_add(step).min(all);
        }
    }
    plain
}

/// USD per hour of what is bought.
fn cost(provisioning: &Provisioning) -> f64 {
    provisioning.launches.iter().map(|(_, report)| report.price).sum()
}

fn key(pod: &Pod) -> PodKey {
    (pod.namespace.clone(), pod.name.clone())
}

/// Every `PreferNoSchedule` taint of a node or a pool.
fn preferred_taints(snapshot: &Snapshot) -> Vec<Taint> {
    let of_nodes = snapshot.nodes.iter().flat_map(|state| &state.node.taints);
    let all = of_nodes.chain(snapshot.pools.iter().flat_map(|pool| &pool.taints));
    let mut taints: Vec<Taint> = Vec::new();
    for taint in all.filter(|taint| taint.effect == "PreferNoSchedule") {
        if !taints.contains(taint) {
            taints.push(taint.clone());
        }
    }
    taints
}

/// What a pod would like, what it gives up first in front.
fn wishes(pod: &Pod, taints: &[Taint]) -> Vec<Wish> {
    let Constraints { preferred_pods, preferred_affinity, spread, tolerations, .. } =
        &pod.constraints;
    let mut pods: Vec<_> = preferred_pods.iter().filter(|term| term.weight != 0).collect();
    pods.sort_by_key(|term| (term.weight < 0, Reverse(term.weight.abs())));
    let mut nodes: Vec<_> = preferred_affinity.iter().collect();
    nodes.sort_by_key(|term| Reverse(term.weight));
    let disliked: Vec<Taint> =
        taints.iter().filter(|taint| !predicates::tolerates(tolerations, taint)).cloned().collect();
    let pods = pods.into_iter().map(|term| match term.weight > 0 {
        true => Wish::Together(term.term.clone()),
        false => Wish::Apart(term.term.clone()),
    });
    let soft = (0..spread.len()).filter(|at| !spread[*at].required);
    pods.chain(nodes.into_iter().map(|term| Wish::Node(term.preference.clone())))
        .chain(soft.map(Wish::Spread))
        .chain((!disliked.is_empty()).then_some(Wish::Untainted(disliked)))
        .collect()
}

/// The snapshot with the wishes that pods have not given up as demands.
fn hardened(snapshot: &Snapshot, taints: &[Taint], given_up: &BTreeMap<PodKey, usize>) -> Snapshot {
    let mut wished = snapshot.clone();
    for pod in wished.pods.iter_mut().filter(|pod| pod.node.is_none()) {
        let given_up = given_up.get(&key(pod)).copied().unwrap_or(0);
        harden(pod, taints, given_up);
    }
    for promise in &mut wished.promised {
        let owner = promise.pod.owner.as_ref();
        let siblings =
            snapshot.pods.iter().filter(|pod| owner.is_some() && pod.owner.as_ref() == owner);
        let most = siblings.filter_map(|pod| given_up.get(&key(pod))).max();
        harden(&mut promise.pod, taints, most.copied().unwrap_or(0));
    }
    if taints.is_empty() {
        return wished;
    }
    for daemon in &mut wished.daemons {
        let daemon = Arc::make_mut(daemon);
        daemon.constraints.tolerations.extend(taints.iter().map(tolerating));
    }
    let of_nodes = wished.nodes.iter_mut().flat_map(|state| &mut state.node.taints);
    for taint in of_nodes.chain(wished.pools.iter_mut().flat_map(|pool| &mut pool.taints)) {
        if taint.effect == "PreferNoSchedule" {
            "NoSchedule".clone_into(&mut taint.effect);
        }
    }
    wished
}

/// Makes demands of a pod's wishes but for those that it has given up.
fn harden(pod: &mut Arc<Pod>, taints: &[Taint], given_up: usize) {
    let tolerated: Vec<Toleration> = taints
        .iter()
        .filter(|taint| predicates::tolerates(&pod.constraints.tolerations, taint))
        .map(tolerating)
        .collect();
    let wishes = wishes(pod, taints);
    if wishes.is_empty() && tolerated.is_empty() {
        return;
    }
    let constraints = &mut Arc::make_mut(pod).constraints;
    constraints.tolerations.extend(tolerated);
    let mut has_node = false;
    for (at, wish) in wishes.into_iter().enumerate() {
        match wish {
            Wish::Untainted(taints) if at < given_up => {
                constraints.tolerations.extend(taints.iter().map(tolerating));
            }
            _ if at < given_up => {}
            Wish::Together(term) => constraints.pod_affinity.push(term),
            Wish::Apart(term) => constraints.pod_anti_affinity.push(term),
            Wish::Spread(at) => constraints.spread[at].required = true,
            Wish::Node(term) if !has_node => {
                has_node = true;
                let terms = constraints
                    .node_affinity
                    .get_or_insert_with(|| vec![NodeSelectorTerm::default()]);
                for with in terms {
                    let more = term.match_expressions.iter().flatten().cloned();
                    with.match_expressions.get_or_insert_default().extend(more);
                    let more: Vec<_> = term.match_fields.iter().flatten().cloned().collect();
                    if !more.is_empty() {
                        with.match_fields.get_or_insert_default().extend(more);
                    }
                }
            }
            Wish::Node(_) | Wish::Untainted(_) => {}
        }
    }
}

/// A toleration for a preferred taint that is taken as a demand.
fn tolerating(taint: &Taint) -> Toleration {
    Toleration {
        key: Some(taint.key.clone()),
        operator: Some("Equal".to_owned()),
        value: taint.value.clone(),
        effect: Some("NoSchedule".to_owned()),
        ..Toleration::default()
    }
}

/// Claims have the taints that their pools say.
fn restore_taints(found: &mut Provisioning, snapshot: &Snapshot) {
    for (launch, _) in &mut found.launches {
        if let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == launch.pool) {
            launch.taints.clone_from(&pool.taints);
        }
    }
}
