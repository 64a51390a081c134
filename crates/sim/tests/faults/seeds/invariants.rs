//! What must hold whatever goes wrong.
//!
//! | rule | says |
//! |---|---|
//! | `machine-without-claim` | a machine whose claim is no more ends within minutes |
//! | `claim-without-machine` | a claim whose machine is no more goes within minutes |
//! | `two-machines` | a claim has one machine |
//! | `ordered-twice` | what is on its way is no more than the pods that look for a place |
//! | `limits` | the machines of a pool, those on their way included, are within its limits |
//! | `budget` | no more nodes are disrupted at a time than a pool's budgets allow |
//! | `protected` | pods leave by the eviction API, are not disrupted if they say so, and only leave nodes that go; the documented override is the termination grace period |
//! | `not-empty` | a node that goes for being empty is empty |
//! | `replacement-first` | a node goes only when what was ordered in its place is up |
//! | `let-go` | claims and nodes are let go when their machine is gone |
//! | `price` | a machine costs what the plan said; replacements that save money do |
//! | `unexplained` | claims come by a decision and go for a reason that is told |
//! | `pending` | when all is over, no pod is left without a place that a pool could give it |
//! | `stuck` | when all is over, nothing is left that is on its way in or out |
//! | `waste` | when all is over, nothing is left that should have been given up |
//! | `noise` | when all is over, nothing is written |
//! | `failed` | nothing panics; the engine's own check of every plan finds nothing |
//!
//! Rules about what the controllers know allow for what they cannot know yet: [`Book::dim`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::{NodeClaim, labels};
use aerostat_cluster::Cluster;
use aerostat_provider::Instance;
use aerostat_provider::catalog::Region;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::Value;

use super::case::{Budget, Case, Pool, What};
use super::layer::Call;
use super::ledger::{Book, Need, Violation, Write};

/// How long garbage may lie, in seconds: collected every two minutes, a minute old at least.
const GARBAGE: i64 = 300;
/// How long it may take until a dead machine's claim goes: its kubelet has to be missed first.
const MISSED: i64 = 420;
/// When all should have come to rest, in seconds after the last thing that happened: a machine that
/// never joins is given up after 15 minutes, an ill one replaced after 30.
pub const SETTLED: i64 = 2400;
/// How far the controllers may lag behind when all is well, in seconds.
const LAG: i64 = 5;
/// How far they may lag behind after trouble, in seconds.
const DIM: i64 = 120;
/// Reasons that budgets count.
const BUDGETED: [&str; 3] = ["Empty", "Drifted", "Underutilized"];
/// How long a replacement may take, in seconds.
const PATIENCE: i64 = 600;

/// The world at one moment.
pub struct Look<'a> {
    pub case: &'a Case,
    pub now: Timestamp,
    pub region: &'a Region,
    pub claims: Vec<Arc<NodeClaim>>,
    pub nodes: Vec<Arc<Node>>,
    pub pods: Vec<Arc<Pod>>,
    pub deployments: Vec<Arc<Deployment>>,
    pub machines: Vec<Instance>,
}

impl<'a> Look<'a> {
    pub fn of(
        case: &'a Case,
        cluster: &Cluster,
        region: &'a Region,
        machines: Vec<Instance>,
    ) -> Self {
        Self {
            case,
            now: cluster.clock().now(),
            region,
            claims: claims(cluster),
            nodes: cluster.list::<Node>(""),
            pods: cluster.list::<Pod>("default"),
            deployments: cluster.list::<Deployment>("default"),
            machines,
        }
    }

    fn age(&self, of: Timestamp) -> i64 {
        self.now.duration_since(of).as_secs()
    }

    fn claim(&self, name: &str) -> Option<&NodeClaim> {
        let claim = self.claims.iter().find(|claim| claim.name_any() == name);
        claim.map(|claim| &**claim)
    }

    fn node_of(&self, claim: &NodeClaim) -> Option<&Arc<Node>> {
        let id = claim.status.as_ref()?.provider_id.as_ref()?;
        self.nodes.iter().find(|node| machine_of(node) == Some(id))
    }

