//! What in-process controllers watch with.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::store::{Event, EventKind};

/// What happened to an object of type `K`.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It came or changed; `old` is what it was before.
    Applied {
        /// After.
        new: Arc<K>,
        /// Before; `None` if it came, or was there when the informer began.
        old: Option<Arc<K>>,
    },
    /// It went; its last state.
    Deleted(Arc<K>),
}

/// Follows a kind without loss: everything there is, then every change, in order.
#[derive(Debug)]
pub struct Informer<K> {
    events: UnboundedReceiver<Arc<Event>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Informer<K> {
    pub(crate) fn new(events: UnboundedReceiver<Arc<Event>>) -> Self {
        Self { events, kind: PhantomData }
    }

    /// The next change; waits for one. `None` when the cluster is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<Change<K>> {
        loop {
            let event = self.events.recv().await?;
            if let Some(change) = decode(&event) {
                return Some(change);
            }
        }
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Option<Change<K>> {
        loop {
            match self.events.try_recv() {
                Ok(event) => {
                    if let Some(change) = decode(&event) {
                        return Some(change);
                    }
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return None,
            }
        }
    }
}

fn decode<K: DeserializeOwned + Send + Sync + 'static>(event: &Event) -> Option<Change<K>> {
    let object = match event.object.typed::<K>() {
        Ok(object) => object,
        Err(error) => {
            tracing::error!(object = %event.object.value, %error, "stored object cannot be read");
            return None;
        }
    };
    Some(match event.kind {
        EventKind::Deleted => Change::Deleted(object),
        EventKind::Added | EventKind::Modified => {
            let old = event.previous.as_ref().and_then(|old| old.typed::<K>().ok());
            Change::Applied { new: object, old }
        }
    })
}
