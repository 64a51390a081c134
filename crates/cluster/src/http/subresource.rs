//! Subresources: status, scale, binding, eviction, tokens; and those that need a real node.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{Method, Response};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::body::ResponseBody;
use super::ownership::Ownership;
use super::patch::Patch;
use super::path::Target;
use super::present::Presentation;
use super::resource::Served;
use super::view::View;
use super::{Call, decode, delete, list, method_not_allowed, negotiate, query, reply, write};
use crate::kinds::Kind;
use crate::registry::{self, Binding, Part, WriteOptions, timestamp};
use crate::status::{FieldError, Status};
use crate::store::Object;

/// Carries out a request for a subresource.
pub(super) fn handle(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
    subresource: &str,
) -> Result<Response<ResponseBody>, Status> {
    let kind = &served.kind;
    let method = &call.head.method;
    match (kind.group.as_str(), kind.plural.as_str(), subresource) {
        (_, _, "status") if kind.status => match *method {
            Method::GET => list::get(call, served, target, name),
            Method::PUT => write::update(call, served, target, name),
            Method::PATCH => write::patch(call, served, target, name),
            _ => Err(method_not_allowed()),
        },
        (_, _, "scale") if kind.scale => scale(call, served, target, name),
        ("", "pods", "binding") => only(call, &Method::POST, || bind(call, target, Some(name))),
        ("", "pods", "eviction") => only(call, &Method::POST, || evict(call, target, name)),
        ("", "serviceaccounts", "token") => {
            only(call, &Method::POST, || token(call, served, target, name))
        }
        ("", "namespaces", "finalize") => only(call, &Method::PUT, || finalize(call, served, name)),
        ("", "pods", "proxy") => proxy(call, served, target, name),
        ("", "pods", "log" | "exec" | "attach" | "portforward") => {
            call.service.cluster().get_object(kind, &target.namespace, name)?;
            Err(Status::not_implemented(format!(
                "pods {name:?}: {subresource} is not available: \
                 the pod runs on a simulated node, where no container is executed"
            )))
        }
        ("", "nodes", "proxy") => {
            call.service.cluster().get_object(kind, "", name)?;
            Err(Status::not_implemented(format!(
                "nodes {name:?}: proxy is not available: the node is simulated"
            )))
        }
        ("", "pods", "ephemeralcontainers" | "resize") | ("", "services", "proxy") => {
            Err(Status::not_implemented(format!(
                "{}/{subresource} is not available in this embedded cluster",
                kind.plural
            )))
        }
        _ => Ok(reply::not_found()),
    }
}

/// A document that stands for what a pod would serve: `pods/http:NAME:8080/proxy/metrics`.
fn proxy(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    let parts: Vec<&str> = name.split(':').collect();
    let (pod, port) = match parts.as_slice() {
        [_, pod, port] | [pod, port] => (*pod, *port),
        _ => (name, ""),
    };
    call.service.cluster().get_object(&served.kind, &target.namespace, pod)?;
    // Behind api, version, namespaces, namespace, pods, name and proxy.
    let segments = call.head.uri.path().trim_matches('/').split('/').skip(7);
    let rest = segments.collect::<Vec<_>>().join("/");
    match super::document_at(call, &format!("proxy/{}/{pod}/{port}/{rest}", target.namespace)) {
        Some(Err(status)) if status.code == 404 => {}
        Some(answer) => return answer,
        None => {}
    }
    Err(Status::not_implemented(format!(
        "pods {pod:?}: proxy is not available: \
         the pod runs on a simulated node, where no container is executed"
    )))
}

fn only(
    call: &Call<'_>,
    method: &Method,
    then: impl FnOnce() -> Result<Response<ResponseBody>, Status>,
) -> Result<Response<ResponseBody>, Status> {
    if call.head.method == *method { then() } else { Err(method_not_allowed()) }
}

fn scale(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    let shown = Arc::new(Kind {
        group: "autoscaling".into(),
        version: "v1".into(),
        kind: "Scale".into(),
        ..Kind::default()
    });
    let presentation = Presentation::of(call, &Served { kind: shown, view: View::Stored })?;
    let cluster = call.service.cluster();
    let (kind, namespace) = (&served.kind, &target.namespace);
    let ownership = Ownership::of(call, served, target);
    let write = |options, change: &dyn Fn(Value) -> Result<Value, Status>| {
        cluster.update_object(kind, namespace, name, Part::Main, options, |old| {
            let new = registry::scaled(kind, old, &change(registry::scale(kind, old))?)?;
            Ok(ownership.updated(&old.value, new))
        })
    };
    let object = match call.head.method {
        Method::GET => cluster.get_object(kind, namespace, name)?,
        Method::PUT => {
            let options = WriteOptions { dry_run: call.query.dry_run("UpdateOptions")? };
            let (scale, _) = decode::body(call)?;
            write::check_name(&scale, name)?;
            write(options, &|_| Ok(scale.clone()))?
        }
        Method::PATCH => {
            let options = WriteOptions { dry_run: call.query.dry_run("PatchOptions")? };
            // A Scale has no lists: strategic and merge patches do the same.
            let patch = match Patch::of(call, served)? {
                Patch::Strategic(patch) => Patch::Merge(patch),
                patch => patch,
            };
            write(options, &|scale| patch.apply(served, scale))?
        }
        _ => return Err(method_not_allowed()),
    };
    let scale = registry::scale(kind, &object);
    presentation.object(200, &Object::new(scale, object.revision))
}