    fn claim_of(&self, node: &Node) -> Option<&NodeClaim> {
        let id = machine_of(node)?;
        let claim = self.claims.iter().find(|claim| {
            claim.status.as_ref().is_some_and(|status| status.provider_id.as_deref() == Some(id))
        });
        claim.map(|claim| &**claim)
    }

    fn machine_of(&self, claim: &NodeClaim) -> Option<&Instance> {
        self.machines.iter().find(|machine| Some(&machine.claim) == claim.uid().as_ref())
    }

    fn pool(&self, claim: &NodeClaim) -> Option<&Pool> {
        let name = claim.labels().get(labels::NODEPOOL)?;
        self.case.pools.iter().find(|pool| pool.name == *name)
    }

    /// Pods on a node that have not ended and are not about to, those that belong to it aside.
    fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let here = move |pod: &&Arc<Pod>| node_of(pod) == Some(node);
        self.pods.iter().filter(here).filter(|pod| !is_over(pod) && !is_daemon(pod))
    }

    /// What the DaemonSets ask for on each machine, in milli-cores.
    fn overhead(&self) -> i64 {
        self.case.daemons.iter().map(|daemon| i64::from(daemon.cpu_milli)).sum()
    }

    /// Whether somebody deletes a pool at any time.
    fn is_doomed(&self, pool: &Pool) -> bool {
        self.case.happenings.iter().any(|happening| {
            matches!(&happening.what, What::DeletePool { pool: doomed } if *doomed == pool.name)
        })
    }

    /// USD per hour of a machine.
    fn price(&self, machine: &Instance) -> Option<f64> {
        let label = |key: &str| machine.labels.get(key);
        let kind = self.region.instance_type(label(labels::INSTANCE_TYPE)?)?;
        let offering = kind.offerings.iter().find(|offering| {
            Some(&offering.zone) == label(labels::ZONE)
                && Some(&offering.capacity_type) == label(labels::CAPACITY_TYPE)
        })?;
        Some(offering.price)
    }

    /// How long ago something may have happened that the controllers do not know of, in seconds.
    fn lag(&self, book: &Book) -> i64 {
        if self.age(book.dim) < DIM { DIM + 60 } else { LAG }
    }
}

fn claims(cluster: &Cluster) -> Vec<Arc<NodeClaim>> {
    let kind = cluster.kind("karpenter.sh", "nodeclaims").unwrap();
    let (objects, _) = cluster.store().list(&kind.resource(), "");
    objects.iter().map(|object| object.typed().unwrap()).collect()
}

fn machine_of(node: &Node) -> Option<&String> {
    node.spec.as_ref()?.provider_id.as_ref()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn is_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_over(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || is_ended(pod)
}

fn is_daemon(pod: &Pod) -> bool {
    pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet")
}

fn is_going(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

fn condition<'c>(claim: &'c NodeClaim, name: &str) -> Option<&'c aerostat_api::Condition> {
    let conditions = &claim.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == name && condition.status == "True")
}

fn is_marked(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn replaces(claim: &NodeClaim) -> BTreeSet<&str> {
    let text = claim.annotations().get(labels::REPLACES);
    text.map(|text| text.split(',').collect()).unwrap_or_default()
}

/// When a pod was bound.
fn bound_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let bound = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "True")?;
    Some(bound.last_transition_time.as_ref()?.0)
}

/// Milli-cores that a pod asks for.
fn cpu_of(pod: &Pod) -> i64 {
    let requests = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = requests.filter_map(|c| c.resources.as_ref()?.requests.as_ref()?.get("cpu"));
    requests.filter_map(|q| q.0.parse::<aerostat_api::Quantity>().ok()).map(|q| q.milli()).sum()
}

/// Whether a pod says that it must not be disrupted.
fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    let Some(text) = pod.annotations().get(labels::DO_NOT_DISRUPT) else { return false };
    if text == "true" {
        return true;
    }
    let Ok(length) = aerostat_api::Duration::parse(text) else { return false };
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let end = |at: Timestamp| at + SignedDuration::try_from(length.0).unwrap();
    started.is_none_or(|at| now < end(at.0))
}

