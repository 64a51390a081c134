//! What is measured, and what it should be. Where nothing else is said it is the first plan, before
//! it is made cheaper: peers make no other.

use aerostat_engine::snapshot::{Preferences, Snapshot};
use serde_json::{Value, json};

use crate::diverse::{diverse, preferring};
use crate::{cluster, fleet};

/// A snapshot to plan for.
pub struct Case {
    /// `diverse-1000`, for example.
    pub name: String,
    /// In words.
    title: String,
    /// Makes the snapshot.
    pub snapshot: Box<dyn Fn() -> Snapshot>,
    /// The most that it may take, in milliseconds.
    at_most: Option<f64>,
    /// Karpenter's benchmark of the same, and by what factor it should take longer.
    peer: Option<(String, Option<f64>)>,
    /// The most memory that the process may take, in MiB.
    memory: Option<f64>,
    /// Whether its instructions are counted, which takes fifty times as long.
    counted: bool,
}

impl Case {
    fn new(name: &str, title: &str, snapshot: impl Fn() -> Snapshot + 'static) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            snapshot: Box::new(snapshot),
            at_most: None,
            peer: None,
            memory: None,
            counted: false,
        }
    }

    fn at_most(self, millis: f64) -> Self {
        Self { at_most: Some(millis), ..self }
    }

    fn peer(self, benchmark: &str, factor: Option<f64>) -> Self {
        Self { peer: Some((benchmark.to_owned(), factor)), ..self }
    }

    /// Everything but the snapshot.
    pub fn describe(&self) -> Value {
        let (benchmark, factor) = self.peer.clone().unzip();
        json!({
            "case": self.name, "title": self.title, "atMostMillis": self.at_most,
            "atMostMib": self.memory, "counted": self.counted,
            "peer": benchmark, "peerFactor": factor.flatten(),
        })
    }
}

/// All cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let sizes = [1, 50, 100, 500, 1000, 2000, 5000, 10_000, 20_000];
    let grid = sizes.into_iter().map(|count| {
        let name = format!("diverse-{count}");
        let title = format!("{} diverse pods, 400 types", grouped(count));
        let factor = match count {
            1000 => Some(2000.0),
            20_000 => Some(5000.0),
            _ => None,
        };
        let case = Case::new(&name, &title, move || first(diverse(count)));
        let case = case.peer(&format!("BenchmarkScheduling{count}"), factor);
        let case = if count == 20_000 { case.at_most(20.0) } else { case };
        Case { counted: count <= 5000, ..case }
    });
    let wishes = |name: &str, title: &str, preferences: Preferences| {
        Case::new(name, title, move || {
            let mut snapshot = first(preferring(4000));
            snapshot.settings.preferences = preferences;
            snapshot
        })
    };
    let respect = wishes("respect", "4,000 pods with wishes, respected", Preferences::Respect);
    let ignore = wishes("ignore", "4,000 pods with wishes, ignored", Preferences::Ignore);
    let fleet = Case::new(
        "fleet",
        "100,000 pods of 500 shapes, 800 types × 3 zones × 2 capacity types",
        || first(fleet::fleet()),
    );
    let refined = Case::new("fleet-refined", "the same, refined", fleet::fleet);
    let rest = [
        respect.peer("BenchmarkRespectPreferences", Some(2000.0)),
        ignore.peer("BenchmarkIgnorePreferences", Some(2000.0)),
        wishes("wishes", "4,000 pods with wishes, at a price", Preferences::Priced),
        Case { memory: Some(100.0), ..fleet.at_most(100.0) },
        refined.at_most(1000.0),
        Case::new("scale-up", "cluster-autoscaler's scale-up: 50,000 pods to 1,000 nodes", || {
            first(cluster::scale_up())
        })
        .at_most(50.0),
        Case::new(
            "surge",
            "cluster-autoscaler's anti-affinity surge: 100 pods beside 50,000 on 5,000 nodes",
            || first(cluster::surge()),
        )
        .at_most(1000.0),
        Case::new("one-more", "one pod more beside 100,000 on 5,000 nodes", cluster::one_more)
            .at_most(1.0),
        Case::new(
            "consolidation",
            "what to give up of 1,000 nodes with 30,000 pods, 20 pools",
            cluster::consolidation,
        )
        .at_most(50.0),
    ];
    grid.chain(rest).collect()
}

/// To be planned for without making the plan cheaper afterwards.
fn first(mut snapshot: Snapshot) -> Snapshot {
    snapshot.settings.refine = 0;
    snapshot
}

/// `20,000`.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let (head, tail) = digits.split_at(digits.len().saturating_sub(3));
    if head.is_empty() { tail.to_owned() } else { format!("{head},{tail}") }
}