/// `pods/<name>/binding`, or (without a name in the URL) `bindings`.
pub(super) fn bind(
    call: &Call<'_>,
    target: &Target,
    name: Option<&str>,
) -> Result<Response<ResponseBody>, Status> {
    let options = WriteOptions { dry_run: call.query.dry_run("CreateOptions")? };
    let (value, _) = decode::body(call)?;
    let given = value["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_some_and(|name| !given.is_empty() && name != given) {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let name = name.unwrap_or(given);
    let binding = binding(name, &value)?;
    call.service.cluster().bind(&target.namespace, name, &binding, options)?;
    Ok(reply::success(201, None))
}

/// What a `v1` `Binding` asks for.
fn binding(pod: &str, value: &Value) -> Result<Binding, Status> {
    let target = &value["target"];
    let mut errors = Vec::new();
    if pod.is_empty() {
        errors.push(FieldError::required("metadata.name", "name is required"));
    }
    if !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
        let supported = ["Node", "<empty>"];
        errors.push(FieldError::not_supported("target.kind", &target["kind"], &supported));
    }
    let node = target["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "Binding", pod, &errors));
    }
    let strings = |field: &str| -> BTreeMap<String, String> {
        let fields = value["metadata"][field].as_object().into_iter().flatten();
        fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    Ok(Binding {
        uid: value["metadata"]["uid"].as_str().map(str::to_owned),
        node: node.to_owned(),
        labels: strings("labels"),
        annotations: strings("annotations"),
    })
}

fn evict(call: &Call<'_>, target: &Target, name: &str) -> Result<Response<ResponseBody>, Status> {
    let (value, _) = decode::body(call)?;
    let given = value["metadata"]["name"].as_str().unwrap_or_default();
    if !given.is_empty() && name != given {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = delete::from_value(&value["deleteOptions"])?;
    options.dry_run |= call.query.dry_run("CreateOptions")?;
    call.service.cluster().evict(&target.namespace, name, &options)?;
    Ok(reply::success(201, None))
}

fn finalize(
    call: &Call<'_>,
    served: &Served,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    let presentation = super::present::Presentation::of(call, served)?;
    let validation = call.query.field_validation("UpdateOptions")?;
    let options = WriteOptions { dry_run: call.query.dry_run("UpdateOptions")? };
    let (value, warnings) = decode::object(call, served, validation)?;
    write::check_name(&value, name)?;
    let cluster = call.service.cluster();
    let object = cluster.update_object(&served.kind, "", name, Part::Whole, options, |old| {
        let mut new = old.value.clone();
        new["spec"] = json!({"finalizers": value["spec"]["finalizers"].as_array().cloned().unwrap_or_default()});
        let version = &value["metadata"]["resourceVersion"];
        if !version.is_null() {
            new["metadata"]["resourceVersion"] = version.clone();
        }
        Ok(new)
    })?;
    Ok(reply::warn(presentation.object(200, &object)?, &warnings))
}

/// A token that names the account. It is of use to programs that only look at it: this cluster
/// knows one credential, the administrator's.
fn token(
    call: &Call<'_>,
    served: &Served,
    target: &Target,
    name: &str,
) -> Result<Response<ResponseBody>, Status> {
    const DEFAULT_SECONDS: i64 = 3600;
    const SHORTEST: i64 = 600;
    let encoding = negotiate::accept(&call.head.headers)?.encoding;
    let cluster = call.service.cluster();
    let account = cluster.get_object(&served.kind, &target.namespace, name)?;
    let (mut value, _) = decode::body(call)?;
    query::dry_run(call.query.get("dryRun"), "CreateOptions")?;
    if !value.is_object() {
        return Err(Status::bad_request("the body of the request is not an object"));
    }
    let seconds = value["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let now = cluster.clock().now();
    let expires = now.saturating_add(SignedDuration::from_secs(seconds.max(SHORTEST)));
    let expires = expires.map_err(|error| Status::bad_request(error.to_string()))?;
    let claims = json!({
        "iss": "https://kubernetes.default.svc",
        "sub": format!("system:serviceaccount:{}:{name}", target.namespace),
        "aud": value["spec"]["audiences"],
        "iat": now.as_second(),
        "exp": expires.as_second(),
        "kubernetes.io": {
            "namespace": target.namespace,
            "serviceaccount": {"name": name, "uid": account.uid()},
        },
    });
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let token = format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), part(&claims));
    value["apiVersion"] = "authentication.k8s.io/v1".into();
    value["kind"] = "TokenRequest".into();
    value["metadata"]["name"] = name.into();
    value["metadata"]["namespace"] = target.namespace.as_str().into();
    value["spec"]["expirationSeconds"] = seconds.into();
    value["status"] = json!({"token": token, "expirationTimestamp": timestamp(expires)});
    reply::value(201, encoding, &value)
}
