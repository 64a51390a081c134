//! A client that counts writes and dies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aerostat_sim::World;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tower::ServiceExt;

/// When the controllers die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Instead of their n-th write.
    Before(usize),
    /// When it has been done, but before they hear of it.
    After(usize),
}

/// A client that dies at its n-th write.
pub fn dying(world: &World, crash: Option<Crash>, counts: &Counts) -> Client {
    let service = world.service.clone();
    let counts = counts.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let service = service.clone();
        let counts = counts.clone();
        async move {
            let events = request.uri().path().ends_with("/events");
            let is_write = request.method() != Method::GET && !events;
            let number = if is_write { counts.writes.fetch_add(1, Ordering::Relaxed) } else { 0 };
            let call = format!("{} {}", request.method(), request.uri().path());
            if is_write && crash == Some(Crash::Before(number)) {
                *counts.at.lock().unwrap() = call;
                counts.died.notify_one();
                return std::future::pending().await;
            }
            let answer = service.oneshot(request).await;
            if is_write && crash == Some(Crash::After(number)) {
                *counts.at.lock().unwrap() = call;
                counts.died.notify_one();
                return std::future::pending().await;
            }
            answer
        }
    });
    Client::new(service, "default")
}

/// What a client has seen.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Writes that are no events.
    pub writes: Arc<AtomicUsize>,
    /// Tells that they died.
    pub died: Arc<Notify>,
    /// The write that they died at.
    pub at: Arc<Mutex<String>>,
}