/// Checks what must hold at any time.
pub fn check(look: &Look<'_>, book: &mut Book) -> Vec<Violation> {
    let mut found = Found::default();
    remember(look, book);
    machines(look, book, &mut found);
    limits(look, &mut found);
    prices(look, book, &mut found);
    found.0
}

/// Checks what must hold when all is over.
pub fn check_rest(look: &Look<'_>, book: &Book) -> Vec<Violation> {
    let mut found = Found::default();
    pending(look, &mut found);
    stuck(look, &mut found);
    waste(look, book, &mut found);
    for order in book.orders.values().filter(|order| !order.is_explained) {
        found.broken("unexplained", format!("no decision tells of {}", order.name));
    }
    found.0
}

/// Checks a claim that has just been created.
pub fn check_order(look: &Look<'_>, book: &mut Book) -> Vec<Violation> {
    let mut found = Found::default();
    remember(look, book);
    limits(look, &mut found);
    ordered(look, book, &mut found);
    found.0
}

/// Whether [`check_write`] has anything to say about a write.
pub fn concerns(call: &Call) -> bool {
    let plurals = ["nodeclaims", "nodes", "pods"];
    plurals.contains(&call.plural.as_str()) && call.subresource != "status"
}

/// Checks what the controllers are about to do.
pub fn check_write(look: &Look<'_>, book: &mut Book, call: &Call, body: &Value) -> Vec<Violation> {
    let mut found = Found::default();
    match (&call.method, call.plural.as_str(), call.subresource.as_str()) {
        (&Method::DELETE, "nodeclaims", "") => ending(look, book, &call.name, &mut found),
        (&Method::DELETE, "nodes", "") => {
            let node = look.nodes.iter().find(|node| node.name_any() == call.name);
            let claim = node.and_then(|node| look.claim_of(node));
            if node.is_some() && claim.is_some_and(|claim| !is_going(claim)) {
                let what = format!("node {} goes before its claim", call.name);
                found.broken("unexplained", what);
            }
        }
        (&Method::PUT, "nodes", "") => marking(look, book, call, body, &mut found),
        (&Method::PATCH, "nodeclaims" | "nodes", "") => letting_go(look, call, body, &mut found),
        (&Method::POST, "pods", "eviction") | (&Method::DELETE, "pods", "") => {
            leaving(look, call, &mut found);
        }
        _ => {}
    }
    found.0
}

/// Whether something may be written though nothing has happened since some time: machines grow
/// old, and events tell now and then what pods hold theirs, or have no place.
pub fn may_be_written(look: &Look<'_>, write: &Write, since: Timestamp) -> bool {
    let is_old = |claim: &NodeClaim| {
        let life = look.pool(claim).and_then(|pool| pool.expire_after);
        let born = claim.creation_timestamp().map_or(look.now, |time| time.0);
        // Its replacement begins at 15 % of its life before its end.
        let renewal = |life: u64| born + SignedDuration::from_secs((life * 8 / 10).cast_signed());
        life.is_some_and(|life| renewal(life) <= look.now) || life.is_some() && born >= since
    };
    // A pod without a place may bring machines, and others then go: a known fault if that never ends.
    let waits = look.pods.iter().any(|pod| !is_over(pod) && node_of(pod).is_none());
    if waits || look.claims.iter().any(|claim| is_old(claim)) {
        return true;
    }
    let lingers = |claim: &NodeClaim| is_going(claim) && may_linger(look, claim);
    match write.plural.as_str() {
        "pods" => look.pods.iter().filter(|pod| pod.name_any() == write.name).any(|pod| {
            let Some(name) = node_of(pod) else { return write.is_event && !is_over(pod) };
            let node = look.nodes.iter().find(|node| node.name_any() == name);
            node.and_then(|node| look.claim_of(node)).is_some_and(lingers)
        }),
        "nodes" => {
            let node = look.nodes.iter().find(|node| node.name_any() == write.name);
            node.and_then(|node| look.claim_of(node)).is_some_and(lingers)
        }
        "nodeclaims" => look.claim(&write.name).is_some_and(lingers),
        _ => false,
    }
}

