//! Pools, instance types and machines that share a name. A plan names what it means, so nobody
//! could tell which of them: they are told of and left out, the rest is planned for.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::report::{LeftOut, PoolProblem};
use crate::snapshot::Snapshot;

/// A snapshot in which names are clear, and what was left out of it.
pub(crate) struct Clear<'a> {
    pub(crate) snapshot: Cow<'a, Snapshot>,
    pub(crate) problems: Vec<PoolProblem>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Leaves twins out. Pools then launch and give up nothing; machines take no pods and stay.
pub(crate) fn clear(snapshot: &Snapshot) -> Clear<'_> {
    let mut clear =
        Clear { snapshot: Cow::Borrowed(snapshot), problems: Vec::new(), left_out: Vec::new() };
    let pools = twins(snapshot.pools.iter().map(|pool| &pool.name));
    let machines = twins(snapshot.nodes.iter().map(|state| &state.node.name));
    let claims = twins(snapshot.nodes.iter().filter_map(|state| state.claim.as_ref()));
    for (at, pool) in snapshot.pools.iter().enumerate() {
        let mut problem = |message: String| {
            let (pool, reason) = (pool.name.clone(), "NodePoolValidationFailed".to_owned());
            clear.problems.push(PoolProblem { pool, reason, message });
        };
        if pools.contains(&pool.name) {
            let why = "another NodePool has the same name";
            problem(why.to_owned());
            let pool = &mut clear.snapshot.to_mut().pools[at];
            pool.usable = Err(why.to_owned());
            (pool.replicas, pool.consolidate_after) = (None, None);
        }
        let types = twins(pool.types.iter().map(|kind| &kind.name));
        if !types.is_empty() {
            let names: Vec<&str> = types.iter().map(|name| name.as_str()).collect();
            problem(format!("more than one instance type is called {}", names.join(", ")));
            let rest = pool.types.iter().filter(|kind| !types.contains(&kind.name)).cloned();
            clear.snapshot.to_mut().pools[at].types = Arc::new(rest.collect());
        }
    }
    for (at, state) in snapshot.nodes.iter().enumerate() {
        let is_twin = machines.contains(&state.node.name)
            || state.claim.as_ref().is_some_and(|claim| claims.contains(claim));
        if is_twin {
            let what = format!("node {}", state.node.name);
            let why = "another node or claim has the same name".to_owned();
            clear.left_out.push(LeftOut { what, why });
            let state = &mut clear.snapshot.to_mut().nodes[at];
            (state.node.unschedulable, state.do_not_disrupt) = (true, true);
        }
    }
    clear.left_out.dedup();
    clear
}

/// Names that come more than once.
fn twins<'n>(names: impl Iterator<Item = &'n String>) -> BTreeSet<&'n String> {
    let mut names: Vec<&String> = names.collect();
    // Quick for lists that are sorted, as those of a snapshot are.
    names.sort_unstable();
    names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}
