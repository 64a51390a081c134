//! The claims of the pods that a plan is about, looked up.
//!
//! The planner and the predicates know volumes by what they demand ([`Constraints::volumes`]); here
//! that is filled in. A pod whose volumes no node can have is taken out and reported: no machine
//! would help it.
//!
//! [`Constraints::volumes`]: crate::pod::Constraints::volumes

use std::borrow::Cow;
use std::sync::Arc;

use crate::pod::Pod;
use crate::report::Unplaced;
use crate::snapshot::Snapshot;

/// The cluster with what the volumes of its pending pods demand, and the pods that are left out.
pub(crate) fn resolved(snapshot: &Snapshot) -> (Cow<'_, Snapshot>, Vec<Unplaced>) {
    let pending = |pod: &Pod| pod.node.is_none() && !pod.claims.is_empty();
    let promised = |snapshot: &Snapshot| snapshot.promised.iter().any(|p| pending(&p.pod));
    if !snapshot.pods.iter().any(|pod| pending(pod)) && !promised(snapshot) {
        return (Cow::Borrowed(snapshot), Vec::new());
    }
    let (mut resolved, mut unplaced) = (snapshot.clone(), Vec::new());
    let storage = &snapshot.storage;
    let mut fill = |pod: &mut Arc<Pod>| {
        if !pending(pod) {
            return true;
        }
        match storage.resolve(pod) {
            Ok(volumes) => {
                Arc::make_mut(pod).constraints.volumes = volumes;
                true
            }
            Err(error) => {
                // Nobody has to be told of a pod that waits for something else, or that the
                // scheduler has not looked at.
                if pod.unschedulable_since.is_some() && !pod.deleting && !pod.gated {
                    let pod = (pod.namespace.clone(), pod.name.clone());
                    let (message, reasons) = (error.to_string(), Vec::new());
                    unplaced.push(Unplaced { pod, message, reasons });
                }
                false
            }
        }
    };
    resolved.pods.retain_mut(&mut fill);
    resolved.promised.retain_mut(|promise| fill(&mut promise.pod));
    (Cow::Owned(resolved), unplaced)
}