#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    fn broken(&mut self, rule: &'static str, what: String) {
        self.0.push(Violation { rule, what });
    }
}

/// Writes down what later checks ask for.
fn remember(look: &Look<'_>, book: &mut Book) {
    let going: BTreeSet<String> =
        look.claims.iter().flat_map(|claim| replaces(claim)).map(str::to_owned).collect();
    let mut need = |uid: String, cpu: i64| {
        book.needs.insert(uid, Need { cpu, last: look.now });
    };
    for pod in look.pods.iter().filter(|pod| !is_ended(pod) && !is_daemon(pod)) {
        let node = node_of(pod).and_then(|name| look.nodes.iter().find(|n| n.name_any() == name));
        let is_settled = node.is_some_and(|node| {
            let claim = look.claim_of(node);
            let is_leaving = claim.is_none_or(|c| is_going(c) || going.contains(&c.name_any()));
            node.metadata.deletion_timestamp.is_none()
                && !is_leaving
                && !is_marked(node)
                && is_ready(node)
        });
        if !is_settled {
            need(pod.uid().unwrap_or_default(), cpu_of(pod));
        }
    }
    for deployment in &look.deployments {
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let name = deployment.name_any();
        let mine = look.pods.iter().filter(|pod| pod.labels().get("app") == Some(&name));
        let there: Vec<&Arc<Pod>> = mine.filter(|pod| !is_over(pod)).collect();
        let missing = i64::from(wanted) - i64::try_from(there.len()).unwrap();
        if missing > 0
            && let Some(pod) = look.pods.iter().find(|p| p.labels().get("app") == Some(&name))
        {
            need(format!("promised {name}"), missing * cpu_of(pod));
        }
    }
    for job in &look.case.jobs {
        let mine = look.pods.iter().filter(|pod| pod.labels().get("app") == Some(&job.name));
        let there = mine.filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
        let missing = i64::from(job.pods) - i64::try_from(there).unwrap();
        if missing > 0 {
            need(format!("promised {}", job.name), missing * i64::from(job.cpu_milli));
        }
    }
    for pool in &look.case.pools {
        let count = initialized(look, &pool.name);
        let counts = book.counts.entry(pool.name.clone()).or_default();
        counts.push_back((look.now, count));
        counts.retain(|(at, _)| look.age(*at) <= DIM);
    }
    for machine in &look.machines {
        if let (Some(order), Some(price)) = (book.orders.get(&machine.claim), look.price(machine)) {
            book.prices.insert(order.name.clone(), price);
        }
    }
}

/// How many nodes of a pool are initialized.
fn initialized(look: &Look<'_>, pool: &str) -> u64 {
    let mine = look.claims.iter().filter(|claim| {
        claim.labels().get(labels::NODEPOOL).is_some_and(|of| of == pool)
            && condition(claim, "Initialized").is_some()
    });
    u64::try_from(mine.count()).unwrap()
}

/// Machines and claims belong together.
fn machines(look: &Look<'_>, book: &mut Book, found: &mut Found) {
    let mut seen = BTreeMap::new();
    let mut lasting = BTreeMap::new();
    for machine in &look.machines {
        *seen.entry(&machine.claim).or_insert(0) += 1;
        let has_claim =
            look.claims.iter().any(|claim| claim.uid().as_ref() == Some(&machine.claim));
        let node = look.nodes.iter().find(|node| machine_of(node) == Some(&machine.provider_id));
        let drains = node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
        if !has_claim && !drains {
            lasting.insert(
                format!("machine {}", machine.provider_id),
                ("machine-without-claim", GARBAGE),
            );
        }
    }
    for (claim, _) in seen.into_iter().filter(|(_, count)| *count > 1) {
        found.broken("two-machines", format!("claim {claim} has more than one"));
    }
    for claim in &look.claims {
        let has_id = claim.status.as_ref().is_some_and(|status| status.provider_id.is_some());
        let is_held = look.node_of(claim).is_some_and(|node| is_held(node));
        if has_id && look.machine_of(claim).is_none() && !is_held {
            lasting
                .insert(format!("claim {}", claim.name_any()), ("claim-without-machine", MISSED));
        }
    }
    book.since.retain(|what, _| lasting.contains_key(what));
    for (what, (rule, most)) in lasting {
        let since = *book.since.entry(what.clone()).or_insert(look.now);
        if look.age(since.max(book.troubled)) > most {
            found.broken(rule, format!("{what} since {since}"));
        }
    }
}

