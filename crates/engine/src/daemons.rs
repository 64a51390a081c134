//! What DaemonSets take of each node.

use std::sync::Arc;

use crate::pod::Pod;
use crate::predicates;
use crate::snapshot::StateNode;

/// The daemons that will run on a machine and do not yet: a daemon is told from others by its owner.
pub(crate) fn missing<'a>(
    daemons: &'a [Arc<Pod>],
    state: &StateNode,
    bound: &[&Arc<Pod>],
) -> Vec<&'a Arc<Pod>> {
    let node = &state.node;
    let name = state.has_node.then_some(node.name.as_str());
    let runs_there = |daemon: &Pod| {
        predicates::place(&daemon.constraints, name, &node.labels, &node.taints).is_none()
    };
    let is_there = |daemon: &Pod| {
        let owner = daemon.owner.as_ref().map(|owner| &owner.uid);
        let mut owners = bound.iter().filter_map(|pod| Some(&pod.owner.as_ref()?.uid));
        owners.any(|uid| owner == Some(uid))
    };
    let missing = daemons.iter().filter(|daemon| runs_there(daemon) && !is_there(daemon));
    missing.collect()
}
