//! Access reviews: everyone who gets in may do everything, and is told so.

use http::{Method, Response};
use serde_json::{Value, json};

use super::body::ResponseBody;
use super::path::Target;
use super::{Call, decode, method_not_allowed, negotiate, reply};
use crate::status::Status;

/// The name of everyone who gets in.
pub(crate) const USER: &str = "kubernetes-admin";
/// What they belong to.
pub(crate) const GROUPS: [&str; 2] = ["system:masters", "system:authenticated"];

/// A resource that is only asked, never kept: group, version, kind, plural, namespaced.
pub(super) type Review = (&'static str, &'static str, &'static str, &'static str, bool);

#[rustfmt::skip]
pub(super) const REVIEWS: &[Review] = &[
    ("", "v1", "Binding", "bindings", true),
    ("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", false),
    ("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", false),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", true),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", false),
    ("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", false),
];

/// Answers a review; `None` if the path is of none.
pub(super) fn handle(
    call: &Call<'_>,
    target: &Target,
) -> Option<Result<Response<ResponseBody>, Status>> {
    let (.., kind, plural, namespaced) =
        REVIEWS.iter().find(|(group, version, _, plural, _)| {
            (*group, *version, *plural) == (&target.group, &target.version, &target.plural)
        })?;
    if *namespaced == target.namespace.is_empty() || target.subresource.is_some() {
        return None;
    }
    Some(match (&call.head.method, &target.name) {
        (&Method::POST, None) if *plural == "bindings" => {
            super::subresource::bind(call, target, None)
        }
        (&Method::POST, None) => answer(call, target, kind),
        _ => Err(method_not_allowed()),
    })
}

fn answer(call: &Call<'_>, target: &Target, kind: &str) -> Result<Response<ResponseBody>, Status> {
    let accept = negotiate::accept(&call.head.headers)?;
    let (mut value, _) = decode::body(call)?;
    if !value.is_object() {
        return Err(Status::bad_request("the body of the request is not an object"));
    }
    value["apiVersion"] = format!("{}/{}", target.group, target.version).into();
    value["kind"] = kind.into();
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    value["status"] = status(kind);
    reply::value(201, accept.encoding, &value)
}

fn status(kind: &str) -> Value {
    match kind {
        "SelfSubjectReview" => json!({"userInfo": {"username": USER, "groups": GROUPS}}),
        "TokenReview" => json!({
            "authenticated": false,
            "error": "the embedded cluster does not check tokens of others",
        }),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({
            "allowed": true,
            "reason": "the embedded cluster allows everything to everyone it lets in",
        }),
    }
}
