//! What the controllers have done so far, written down as they do it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use aerostat_api::NodeClaim;
use aerostat_cluster::Cluster;
use aerostat_controllers::Decision;
use aerostat_provider::SimCloud;
use aerostat_provider::catalog::Region;
use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::case::Case;
use super::invariants::{self, Look};
use super::layer::Call;

/// For how long it is known what was written.
const RECENT: SignedDuration = SignedDuration::from_mins(6);
/// How many lines are shown of what came before a violation.
const SHOWN: usize = 40;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// A claim that was created.
#[derive(Clone, Debug)]
pub struct Order {
    pub name: String,
    /// What the plan said it would cost, USD per hour.
    pub price: Option<f64>,
    /// Whether a decision has told of it, or whoever made it died before or did not hear of it.
    pub is_explained: bool,
}

/// A pod that looked for a place.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub cpu: i64,
    pub last: Timestamp,
}

/// Something that the controllers have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub at: Timestamp,
    /// What it is about: `nodes`, `nodeclaims`, …
    pub plural: String,
    pub name: String,
    /// Whether it is an event.
    pub is_event: bool,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_event { "an event about" } else { "a write to" };
        write!(f, "{what} {} {} at {}", self.plural, self.name, self.at)
    }
}

/// Everything that was written down.
#[derive(Debug, Default)]
pub struct Book {
    /// By the claim's UID.
    pub orders: BTreeMap<String, Order>,
    /// By claim, what its events have given as the cause of its end.
    pub causes: BTreeMap<String, String>,
    /// Decisions' claims and prices, by name.
    pub decided: BTreeMap<String, f64>,
    /// By the pod's UID.
    pub needs: BTreeMap<String, Need>,
    /// By pool, the times when so many of its nodes were initialized.
    pub counts: BTreeMap<String, VecDeque<(Timestamp, u64)>>,
    /// Since when something is seen, by what it is.
    pub since: BTreeMap<String, Timestamp>,
    /// Until when something went wrong with API or cloud.
    pub troubled: Timestamp,
    /// Until when the controllers may know less than there is.
    pub dim: Timestamp,
    /// Whether anything was ever sold out.
    pub was_sold_out: bool,
    /// Prices of machines by claim, those that are gone too.
    pub prices: BTreeMap<String, f64>,
    /// What was written, as long as [`RECENT`].
    pub writes: VecDeque<Write>,
    pub violations: BTreeSet<Violation>,
    lines: VecDeque<String>,
    hash: DefaultHasher,
}

/// The book, and what it is about.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    case: Case,
    cluster: Cluster,
    cloud: Arc<SimCloud>,
    region: Arc<Region>,
    book: Mutex<Book>,
}

impl Ledger {
    pub fn new(case: Case, cluster: Cluster, cloud: Arc<SimCloud>, region: Arc<Region>) -> Self {
        Self(Arc::new(Inner { case, cluster, cloud, region, book: Mutex::default() }))
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap()
    }

    fn now(&self) -> Timestamp {
        self.0.cluster.clock().now()
    }

    /// Writes a line.
    pub fn line(&self, text: &str) {
        let now = self.now();
        let mut book = self.book();
        let line = format!("{now:.3} {text}");
        book.hash.write(line.as_bytes());
        if std::env::var_os("AEROSTAT_TRACE").is_some() {
            println!("{line}");
        }
        book.lines.push_back(line);
        if book.lines.len() > SHOWN {
            book.lines.pop_front();
        }
    }

    pub fn note(&self, call: &Call, text: &str) {
        self.line(&format!("{call} {text}"));
    }

    /// The last lines, and the hash of all.
    pub fn trace(&self) -> (Vec<String>, u64) {
        let book = self.book();
        (book.lines.iter().cloned().collect(), book.hash.finish())
    }

    /// The controllers died: what they had not told of yet, they never will.
    pub fn crashed(&self) {
        self.line("the controllers die");
        let now = self.now();
        let mut book = self.book();
        book.troubled = book.troubled.max(now);
        book.dim = book.dim.max(now);
        book.orders.values_mut().for_each(|order| order.is_explained = true);
    }

