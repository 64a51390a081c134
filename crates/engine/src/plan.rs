//! What to do now: the decision, and its result.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::nodepool::{NodeClassRef, NodeSelectorRequirement};
use aerostat_api::{Duration, NillableDuration, Quantity, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use crate::disruption::candidates::Judge;
use crate::disruption::commands::{self, UnderWay};
use crate::disruption::departure::{Movers, disrupted, vacate};
use crate::disruption::emptiness::emptiness;
use crate::disruption::{Scene, disrupt};
use crate::peers::cluster_autoscaler;
use crate::pod::PodKey;
use crate::provisioning::replicas::{Replicas, replicas};
use crate::provisioning::{Provisioning, provision};
use crate::report::{Blocker, Kept, Report, Unplaced};
use crate::residents::Residents;
use crate::snapshot::{Replaces, Snapshot, Stage};
use crate::twins::{self, Clear};
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
    if let Some(groups) = &snapshot.settings.node_groups {
        return cluster_autoscaler::plan(snapshot, groups, now);
    }
    let clear = twins::clear(snapshot);
    let replicas = replicas(&clear.snapshot, now);
    let mut failed = BTreeSet::new();
    loop {
        match decide(&clear, &replicas, &failed, now) {
            Ok((plan, report)) => {
                #[cfg(debug_assertions)]
                assert_sound(snapshot, &plan, now);
                return (plan, report);
            }
            Err(more) => failed.extend(more),
        }
    }
}

/// Decides, with commands that save money rolled back if they are about the machines of `failed`.
///
/// # Errors
///
/// If a command does not suffice for its pods: the machines that it was to replace.
fn decide(
    clear: &Clear<'_>,
    replicas: &Replicas,
    failed: &BTreeSet<String>,
    now: Timestamp,
) -> Result<(Plan, Report), BTreeSet<String>> {
    let there = without(Cow::Borrowed(&*clear.snapshot), &replicas.terminations);
    let under_way = commands::under_way(&there, failed, now);
    let (there, movers) = vacated(there, &under_way);
    let (rest, unresolved) = resolved(&there);
    let residents = Residents::of(&rest);
    let mut provisioning = provision(&rest, &residents, now);
    let more = under_way.insufficient(&provisioning, &unresolved, &movers);
    if !more.is_empty() {
        return Err(more);
    }
    let emptiness = emptiness(&rest, &residents, &provisioning.expecting, now);
    let mut disruption = {
        let judge = Judge::new(&rest, &residents, now);
        let scene = Scene {
            snapshot: &rest,
            residents: &residents,
            judge,
            provisioning: &provisioning,
            now,
        };
        disrupt(&scene, &emptiness.terminations)
    };
    heal(&mut provisioning, &movers, &under_way);
    let mut moving: BTreeSet<PodKey> = movers.keys().cloned().collect();
    let mut moved = Vec::new();
    if let Some((instead, movers)) = disruption.instead.take() {
        provisioning = instead;
        moving.extend(movers.into_keys());
    } else {
        moved.extend(disruption.commands.iter().flat_map(|command| command.moves.clone()));
    }
    let replaced = replaced(&provisioning, &movers, &under_way, &rest);
    let (mut moves, nominations): (Vec<_>, Vec<_>) =
        provisioning.nominations.into_iter().partition(|n| moving.contains(&n.pod));
    moves.extend(moved);
    let launches = provisioning.launches.into_iter().chain(replicas.launches.iter().cloned());
    let (launches, reports) = launches.unzip();
    let gone = disruption.commands.iter().filter(|command| command.replacements == 0);
    let gone = gone.flat_map(|command| command.candidates.clone());
    let terminations =
        emptiness.terminations.into_iter().chain(replicas.terminations.iter().cloned());
    let plan = Plan {
        launches,
        nominations,
        moves,
        terminations: terminations.chain(replaced).chain(gone).collect(),
        commands: disruption.commands,
        marks: under_way.marks,
        releases: under_way.releases,
        rollbacks: under_way.rollbacks,
        next: [provisioning.next, emptiness.next, disruption.next, under_way.next]
            .into_iter()
            .flatten()
            .min(),
    };
    // Who moves has a place yet.
    let waiting = |unplaced: &Unplaced| !moving.contains(&unplaced.pod);
    let mut unplaced: Vec<_> =
        provisioning.unplaced.into_iter().chain(unresolved).filter(waiting).collect();
    unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
    let problems = provisioning.problems.into_iter().chain(emptiness.problems);
    let stays = plan.rollbacks.iter().flat_map(|rollback| &rollback.stays);
    let stays: BTreeSet<&String> = stays.collect();
    let mut kept: Vec<_> = emptiness.kept.into_iter().chain(disruption.kept).collect();
    kept.extend(stays.into_iter().filter_map(|claim| rolled_back(claim, &rest)));
    kept.sort_by(|a, b| a.claim.cmp(&b.claim));
    let problems = problems.chain(replicas.problems.iter().cloned()).chain(disruption.problems);
    let report = Report {
        launches: reports,
        unplaced,
        waiting: provisioning.waiting,
        pools: problems.chain(clear.problems.iter().cloned()).collect(),
        misread: disruption.misread,
        kept,
        left_out: clear.left_out.iter().cloned().chain(provisioning.left_out).collect(),
        certificate: provisioning.certificate,
    };
    Ok((plan, report))
}

