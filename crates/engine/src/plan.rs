//! What to do now: the decision, and its result.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::nodepool::{NodeClassRef, NodeSelectorRequirement};
use aerostat_api::{Duration, NillableDuration, Quantity, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use crate::emptiness::emptiness;
use crate::pod::PodKey;
use crate::provisioning::provision;
use crate::provisioning::replicas::replicas;
use crate::report::Report;
use crate::residents::Residents;
use crate::snapshot::Snapshot;
use crate::twins;
use crate::volumes::resolved;

/// Decides what to do about a cluster as it is at `now`.
///
/// Pods that wait go on capacity that is there or on its way, then on new claims for the least
/// money; nodes that are empty go; static pools get as many nodes as they say. The plan assumes
/// that it is carried out and is to be made anew at every change: asked again with its claims in
/// the snapshot, it orders nothing twice.
///
/// # Panics
///
/// In debug builds, if [`check`](fn@crate::check::check) finds the plan wrong.
#[must_use = "a plan does nothing by itself"]
pub fn plan(snapshot: &Snapshot, now: Timestamp) -> (Plan, Report) {
    let clear = twins::clear(snapshot);
    let replicas = replicas(&clear.snapshot, &Residents::of(&clear.snapshot), now);
    let (resolved, unresolved) = resolved(&clear.snapshot);
    let rest = without(resolved, &replicas.terminations);
    let residents = Residents::of(&rest);
    let provisioning = provision(&rest, &residents, now);
    let emptiness = emptiness(&rest, &residents, &provisioning.expecting, now);
    let launches = provisioning.launches.into_iter().chain(replicas.launches);
    let (launches, reports) = launches.unzip();
    let plan = Plan {
        launches,
        nominations: provisioning.nominations,
        terminations: emptiness.terminations.into_iter().chain(replicas.terminations).collect(),
        next: provisioning.next.into_iter().chain(emptiness.next).min(),
    };
    let mut unplaced: Vec<_> = provisioning.unplaced.into_iter().chain(unresolved).collect();
    unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    let problems = provisioning.problems.into_iter().chain(emptiness.problems);
    let report = Report {
        launches: reports,
        unplaced,
        waiting: provisioning.waiting,
        pools: problems.chain(replicas.problems).chain(clear.problems).collect(),
        kept: emptiness.kept,
        left_out: clear.left_out.into_iter().chain(provisioning.left_out).collect(),
        certificate: provisioning.certificate,
    };
    #[cfg(debug_assertions)]
    assert_sound(snapshot, &plan, now);
    (plan, report)
}

/// The cluster with machines on their way out.
fn without<'a>(mut rest: Cow<'a, Snapshot>, terminations: &[Termination]) -> Cow<'a, Snapshot> {
    if !terminations.is_empty() {
        let going: BTreeSet<&String> = terminations.iter().map(|t| &t.claim).collect();
        for state in &mut rest.to_mut().nodes {
            state.deleting |= state.claim.as_ref().is_some_and(|claim| going.contains(claim));
        }
    }
    rest
}

/// A wrong plan must not go unseen while the planner is worked on.
#[cfg(debug_assertions)]
fn assert_sound(snapshot: &Snapshot, plan: &Plan, now: Timestamp) {
    let violations = crate::check::check(snapshot, plan, now);
    let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "the plan breaks rules:\n{}", told.join("\n"));
}

/// For how many pods of each class a claim with these annotations was ordered: what
/// [`crate::snapshot::StateNode::planned`] holds. What cannot be read is left out.
#[must_use]
pub fn planned(annotations: &BTreeMap<String, String>) -> BTreeMap<String, u32> {
    let text = annotations.get(labels::PLANNED_PODS).map(String::as_str).unwrap_or_default();
    let entry = |entry: &str| {
        let (class, count) = entry.split_once('=')?;
        Some((class.to_owned(), count.parse().ok()?))
    };
    text.split(',').filter_map(entry).collect()
}

/// What to do now. Specific enough that whoever carries it out has no choices left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Claims to create.
    pub launches: Vec<Launch>,
    /// Pods that existing capacity (nodes, claims under way) will take.
    pub nominations: Vec<Nomination>,
    /// Claims to delete.
    pub terminations: Vec<Termination>,
    /// When to look again even if nothing changes.
    pub next: Option<Timestamp>,
}

/// A NodeClaim to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The pool it comes from.
    pub pool: String,
    /// The pool's UID.
    pub pool_uid: String,
    /// Labels of the claim.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the claim.
    pub annotations: BTreeMap<String, String>,
    /// Requirements of the claim, the instance types among them.
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Startup taints.
    pub startup_taints: Vec<Taint>,
    /// Its class.
    pub class: NodeClassRef,
    /// What its pods and daemons ask for.
    pub requests: BTreeMap<String, Quantity>,
    /// How long it may drain.
    pub termination_grace: Option<Duration>,
    /// How old it may grow.
    pub expire_after: Option<NillableDuration>,
    /// The pods it is for; promised ones are only counted.
    pub pods: Vec<PodKey>,
    /// How many promised pods it is for besides.
    pub promised: u32,
}

/// Pods that go on capacity that is there or on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Nomination {
    /// The pod.
    pub pod: PodKey,
    /// The claim, if Aerostat manages the machine.
    pub claim: Option<String>,
    /// The node, if there is one.
    pub node: Option<String>,
}

/// A NodeClaim to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct Termination {
    /// The claim.
    pub claim: String,
    /// Its node.
    pub node: Option<String>,
    /// Its pool.
    pub pool: String,
    /// Why: `Empty`, or `Surplus` of a static pool.
    pub reason: String,
}
