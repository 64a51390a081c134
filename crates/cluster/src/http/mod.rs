//! The API server: HTTP requests in; objects, tables and watches out.
//!
//! [`Service`] is a [`tower::Service`]: `kube::Client::new(service, "default")` talks to it inside
//! the process, [`crate::serve`] puts it behind TLS. It needs no socket, thread or machine's clock.
//!
//! ```text
//! request ─> body ─> path ──> resource ─┬─> list, watch ──> present ─> reply
//!            (limit)    │    (kind, view)├─> write (decode, patch), delete
//!                       │                └─> subresource
//!                       └──> discovery, openapi, reviews, version
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `body` | request bodies up to the limit; response bodies: whole, in chunks, or a watch |
//! | `path`, `query` | what a URL asks for |
//! | `negotiate` | `Accept` and `Content-Type` |
//! | `resource` | what a path's resource is served from: a kind, perhaps through a view |
//! | `decode`, `patch` | bodies to objects, with field validation; patches |
//! | `apply`, `ownership` | server-side apply; whose field is whose |
//! | `list`, `watch`, `write`, `delete` | the verbs |
//! | `present`, `reply` | objects as JSON, YAML, tables or metadata; responses |
//! | `subresource`, `reviews` | binding, eviction, scale and others; access reviews |
//! | `discovery`, `openapi` | what is served |
//! | [`faults`] | a layer before it that fails now and then, to try clients with |

mod apply;
mod body;
mod decode;
mod delete;
mod discovery;
pub mod faults;
mod list;
mod negotiate;
mod openapi;
mod ownership;
mod patch;
mod path;
mod present;
mod query;
mod reply;
mod resource;
mod reviews;
mod subresource;
mod view;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use serde_json::Value;

pub use body::{REQUEST_LIMIT, ResponseBody};
pub(crate) use reviews::{GROUPS, USER};

use crate::registry::Cluster;
use crate::status::Status;
use path::Path;
use query::Query;

/// The version that the API server says it is: the Kubernetes release that it emulates.
pub const GIT_VERSION: &str = concat!("v1.36.3+aerostat.", env!("CARGO_PKG_VERSION"));

/// The API of a [`Cluster`] over HTTP. Cheap to clone; clones share their watches.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Service").field(&self.0.cluster).finish()
    }
}

/// Read-only documents by path, made when they are asked for: JSON, or a string, which is served as
/// plain text.
pub type Documents = Box<dyn Fn(&str) -> Result<Value, Status> + Send + Sync>;

/// Where documents are, beside the paths of Kubernetes.
const DOCUMENTS: &str = "/aerostat/v1/";

struct Inner {
    cluster: Cluster,
    documents: OnceLock<Documents>,
    /// Turns true when watches are to end.
    closing: tokio::sync::watch::Sender<bool>,
    /// Every open watch holds one more.
    watches: Arc<()>,
}

/// A request whose body has been read.
struct Call<'a> {
    service: &'a Service,
    head: &'a Parts,
    query: Query,
    body: Bytes,
}

impl Service {
    /// The API of `cluster`.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        let closing = tokio::sync::watch::Sender::new(false);
        let (documents, watches) = (OnceLock::new(), Arc::new(()));
        Self(Arc::new(Inner { cluster, documents, closing, watches }))
    }

    /// Serves documents under `/aerostat/v1/`, to whoever may use the API: `documents` gets what
    /// follows in the path. Only the first call counts.
    pub fn serve_documents(&self, documents: Documents) {
        // Documents that are there already stay.
        let _ = self.0.documents.set(documents);
    }

    /// How many watches are open.
    #[must_use]
    pub fn open_watches(&self) -> usize {
        Arc::strong_count(&self.0.watches) - 1
    }

    /// Ends all watches, now and from now on; other requests still work.
    pub fn close(&self) {
        self.0.closing.send_replace(true);
    }

    fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    async fn respond<B>(self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let (head, body) = request.into_parts();
        let bodiless = matches!(head.method, Method::GET | Method::HEAD);
        let body = if bodiless { Ok(Bytes::new()) } else { body::read(&head.headers, body).await };
        let result = body.and_then(|body| {
            let query = Query::parse(head.uri.query().unwrap_or_default());
            route(&Call { service: &self, head: &head, query, body })
        });
        result.unwrap_or_else(|status| reply::status(&status))
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}

fn route(call: &Call<'_>) -> Result<Response<ResponseBody>, Status> {
    let Some(path) = Path::parse(call.head.uri.path()) else { return document(call) };
    if let Path::Resource(target) = &path {
        return resource::handle(call, target);
    }
    if !matches!(call.head.method, Method::GET | Method::HEAD) {
        return Err(method_not_allowed());
    }
    Ok(match path {
        Path::Health => reply::text(200, "ok"),
        Path::Version => reply::json(200, &discovery::version()),
        Path::OpenApiV2 => openapi::empty(call),
        Path::OpenApi(rest) => openapi::respond(call, &rest)?,
        Path::Core => discovery::core(call)?,
        Path::Groups => discovery::groups(call)?,
        Path::Group(group) => discovery::group(call, &group),
        Path::GroupVersion(group, version) => discovery::group_version(call, &group, &version),
        Path::Resource(_) => unreachable!("handled above"),
    })
}

/// A document that is no part of Kubernetes' API.
fn document(call: &Call<'_>) -> Result<Response<ResponseBody>, Status> {
    let rest = call.head.uri.path().strip_prefix(DOCUMENTS);
    rest.and_then(|rest| document_at(call, rest)).unwrap_or_else(|| Ok(reply::not_found()))
}

/// The document at a path; `None` if there are no documents.
fn document_at(call: &Call<'_>, path: &str) -> Option<Result<Response<ResponseBody>, Status>> {
    let documents = call.service.0.documents.get()?;
    if !matches!(call.head.method, Method::GET | Method::HEAD) {
        return Some(Err(method_not_allowed()));
    }
    Some(documents(path).map(|document| match document {
        Value::String(text) => reply::text(200, text),
        value => reply::json(200, &value),
    }))
}

/// What someone gets who is not let in.
pub(crate) fn unauthorized() -> Response<ResponseBody> {
    reply::status(&Status::new(401, "Unauthorized", "Unauthorized"))
}

fn method_not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    Status::new(405, "MethodNotAllowed", message)
}
