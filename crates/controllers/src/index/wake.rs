//! Who is woken by what.

use aerostat_api::{Condition, NodeClaim, labels};
use kube::ResourceExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Wakes controllers, by the name of the object that they should look at.
#[derive(Clone, Debug)]
pub struct Wakers {
    claims: UnboundedSender<String>,
    nodes: UnboundedSender<String>,
    pools: UnboundedSender<String>,
    classes: UnboundedSender<String>,
    overlays: UnboundedSender<String>,
}

/// The other ends of [`Wakers`].
#[derive(Debug)]
pub struct Triggers {
    /// NodeClaims to look at.
    pub claims: UnboundedReceiver<String>,
    /// Nodes to look at.
    pub nodes: UnboundedReceiver<String>,
    /// NodePools to look at.
    pub pools: UnboundedReceiver<String>,
    /// NodeClasses to look at.
    pub classes: UnboundedReceiver<String>,
    /// NodeOverlays to look at.
    pub overlays: UnboundedReceiver<String>,
}

/// Both ends.
#[must_use]
pub fn wakers() -> (Wakers, Triggers) {
    let (claims, claims_end) = unbounded_channel();
    let (nodes, nodes_end) = unbounded_channel();
    let (pools, pools_end) = unbounded_channel();
    let (classes, classes_end) = unbounded_channel();
    let (overlays, overlays_end) = unbounded_channel();
    let wakers = Wakers { claims, nodes, pools, classes, overlays };
    let triggers = Triggers {
        claims: claims_end,
        nodes: nodes_end,
        pools: pools_end,
        classes: classes_end,
        overlays: overlays_end,
    };
    (wakers, triggers)
}

impl Wakers {
    /// A claim came (`old` is `None`), changed or went (`new` is `None`).
    pub(super) fn claim(&self, name: &str, old: Option<&NodeClaim>, new: Option<&NodeClaim>) {
        send(&self.claims, name);
        let claim = new.or(old);
        if counted(old) != counted(new)
            && let Some(pool) = claim.and_then(|claim| claim.labels().get(labels::NODEPOOL))
        {
            send(&self.pools, pool);
        }
        if let Some(node) =
            claim.and_then(|claim| claim.status.as_ref()).and_then(|s| s.node_name.as_ref())
        {
            send(&self.nodes, node);
        }
    }

    /// Something that a claim waits for has happened.
    pub(super) fn claim_named(&self, name: &str) {
        send(&self.claims, name);
    }

    /// Something that a node waits for has happened.
    pub(super) fn node_named(&self, name: &str) {
        send(&self.nodes, name);
    }

    /// A pool came, changed or went, or its class did.
    pub(super) fn pool(&self, name: &str) {
        send(&self.pools, name);
    }

    /// What an overlay says, or what it is said of, may have changed.
    pub(super) fn overlay(&self, name: &str) {
        send(&self.overlays, name);
    }

    /// A class came, changed or went.
    pub(super) fn class(&self, name: &str) {
        send(&self.classes, name);
    }
}

/// What a pool counts of a claim, and what tells how its launch went.
fn counted(claim: Option<&NodeClaim>) -> impl PartialEq + use<> {
    let status = claim.and_then(|claim| claim.status.as_ref());
    let launch = status.map(|status| {
        let conditions = status.conditions.iter();
        let of_launch = |c: &&Condition| matches!(c.type_.as_str(), "Launched" | "Registered");
        conditions
            .filter(of_launch)
            .map(|c| (c.type_.clone(), c.status.clone()))
            .collect::<Vec<_>>()
    });
    let is_going = claim.map(|claim| claim.metadata.deletion_timestamp.is_some());
    let labels = claim.map(|claim| claim.labels().clone());
    (is_going, labels, launch, status.and_then(|status| status.capacity.clone()))
}

fn send(to: &UnboundedSender<String>, name: &str) {
    // A controller that has ended needs no waking.
    let _ = to.send(name.to_owned());
}