/// What is said of a machine whose replacement came to nothing.
fn rolled_back(claim: &String, snapshot: &Snapshot) -> Option<Kept> {
    let state = snapshot.nodes.iter().find(|state| state.claim.as_ref() == Some(claim))?;
    let price = state.price.unwrap_or(0.0);
    Some(Kept { claim: claim.clone(), blocker: Blocker::RolledBack, price })
}

/// The cluster as its pods will leave it: those of machines that go wait for another place.
fn vacated<'a>(mut there: Cow<'a, Snapshot>, under_way: &UnderWay) -> (Cow<'a, Snapshot>, Movers) {
    let deleted = there.nodes.iter().filter(|state| state.deleting);
    let mut leaving: BTreeSet<String> = deleted.filter_map(|state| state.claim.clone()).collect();
    leaving.extend(under_way.going.keys().cloned());
    let stays: BTreeSet<&String> =
        under_way.rollbacks.iter().flat_map(|rollback| &rollback.stays).collect();
    if leaving.is_empty() && stays.is_empty() {
        return (there, Movers::new());
    }
    // Whose command has just come to nothing is weighed again by the next plan, not by this one.
    for state in &mut there.to_mut().nodes {
        let stays = state.claim.as_ref().is_some_and(|claim| stays.contains(claim));
        if stays && !state.is_disrupted() {
            state.node.taints.push(disrupted());
        }
    }
    let movers = vacate(there.to_mut(), &leaving);
    (there, movers)
}

/// What has to be ordered for pods that leave a machine belongs to its replacements: some of those
/// that were ordered before are gone, or have too little room.
fn heal(provisioning: &mut Provisioning, movers: &Movers, under_way: &UnderWay) {
    for (launch, _) in &mut provisioning.launches {
        let left = launch.pods.iter().filter_map(|pod| movers.get(pod));
        let going: BTreeMap<&str, &str> = left
            .filter_map(|claim| under_way.going.get_key_value(claim))
            .map(|(claim, going)| (claim.as_str(), going.termination.reason.as_str()))
            .collect();
        if let Some(reason) = going.values().next() {
            launch.annotations.extend(commands::annotations(going.keys().copied(), reason));
        }
    }
}