/// Whether somebody else's finalizer is on a node.
fn is_held(node: &Node) -> bool {
    node.finalizers().iter().any(|finalizer| finalizer != labels::TERMINATION_FINALIZER)
}

/// Most cpus that a claim's machine may have, in milli-cores.
fn largest(look: &Look<'_>, claim: &NodeClaim) -> i64 {
    let there = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("cpu"));
    if let Some(cpu) = there {
        return cpu.milli();
    }
    let requirements = claim.spec.requirements.iter();
    let types = requirements.filter(|r| r.key == labels::INSTANCE_TYPE && r.operator == "In");
    let types = types.flat_map(|r| &r.values).filter_map(|name| look.region.instance_type(name));
    types.map(|kind| kind.capacity.cpu).max().unwrap_or(0)
}

fn limits(look: &Look<'_>, found: &mut Found) {
    for pool in &look.case.pools {
        let mine = look.claims.iter().filter(|claim| {
            claim.labels().get(labels::NODEPOOL) == Some(&pool.name) && !is_going(claim)
        });
        let (mut cpu, mut nodes) = (0, 0_u32);
        for claim in mine {
            (cpu, nodes) = (cpu + largest(look, claim), nodes + 1);
        }
        if pool.limit_cpu.is_some_and(|limit| cpu > i64::from(limit) * 1000) {
            found.broken("limits", format!("pool {} has {cpu}m cpu", pool.name));
        }
        if pool.limit_nodes.is_some_and(|limit| nodes > limit) {
            found.broken("limits", format!("pool {} has {nodes} nodes", pool.name));
        }
    }
}

fn prices(look: &Look<'_>, book: &Book, found: &mut Found) {
    for machine in &look.machines {
        let Some(order) = book.orders.get(&machine.claim) else { continue };
        let said = order.price.or_else(|| book.decided.get(&order.name).copied());
        if let (Some(said), Some(price), false) = (said, look.price(machine), book.was_sold_out)
            && price > said + 1e-9
        {
            found.broken("price", format!("{} costs {price}, not {said}", order.name));
        }
    }
}

/// What is on its way is no more than what pods ask for.
fn ordered(look: &Look<'_>, book: &Book, found: &mut Found) {
    let is_coming = |claim: &&Arc<NodeClaim>| {
        let is_static = look.pool(claim).is_none_or(|pool| pool.replicas.is_some());
        !is_going(claim) && !is_static && condition(claim, "Initialized").is_none()
    };
    let coming: Vec<&Arc<NodeClaim>> = look.claims.iter().filter(is_coming).collect();
    let requests = coming.iter().filter_map(|claim| claim.spec.resources.as_ref());
    let requests = requests.filter_map(|resources| resources.requests.get("cpu"));
    let cpu: i64 = requests.map(|quantity| quantity.milli() - look.overhead()).sum();
    let oldest = coming.iter().filter_map(|claim| claim.creation_timestamp()).map(|time| time.0);
    let Some(oldest) = oldest.min() else { return };
    let since = oldest - SignedDuration::from_secs(look.lag(book));
    let needs = book.needs.values().filter(|need| need.last >= since);
    let needed: i64 = needs.map(|need| need.cpu).sum();
    if cpu > needed {
        let names: Vec<String> = coming.iter().map(|claim| claim.name_any()).collect();
        let what = format!("{} for {cpu}m cpu, pods ask for {needed}m", names.join(", "));
        found.broken("ordered-twice", what);
    }
}

