//! The changes of every kind, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::store::{Event, Resource};

/// One feed for each kind; kinds come in the order of group and plural.
#[derive(Debug, Default)]
pub(super) struct Feeds(BTreeMap<Resource, (Arc<Kind>, UnboundedReceiver<Arc<Event>>)>);

impl Feeds {
    /// Follows those of `kinds` that are not followed yet. Events own nothing and are not owned.
    pub(super) fn follow(&mut self, cluster: &Cluster, kinds: &[Arc<Kind>]) {
        for kind in kinds {
            let resource = kind.resource();
            if kind.kind != "Event" && !self.0.contains_key(&resource) {
                let feed = cluster.store().subscribe(&resource);
                self.0.insert(resource, (kind.clone(), feed));
            }
        }
    }

    /// The next change of any kind; waits for one.
    pub(super) async fn next(&mut self) -> (Arc<Kind>, Arc<Event>) {
        std::future::poll_fn(|context| {
            for (kind, feed) in self.0.values_mut() {
                if let Poll::Ready(Some(event)) = feed.poll_recv(context) {
                    return Poll::Ready((kind.clone(), event));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next change if there is one already.
    pub(super) fn try_next(&mut self) -> Option<(Arc<Kind>, Arc<Event>)> {
        let mut feeds = self.0.values_mut();
        feeds.find_map(|(kind, feed)| Some((kind.clone(), feed.try_recv().ok()?)))
    }
}
