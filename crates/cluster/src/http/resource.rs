//! What a path's resource is served from, and which verb is asked for.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use serde_json::Value;

use super::body::ResponseBody;
use super::path::Target;
use super::view::View;
use super::{Call, delete, list, method_not_allowed, reply, reviews, subresource, watch, write};
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::Object;

/// A kind, in the version that a client asks for.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub kind: Arc<Kind>,
    pub view: View,
}

impl Served {
    pub(super) fn find(
        cluster: &Cluster,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Self> {
        let Some(kind) = cluster.kind(group, plural) else {
            let (view, core, plural) = View::of(group, version, plural)?;
            return Some(Self { kind: cluster.kind(core, plural)?, view });
        };
        if kind.version == version {
            return Some(Self { kind, view: View::Stored });
        }
        let (view, group, plural) = match &kind.custom {
            Some(custom) if custom.served.iter().any(|served| served == version) => {
                return Some(Self { kind, view: View::Version(version.to_owned()) });
            }
            Some(_) => return None,
            None => View::of(group, version, plural)?,
        };
        Some(Self { kind: cluster.kind(group, plural)?, view })
    }

    /// `v1`, `apps/v1`: as the client sees it.
    pub(super) fn api_version(&self) -> String {
        self.view.api_version(&self.kind)
    }

    /// Group and version as the client sees them.
    pub(super) fn group_version(&self) -> (String, String) {
        let text = self.api_version();
        match text.split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), text),
        }
    }

    /// An object's JSON as the client sees it.
    pub(super) fn bytes(&self, object: &Object) -> Bytes {
        match self.view {
            View::Stored => object.json(),
            _ => Bytes::from(self.value(object).to_string()),
        }
    }

    /// An object as the client sees it.
    pub(super) fn value(&self, object: &Object) -> Value {
        self.view.outward(&self.kind, object.value.clone())
    }
}

/// Carries out a request for objects.
pub(super) fn handle(call: &Call<'_>, target: &Target) -> Result<Response<ResponseBody>, Status> {
    let cluster = call.service.cluster();
    let Some(served) = Served::find(cluster, &target.group, &target.version, &target.plural) else {
        return reviews::handle(call, target).unwrap_or_else(|| Ok(reply::not_found()));
    };
    let kind = &served.kind;
    cluster.renew_leases(kind);
    let placed = !target.namespace.is_empty();
    if placed && !kind.namespaced {
        return Ok(reply::not_found());
    }
    if let Some(name) = &target.name {
        if kind.namespaced && !placed {
            return Ok(reply::not_found());
        }
        if let Some(subresource) = &target.subresource {
            return subresource::handle(call, &served, target, name, subresource);
        }
    }
    let writes = !matches!(call.head.method, Method::GET | Method::HEAD);
    if writes && kind.read_only {
        return Err(method_not_allowed());
    }
    match (&call.head.method, &target.name) {
        (&Method::GET | &Method::HEAD, _) if call.query.flag("watch") => {
            watch::start(call, &served, target)
        }
        (&Method::GET | &Method::HEAD, Some(name)) => list::get(call, &served, target, name),
        (&Method::GET | &Method::HEAD, None) => list::list(call, &served, target),
        (&Method::POST, None) if placed == kind.namespaced => write::create(call, &served, target),
        (&Method::PUT, Some(name)) => write::update(call, &served, target, name),
        (&Method::PATCH, Some(name)) => write::patch(call, &served, target, name),
        (&Method::DELETE, Some(name)) => delete::one(call, &served, target, name),
        (&Method::DELETE, None) if placed == kind.namespaced => {
            delete::collection(call, &served, target)
        }
        _ => Err(method_not_allowed()),
    }
}