/// A claim is about to be deleted.
fn ending(look: &Look<'_>, book: &Book, name: &str, found: &mut Found) {
    let Some(claim) = look.claim(name) else { return };
    let node = look.node_of(claim);
    let by_hand = node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
    let Some(cause) = book.causes.get(name) else {
        if !by_hand {
            found.broken("unexplained", format!("{name} is deleted for no reason that is told"));
        }
        return;
    };
    let born = claim.creation_timestamp().map_or(look.now, |time| time.0);
    let Some(pool) = look.pool(claim).filter(|pool| pool.replicas.is_none()) else { return };
    let is_late = pool.expire_after.is_some_and(|after| look.age(born) >= after.cast_signed());
    let is_voluntary = BUDGETED.contains(&cause.as_str())
        || cause == "Requested"
        || cause == "Expired" && !is_late;
    if !is_voluntary || is_going(claim) {
        return;
    }
    for other in look.claims.iter().filter(|other| !is_going(other)) {
        let because = other.annotations().get(labels::REPLACES_BECAUSE);
        let age = other.creation_timestamp().map_or(0, |time| look.age(time.0));
        let is_up = condition(other, "Initialized").is_some();
        let waits = age < PATIENCE && !is_up;
        if replaces(other).contains(name) && because == Some(cause) && waits {
            let what = format!("{name} goes before {} is up", other.name_any());
            found.broken("replacement-first", what);
        }
    }
    let is_old_news =
        |pod: &&Arc<Pod>| bound_at(pod).is_some_and(|at| look.age(at) > look.lag(book));
    let on_node = node.map(|node| node.name_any()).unwrap_or_default();
    let pods: Vec<&Arc<Pod>> = look.pods_on(&on_node).filter(is_old_news).collect();
    let is_held = cause == "Empty" || cause == "Underutilized" || pool.termination_grace.is_none();
    if is_held && let Some(pod) = pods.iter().find(|pod| is_protected(pod, look.now)) {
        found.broken("protected", format!("{name} goes ({cause}) in spite of {}", pod.name_any()));
    }
    if cause == "Empty"
        && let Some(pod) = pods.first()
    {
        found.broken("not-empty", format!("{name} goes, and has {}", pod.name_any()));
    }
    within_budget(look, book, pool, name, cause, found);
    if cause == "Underutilized" {
        cheaper(look, book, name, found);
    }
}

/// A node is about to be marked as disrupted.
fn marking(look: &Look<'_>, book: &Book, call: &Call, body: &Value, found: &mut Found) {
    let taints = body["spec"]["taints"].as_array();
    let marks = taints.into_iter().flatten().any(|taint| taint["key"] == labels::DISRUPTED_TAINT);
    let Some(node) = look.nodes.iter().find(|node| node.name_any() == call.name) else { return };
    if !marks || is_marked(node) || node.metadata.deletion_timestamp.is_some() {
        return;
    }
    let Some(claim) = look.claim_of(node).filter(|claim| !is_going(claim)) else { return };
    let Some(reason) = condition(claim, "DisruptionReason").map(|c| c.reason.clone()) else {
        let what = format!("{} is marked, and its claim does not say why", call.name);
        return found.broken("unexplained", what);
    };
    if let Some(pool) = look.pool(claim).filter(|pool| pool.replicas.is_none()) {
        within_budget(look, book, pool, &claim.name_any(), &reason, found);
    }
}

