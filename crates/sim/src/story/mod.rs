//! What happens, as it happens: one line an event.
//!
//! [`Narrator`] is a state machine: changes of the cluster and decisions of the planner go in,
//! [`Line`]s come out. [`follow`] feeds it from a [`Cluster`] and hands the lines on.
//! Bursts are told as one line: 500 pods of a ReplicaSet that wait are one event to a reader.

mod line;
mod narrator;
mod words;

use aerostat_cluster::{Cluster, Informer};
use aerostat_controllers::Decision;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use tokio::sync::mpsc::UnboundedReceiver;

pub use line::{Kind, Line};
pub use narrator::Narrator;

/// How long a burst is gathered before it is told.
const GATHER: std::time::Duration = std::time::Duration::from_millis(20);

/// Tells what happens in `cluster` to `tell`, until dropped.
pub async fn follow(
    cluster: Cluster,
    mut decisions: UnboundedReceiver<Decision>,
    mut tell: impl FnMut(Line),
) {
    let clock = cluster.clock();
    let mut pods: Informer<Pod> = cluster.informer();
    let mut nodes: Informer<Node> = cluster.informer();
    let mut events: Informer<Event> = cluster.informer();
    let mut narrator = Narrator::default();
    loop {
        tokio::select! {
            biased;
            Some(change) = pods.next() => narrator.pod(&change, clock.now()),
            Some(change) = events.next() => narrator.event(&change, clock.now()),
            Some(decision) = decisions.recv() => narrator.decision(&decision, clock.now()),
            Some(change) = nodes.next() => narrator.node(&change, clock.now()),
            else => return,
        }
        // A moment's patience turns a burst into one line.
        clock.sleep(GATHER).await;
        let now = clock.now();
        while let Some(change) = pods.try_next() {
            narrator.pod(&change, now);
        }
        while let Some(change) = events.try_next() {
            narrator.event(&change, now);
        }
        while let Ok(decision) = decisions.try_recv() {
            narrator.decision(&decision, now);
        }
        while let Some(change) = nodes.try_next() {
            narrator.node(&change, now);
        }
        narrator.lines().into_iter().for_each(&mut tell);
    }
}
