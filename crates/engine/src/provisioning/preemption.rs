//! Which pods the scheduler is about to place by preemption.

use super::class::Class;
use crate::pod::Pod;
use crate::predicates;
use crate::residents::{Residents, copies};
use crate::resources::Resources;
use crate::snapshot::{Snapshot, StateNode};

/// How many pods of each class fit on nodes that are there once pods of lower priority give way.
/// Classes come by priority; room that one may take is not counted for the next.
pub(crate) fn served(
    classes: &[Class],
    snapshot: &Snapshot,
    residents: &Residents<'_>,
) -> Vec<u32> {
    if classes.is_empty() {
        return Vec::new();
    }
    let nodes = snapshot
        .nodes
        .iter()
        .filter(|state| state.has_node && !state.deleting && !state.node.unschedulable);
    let mut taken: Vec<(&StateNode, Resources)> =
        nodes.map(|state| (state, Resources::default())).collect();
    let serve = |class: &Class| {
        let mut left = class.count();
        for (state, taken) in &mut taken {
            let fit = yielding(&class.sample, state, residents, taken).min(left);
            taken.add(&class.sample.requests.times(fit));
            left -= fit;
            if left == 0 {
                break;
            }
        }
        class.count() - left
    };
    classes.iter().map(serve).collect()
}

/// How many pods like `pod` fit beside those that need not give way to it; 0 if none would.
fn yielding(pod: &Pod, state: &StateNode, residents: &Residents<'_>, taken: &Resources) -> u32 {
    let bound = residents.bound(state);
    let node = &state.node;
    if !bound.iter().any(|other| other.priority < pod.priority)
        || predicates::place(&pod.constraints, Some(&node.name), &node.labels, &node.taints)
            .is_some()
    {
        return 0;
    }
    let mut free = node.allocatable.clone();
    free.subtract(taken);
    let stay = |other: &Pod| other.priority >= pod.priority;
    let staying = bound.iter().chain(residents.nominated(state)).filter(|other| stay(other));
    for other in staying {
        free.subtract(&other.requests);
        if predicates::ports_clash(&pod.constraints.host_ports, &other.constraints.host_ports) {
            return 0;
        }
    }
    copies(&free, &pod.requests)
}