/// One more node of a pool is about to be disrupted by choice.
fn within_budget(
    look: &Look<'_>,
    book: &Book,
    pool: &Pool,
    name: &str,
    reason: &str,
    found: &mut Found,
) {
    let reason = if reason == "Expired" { "Drifted" } else { reason };
    if !BUDGETED.contains(&reason) {
        return;
    }
    let is_mine =
        |claim: &&Arc<NodeClaim>| claim.labels().get(labels::NODEPOOL) == Some(&pool.name);
    let by_choice = |claim: &&Arc<NodeClaim>| {
        let cause = book.causes.get(&claim.name_any()).map(String::as_str);
        let is_chosen = cause.is_some_and(|cause| BUDGETED.contains(&cause));
        let marked = look.node_of(claim).is_some_and(|node| is_marked(node));
        let why = condition(claim, "DisruptionReason").map(|c| c.reason.as_str());
        claim.name_any() == name
            || is_going(claim) && is_chosen
            || !is_going(claim) && marked && why.is_some_and(|why| BUDGETED.contains(&why))
    };
    let disrupted = look.claims.iter().filter(is_mine).filter(by_choice).count();
    let counts = book.counts.get(&pool.name).into_iter().flatten();
    let nodes = counts.map(|(_, count)| *count).max().unwrap_or(0);
    let nodes = nodes.max(initialized(look, &pool.name));
    // Who is on the way out already was within them; and others may have held a moment ago.
    let is_counted =
        look.claim(name).and_then(|claim| look.node_of(claim)).is_some_and(|node| is_marked(node));
    let holds = |budget: &&Budget| {
        let held_for = budget.held_for(look.now);
        budget.minutes.is_none()
            || !is_counted && held_for.is_some_and(|secs| secs > look.lag(book))
    };
    let budgets = pool.budgets.iter().filter(holds).filter(|budget| {
        budget.reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|of| of == reason))
    });
    let allowed = |nodes_of: &str| match nodes_of.strip_suffix('%') {
        Some(percent) => (nodes * percent.parse::<u64>().unwrap()).div_ceil(100),
        None => nodes_of.parse().unwrap(),
    };
    let allowed = budgets.map(|budget| allowed(&budget.nodes)).min().unwrap_or(nodes);
    if u64::try_from(disrupted).unwrap() > allowed {
        let what = format!(
            "{name} ({reason}) is one of {disrupted} disrupted nodes of pool {}, which allows {allowed}",
            pool.name
        );
        found.broken("budget", what);
    }
}

/// What was ordered in place of machines that go for money costs less than they do, whatever became
/// of the order and whenever it was made.
fn cheaper(look: &Look<'_>, book: &Book, name: &str, found: &mut Found) {
    let by: Vec<&Arc<NodeClaim>> = look
        .claims
        .iter()
        .filter(|other| !is_going(other) && replaces(other).contains(name))
        .collect();
    let price = |claim: &str| book.prices.get(claim).copied();
    let old: BTreeSet<&str> = by.iter().flat_map(|claim| replaces(claim)).collect();
    let new: Option<f64> = by.iter().map(|claim| price(&claim.name_any())).sum();
    let old: Option<f64> = old.iter().map(|claim| price(claim)).sum();
    if let (Some(new), Some(old), false) = (new, old, by.is_empty())
        && new >= old
    {
        found.broken("price", format!("{name} goes for {new}, and cost {old} with the others"));
    }
}

/// A claim or node may be about to lose its finalizer.
fn letting_go(look: &Look<'_>, call: &Call, body: &Value, found: &mut Found) {
    let Some(left) = body["metadata"]["finalizers"].as_array() else { return };
    if left.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER) {
        return;
    }
    let id = if call.plural == "nodes" {
        let node = look.nodes.iter().find(|node| node.name_any() == call.name);
        node.and_then(|node| machine_of(node)).cloned()
    } else {
        look.claim(&call.name).and_then(|claim| claim.status.as_ref()?.provider_id.clone())
    };
    let Some(id) = id else { return };
    if look.machines.iter().any(|machine| machine.provider_id == id) {
        found
            .broken("let-go", format!("{} {} is let go, its machine runs", call.plural, call.name));
    }
}

/// A pod is about to be evicted or deleted.
fn leaving(look: &Look<'_>, call: &Call, found: &mut Found) {
    let Some(pod) = look.pods.iter().find(|pod| pod.name_any() == call.name) else { return };
    let name = node_of(pod).unwrap_or_default();
    let node = look.nodes.iter().find(|node| node.name_any() == name);
    if node.is_none_or(|node| node.metadata.deletion_timestamp.is_none()) {
        let what = format!("{} leaves node {name}, which stays", call.name);
        return found.broken("protected", what);
    }
    if call.subresource == "eviction" {
        if is_protected(pod, look.now) && !is_over(pod) {
            found.broken("protected", format!("{} is evicted, and must not be", call.name));
        }
        return;
    }
    let claim = node.and_then(|node| look.claim_of(node));
    let deadline = claim.and_then(|claim| claim.annotations().get(labels::TERMINATION_TIMESTAMP));
    let deadline = deadline.and_then(|text| text.parse::<Timestamp>().ok());
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let grace = SignedDuration::from_secs(grace.unwrap_or(30) + 1);
    if deadline.is_none_or(|deadline| look.now < deadline - grace) {
        found.broken("protected", format!("{} is deleted before its node's time", call.name));
    }
}

