//! An API that fails now and then, to try clients with: a share of all requests is not carried out
//! but answered with a conflict, with "too many requests", or with a closed connection.
//!
//! [`Faults`] is a tower layer. Each service that it makes is one connection: when that is closed,
//! everything on it ends, watches too. After that an in-process client's next request finds a new
//! one, as a client's on a socket does.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use aerostat_clock::{Seeds, Stream};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use rand::RngExt;
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt;

use super::body::ResponseBody;
use super::path::Path;
use super::reply;
use crate::status::Status;

/// Which share of the requests fails: above 0, and 50 % at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        match percent {
            Some(percent) if percent > 0.0 && percent <= 50.0 => Ok(Self(percent / 100.0)),
            _ => Err("write a share above 0% and up to 50%, like 5%".to_owned()),
        }
    }
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// 409: the object has been modified. For updates and patches only.
    Conflict,
    /// 429, with a second to wait.
    TooMany,
    /// No answer: the connection is closed.
    Closed,
}

/// Makes services that fail.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    share: f64,
    chance: Mutex<Stream>,
}

/// The connection was closed on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed, as one of the faults that were asked for")]
pub struct Closed;

impl Faults {
    /// Faults for a share of all requests; which ones, the seed says.
    #[must_use]
    pub fn new(share: Share, seeds: &Seeds) -> Self {
        let chance = Mutex::new(seeds.stream("api-faults"));
        Self(Arc::new(Inner { share: share.0, chance }))
    }

    /// What befalls a request of this method.
    fn draw(&self, method: &Method) -> Option<Fault> {
        let mut chance = self.0.chance.lock().unwrap_or_else(PoisonError::into_inner);
        if chance.random::<f64>() >= self.0.share {
            return None;
        }
        Some(match chance.random_range(0..3_u8) {
            0 if matches!(*method, Method::PUT | Method::PATCH) => Fault::Conflict,
            0 | 1 => Fault::TooMany,
            _ => Fault::Closed,
        })
    }
}

impl<S> tower::Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, service: S) -> Faulty<S> {
        Faulty { faults: self.clone(), service, closings: Arc::new(watch::Sender::new(0)) }
    }
}

/// A service that fails.
#[derive(Clone, Debug)]
pub struct Faulty<S> {
    faults: Faults,
    service: S,
    /// How often the connection was closed.
    closings: Arc<watch::Sender<u64>>,
}

impl<S> Faulty<S> {
    /// Waits until the connection is closed the next time.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<S> {
        let mut closings = self.closings.subscribe();
        async move {
            // It ends with the last service, which closes the connection too.
            let _ = closings.changed().await;
        }
    }
}

impl<S, B> tower::Service<Request<B>> for Faulty<S>
where
    S: tower::Service<Request<B>, Response = Response<ResponseBody>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<FaultyBody>;
    type Error = Closed;
    type Future = BoxFuture<'static, Result<Self::Response, Closed>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Everything else is not what clients work with.
        let path = Path::parse(request.uri().path());
        let fault = match &path {
            Some(Path::Resource(_)) => self.faults.draw(request.method()),
            _ => None,
        };
        let status = match (fault, path) {
            (Some(Fault::Closed), _) => {
                self.closings.send_modify(|times| *times += 1);
                return futures::future::ready(Err(Closed)).boxed();
            }
            (Some(Fault::TooMany), _) => Some(too_many()),
            (Some(Fault::Conflict), Some(Path::Resource(target))) => {
                let name = target.name.as_deref().unwrap_or_default();
                Some(Status::stale(&target.group, &target.plural, name))
            }
            _ => None,
        };
        let closed = self.closed().boxed();
        let service = self.service.clone();
        async move {
            let response = match status {
                Some(status) => reply::status(&status),
                None => service.oneshot(request).await.unwrap_or_else(|never| match never {}),
            };
            Ok(response.map(|body| FaultyBody { body, closed: Some(closed) }))
        }
        .boxed()
    }
}

/// Source: kubernetes apimachinery `pkg/api/errors/errors.go`.
fn too_many() -> Status {
    let message = "the server has received too many requests and has asked us to try again later";
    let mut status = Status::new(429, "TooManyRequests", message);
    status.details = Some(json!({"retryAfterSeconds": 1}));
    status
}

/// A body that ends early when its connection is closed.
pub struct FaultyBody {
    body: ResponseBody,
    closed: Option<BoxFuture<'static, ()>>,
}

impl fmt::Debug for FaultyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyBody").finish_non_exhaustive()
    }
}

impl Body for FaultyBody {
    type Data = Bytes;
    type Error = Closed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Closed>>> {
        let Some(closed) = &mut self.closed else { return Poll::Ready(None) };
        if closed.poll_unpin(context).is_ready() {
            self.closed = None;
            return Poll::Ready(Some(Err(Closed)));
        }
        Pin::new(&mut self.body)
            .poll_frame(context)
            .map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
    }
}