/// The machines whose replacements are up and whose pods all have a place on machines that are up.
fn replaced(
    provisioning: &Provisioning,
    movers: &Movers,
    under_way: &UnderWay,
    snapshot: &Snapshot,
) -> Vec<Termination> {
    let up = |name: &Option<String>| {
        name.as_ref().is_some_and(|name| {
            let there = snapshot.nodes.iter().find(|state| state.node.name == *name);
            there.is_some_and(|state| state.stage == Stage::Initialized)
        })
    };
    let mut settled: BTreeSet<&PodKey> = BTreeSet::new();
    if !under_way.going.is_empty() {
        let placed = provisioning.nominations.iter().filter(|n| movers.contains_key(&n.pod));
        settled.extend(placed.filter(|n| up(&n.node)).map(|n| &n.pod));
    }
    let is_settled =
        |claim: &String| movers.iter().all(|(pod, from)| from != claim || settled.contains(pod));
    let may_go = |claim: &String| {
        under_way.going.get(claim).is_none_or(|going| going.is_replaced && is_settled(claim))
    };
    let gone = under_way
        .going
        .iter()
        .filter(|(claim, going)| may_go(claim) && going.with.iter().all(&may_go));
    gone.map(|(_, going)| going.termination.clone()).collect()
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

/// What a claim with these annotations takes the place of: what
/// [`crate::snapshot::StateNode::replaces`] holds.
#[must_use]
pub fn replaces(annotations: &BTreeMap<String, String>) -> Option<Replaces> {
    let claims = annotations.get(labels::REPLACES)?.split(',').map(str::trim);
    let claims: BTreeSet<String> =
        claims.filter(|claim| !claim.is_empty()).map(str::to_owned).collect();
    let reason = annotations.get(labels::REPLACES_BECAUSE).cloned().unwrap_or_default();
    (!claims.is_empty()).then_some(Replaces { claims, reason })
}

/// What to do now. Specific enough that whoever carries it out has no choices left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Claims to create.
    pub launches: Vec<Launch>,
    /// Pods that existing capacity (nodes, claims under way) will take.
    pub nominations: Vec<Nomination>,
    /// Where pods go that are on machines that are about to go: a forecast, nobody is moved by it.
    pub moves: Vec<Nomination>,
    /// Claims to delete.
    pub terminations: Vec<Termination>,
    /// Machines that this plan decides to give up, empty ones aside, and why. Those that are
    /// replaced first are deleted by a later plan, when the replacements are up.
    pub commands: Vec<Command>,
    /// Machines to be tainted and marked as disrupted.
    pub marks: Vec<Marking>,
    /// Machines that are marked as disrupted and stay.
    pub releases: Vec<Marking>,
    /// Claims that were ordered in the place of machines that stay.
    pub rollbacks: Vec<Rollback>,
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
    /// Requirements of the claim, the instance types among them; the same for machines of one kind.
    pub requirements: Arc<[NodeSelectorRequirement]>,
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
    /// Why: `Empty`, `Drifted`, `Expired`, `Requested`, `Underutilized`, or `Surplus` of a static
    /// pool.
    pub reason: String,
}

/// Machines that are given up together.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Why: the reason of its terminations.
    pub reason: String,
    /// The machines.
    pub candidates: Vec<Termination>,
    /// How many of the plan's launches, the first ones, come in their place: 0 if they are deleted
    /// at once.
    pub replacements: usize,
    /// USD per hour that are saved; negative if the replacements cost more.
    pub saves: f64,
    /// Where their pods go, those on replacements aside.
    pub moves: Vec<Nomination>,
}

/// A machine whose mark as disrupted is set or taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marking {
    /// The claim.
    pub claim: String,
    /// Its node.
    pub node: Option<String>,
    /// Why it goes; empty if it stays.
    pub reason: String,
}

/// A claim that takes nobody's place any more: its command came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The claim; its annotations `aerostat.dev/replaces` and `replaces-because` go.
    pub claim: String,
    /// The claims of the machines that stay.
    pub stays: BTreeSet<String>,
}