/// Pods that wait though a pool could serve them.
fn pending(look: &Look<'_>, found: &mut Found) {
    for pod in look.pods.iter().filter(|pod| !is_over(pod) && !is_daemon(pod)) {
        let spec = pod.spec.as_ref();
        let selector = spec.and_then(|spec| spec.node_selector.as_ref()?.get(labels::NODEPOOL));
        let pool = look.case.pools.iter().find(|pool| Some(&pool.name) == selector);
        // What is pinned to a pool with limits, or of so many nodes, may have to wait.
        let may_wait = pool.is_some_and(|pool| {
            pool.limit_cpu.is_some()
                || pool.limit_nodes.is_some()
                || pool.replicas.is_some()
                || look.is_doomed(pool)
        });
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Running") && !may_wait {
            let node = node_of(pod).unwrap_or("no node");
            found.broken("pending", format!("{} is {phase:?} on {node}", pod.name_any()));
        }
    }
}

/// Whether pods hold the node of a claim: they may do so for ever, if nothing limits it.
fn may_linger(look: &Look<'_>, claim: &NodeClaim) -> bool {
    let is_limited = claim.spec.termination_grace_period.is_some();
    !is_limited
        && look.node_of(claim).is_some_and(|node| look.pods_on(&node.name_any()).next().is_some())
}

fn stuck(look: &Look<'_>, found: &mut Found) {
    for claim in &look.claims {
        let name = claim.name_any();
        if is_going(claim) && !may_linger(look, claim) {
            found.broken("stuck", format!("{name} is going, and does not go"));
        }
        let since = claim.creation_timestamp().map_or(look.now, |time| time.0);
        if !is_going(claim) && condition(claim, "Initialized").is_none() && look.age(since) > 960 {
            found.broken("stuck", format!("{name} is coming, and does not come"));
        }
        let is_marked = look.node_of(claim).is_some_and(|node| is_marked(node));
        if !is_going(claim) && is_marked {
            let is_replaced =
                look.claims.iter().any(|other| replaces(other).contains(name.as_str()));
            if !is_replaced {
                found.broken("stuck", format!("{name} is marked as disrupted, and stays"));
            }
        }
    }
    for node in look.nodes.iter().filter(|node| look.claim_of(node).is_none()) {
        if look.pods_on(&node.name_any()).next().is_none() {
            found.broken("stuck", format!("node {} has no claim", node.name_any()));
        }
    }
}

/// Empty machines that should have gone.
fn waste(look: &Look<'_>, book: &Book, found: &mut Found) {
    for claim in look.claims.iter().filter(|claim| !is_going(claim)) {
        let Some(pool) = look.pool(claim) else { continue };
        let is_kept = pool.replicas.is_some()
            || pool.consolidate_after.is_none()
            || pool.budgets.iter().any(|b| b.nodes == "0" && b.held_for(look.now).is_some());
        let Some(up) = condition(claim, "Initialized") else { continue };
        let Some(node) = look.node_of(claim) else { continue };
        let is_new = look.age(up.last_transition_time.0) < 600;
        if !is_kept && !is_new && is_ready(node) && look.pods_on(&node.name_any()).next().is_none()
        {
            let others = look.nodes.iter().any(|node| !is_ready(node) || is_marked(node));
            if !others {
                let price = book.prices.get(&claim.name_any());
                let what =
                    format!("{} is empty and stays, for {price:?} an hour", claim.name_any());
                found.broken("waste", what);
            }
        }
    }
}
