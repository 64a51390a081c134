//! Which pods need capacity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::class::{self, Class};
use super::preemption;
use super::topology::sets::Sets;
use crate::pod::{Pod, PodKey};
use crate::report::{LeftOut, Unplaced};
use crate::residents::Residents;
use crate::snapshot::{Promise, Snapshot};

/// The pods that a plan is about.
pub(crate) struct Pending<'a> {
    /// Those that need capacity now.
    pub(crate) classes: Vec<Class>,
    /// What they and the pods on nodes say of each other.
    pub(crate) sets: Sets<'a>,
    /// Those that leave it to the scheduler's preemption for the moment.
    pub(crate) waiting: Vec<PodKey>,
    /// Those that cannot be planned for.
    pub(crate) unplaced: Vec<Unplaced>,
    /// When the first of those that wait has waited long enough.
    pub(crate) next: Option<Timestamp>,
    /// Promised pods that are too many for one plan.
    pub(crate) left_out: Vec<LeftOut>,
}

/// How many promised pods one plan provides for at most: when some of them are there, the next plan
/// goes on with the others.
const PROMISED_AT_ONCE: u32 = 10_000;

impl Pending<'_> {
    /// Names classes by how their pods were in `origin`, of which `snapshot` was made pod by pod.
    pub(crate) fn known_as_in(&mut self, origin: &Snapshot, snapshot: &Snapshot) {
        let pods = snapshot.pods.iter().zip(&origin.pods);
        let promised = snapshot.promised.iter().zip(&origin.promised);
        let both = pods.chain(promised.map(|(now, before)| (&now.pod, &before.pod)));
        let origins: BTreeMap<*const Pod, &Arc<Pod>> =
            both.map(|(now, before)| (Arc::as_ptr(now), before)).collect();
        for class in &mut self.classes {
            if let Some(origin) = origins.get(&Arc::as_ptr(&class.sample)) {
                class.known_as((*origin).clone());
            }
        }
    }
}

/// Finds the pods that the scheduler has looked at in vain, and what belongs to them: siblings that
/// it has not looked at yet, and pods that their owners have promised.
pub(crate) fn pending<'a>(
    snapshot: &'a Snapshot,
    residents: &Residents<'a>,
    now: Timestamp,
) -> Pending<'a> {
    let grace = SignedDuration::try_from(snapshot.settings.preemption_grace)
        .unwrap_or(SignedDuration::ZERO);
    let candidates: Vec<&Arc<Pod>> =
        snapshot.pods.iter().filter(|pod| is_provisionable(pod)).collect();
    let promised = snapshot.promised.iter().map(|promise| &promise.pod);
    let asking = candidates.iter().copied().chain(promised);
    let sets = Sets::of(asking.map(|pod| &**pod), residents.all(), &snapshot.namespaces);
    let (classes, waiting, unplaced) = (Vec::new(), Vec::new(), Vec::new());
    let left_out = Vec::new();
    let mut found = Pending { classes, sets, waiting, unplaced, next: None, left_out };
    let (mut due, mut hopeful, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    let twins = twins(&snapshot.pods);
    for pod in candidates {
        if !twins.is_empty() && twins.contains(&key(pod)) {
            let message = "another pod has the same namespace and name".to_owned();
            let reasons = Vec::new();
            found.unplaced.push(Unplaced { pod: key(pod), message, reasons });
            continue;
        }
        let Some(since) = pod.unschedulable_since else {
            fresh.push(pod);
            continue;
        };
        if let Some(message) = unsupported(pod) {
            found.unplaced.push(Unplaced { pod: key(pod), message, reasons: Vec::new() });
        } else if pod.preempts && now < after(since, grace) {
            hopeful.push(pod);
        } else {
            due.push(pod);
        }
    }

    let classes = class::fold(hopeful.iter().copied(), std::iter::empty(), &mut found.sets);
    let served = preemption::served(&classes, snapshot, residents);
    for (class, served) in classes.into_iter().zip(served) {
        let waiting = class.pods.iter().take(served as usize);
        let waits = waiting.clone().filter_map(|pod| Some(after(pod.unschedulable_since?, grace)));
        found.next = found.next.into_iter().chain(waits).min();
        found.waiting.extend(waiting.map(|pod| key(pod)));
    }
    found.waiting.sort();
    due.extend(hopeful.into_iter().filter(|pod| found.waiting.binary_search(&key(pod)).is_err()));

    let owners: BTreeSet<String> =
        due.iter().filter_map(|pod| Some(pod.owner.as_ref()?.uid.clone())).collect();
    let belongs = |pod: &Pod| {
        unsupported(pod).is_none()
            && pod.owner.as_ref().is_some_and(|owner| owners.contains(&owner.uid))
    };
    let siblings = fresh.into_iter().filter(|pod| belongs(pod));
    let promised = snapshot.promised.iter().filter(|p| p.count > 0 && belongs(&p.pod));
    let mut left = PROMISED_AT_ONCE;
    let mut within = |promise: &'a Promise| {
        let count = promise.count.min(left);
        left -= count;
        if count < promise.count {
            let pod = &promise.pod;
            let (all, what) = (promise.count, format!("promised pods of {}", name(pod)));
            let why = format!("{count} of {all}: one plan is for {PROMISED_AT_ONCE} at most");
            found.left_out.push(LeftOut { what, why });
        }
        (&promise.pod, count)
    };
    let promised: Vec<_> = promised.map(&mut within).filter(|(_, count)| *count > 0).collect();
    due.extend(siblings);
    found.classes = class::fold(due.into_iter(), promised.into_iter(), &mut found.sets);
    found
}

/// Names that more than one pod has: nobody could tell which of them a plan means.
fn twins(pods: &[Arc<Pod>]) -> BTreeSet<PodKey> {
    let is_same =
        |pair: &&[Arc<Pod>]| pair[0].name == pair[1].name && pair[0].namespace == pair[1].namespace;
    pods.windows(2).filter(is_same).map(|pair| key(&pair[0])).collect()
}

fn is_provisionable(pod: &Pod) -> bool {
    let foreign = |kind: &str| matches!(kind, "DaemonSet" | "Node");
    pod.node.is_none()
        && pod.nominated_node.is_none()
        && !pod.terminal
        && !pod.deleting
        && !pod.gated
        && !pod.owner.as_ref().is_some_and(|owner| foreign(&owner.kind))
}

/// Why a pod cannot be planned for.
fn unsupported(pod: &Pod) -> Option<String> {
    let list = pod.unsupported.join(", ");
    (!list.is_empty()).then(|| format!("{list}: not supported yet, so no capacity is ordered"))
}

fn key(pod: &Pod) -> PodKey {
    (pod.namespace.clone(), pod.name.clone())
}

/// A pod, or who promised it if it has no name yet.
fn name(pod: &Pod) -> String {
    let owner = pod.owner.as_ref().map(|owner| format!("{}/{}", owner.kind, owner.name));
    format!("{} in {}", owner.as_ref().unwrap_or(&pod.name), pod.namespace)
}

fn after(time: Timestamp, delay: SignedDuration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}