    /// An event is to be written: it may say why a claim goes.
    pub fn told(&self, body: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(body) else { return };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (about, reason) = (&event["involvedObject"], text(&event["reason"]));
        let message = text(&event["message"]);
        let kind = text(&about["kind"]).to_lowercase() + "s";
        self.wrote(&kind, &text(&about["name"]), true);
        self.line(&format!(
            "event {} {}: {reason}: {message}",
            text(&about["kind"]),
            text(&about["name"])
        ));
        if about["kind"] != "NodeClaim" {
            return;
        }
        let cause = match reason.as_str() {
            "DisruptionTerminating" => message.rsplit(": ").next().unwrap_or_default().to_owned(),
            "InsufficientCapacityError" | "NodeClassNotReady" => reason,
            _ => return,
        };
        self.book().causes.insert(text(&about["name"]), cause);
    }

    /// What a plan has led to.
    pub fn decided(&self, decision: &Decision) {
        let launches = decision.claims.iter().zip(&decision.report.launches);
        let mut book = self.book();
        for (claim, launch) in launches {
            let Some(claim) = claim else { continue };
            book.decided.insert(claim.clone(), launch.price);
            for order in book.orders.values_mut().filter(|order| order.name == *claim) {
                order.is_explained = true;
                order.price = Some(launch.price);
            }
        }
    }

    fn wrote(&self, plural: &str, name: &str, is_event: bool) {
        let at = self.now();
        let mut book = self.book();
        book.writes.retain(|write| at.duration_since(write.at) <= RECENT);
        let (plural, name) = (plural.to_owned(), name.to_owned());
        book.writes.push_back(Write { at, plural, name, is_event });
    }

    /// When something was written last.
    pub fn written(&self) -> Timestamp {
        self.book().writes.back().map_or(Timestamp::MIN, |write| write.at)
    }

    /// Everything as it is now.
    async fn look<T>(&self, with: impl FnOnce(&Look<'_>, &mut Book) -> T) -> T {
        let inner = &*self.0;
        let machines = aerostat_provider::CloudProvider::list(&*inner.cloud).await.unwrap();
        let look = Look::of(&inner.case, &inner.cluster, &inner.region, machines);
        with(&look, &mut self.book())
    }

    /// A write is about to be done.
    pub async fn before(&self, call: &Call, body: &[u8]) {
        self.wrote(&call.plural, &call.name, false);
        if invariants::concerns(call) {
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            let check =
                |look: &Look<'_>, book: &mut Book| invariants::check_write(look, book, call, &body);
            let found = self.look(check).await;
            self.found(found);
        }
    }

    /// A write has been done, or was refused.
    pub async fn after(&self, call: &Call, status: StatusCode, body: &[u8], is_lost: bool) {
        if call.plural != "events" {
            self.note(call, status.as_str());
        }
        let is_order = call.method == Method::POST && call.plural == "nodeclaims";
        if !is_order || !status.is_success() {
            return;
        }
        let Ok(claim) = serde_json::from_slice::<NodeClaim>(body) else { return };
        let name = claim.metadata.name.clone().unwrap_or_default();
        self.line(&format!("ordered {name}"));
        let order = Order { name, price: None, is_explained: is_lost };
        self.book().orders.insert(claim.metadata.uid.clone().unwrap_or_default(), order);
        let found = self.look(invariants::check_order).await;
        self.found(found);
    }

    /// Checks everything that must hold at any time.
    pub async fn check(&self) {
        let found = self.look(invariants::check).await;
        self.found(found);
    }

    /// What does not hold and must, when all is over.
    pub async fn check_rest(&self) -> Vec<Violation> {
        self.look(|look, book| invariants::check_rest(look, book)).await
    }

    /// What has been written since some time, and is for nothing.
    pub async fn noise(&self, since: Timestamp) -> Option<Write> {
        self.look(|look, book| {
            let mut writes = book.writes.iter().filter(|write| write.at > since);
            writes.find(|write| !invariants::may_be_written(look, write, since)).cloned()
        })
        .await
    }

    pub fn found(&self, found: Vec<Violation>) {
        for violation in found {
            let is_news = {
                let mut book = self.book();
                // One of a kind is enough.
                let known = book.violations.iter().any(|other| other.rule == violation.rule);
                !known && book.violations.insert(violation.clone())
            };
            if is_news {
                self.line(&format!("!! {violation}"));
            }
        }
    }
}
