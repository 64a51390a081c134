//! What is served: version, groups, resources; each list in its old and its aggregated form.

use std::collections::BTreeMap;

use http::Response;
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use serde_json::{Value, json};

use super::body::ResponseBody;
use super::reviews::REVIEWS;
use super::view::View;
use super::{Call, GIT_VERSION, negotiate, reply};
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// Group and plural, subresource; group, version and kind of what it takes; verbs.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// What is served below objects. Source: the discovery documents of Kubernetes v1.36.
#[rustfmt::skip]
const SUBRESOURCES: &[Row] = &[
    ("", "namespaces", "finalize", "", "v1", "Namespace", &["update"]),
    ("", "nodes", "proxy", "", "v1", "NodeProxyOptions", &["create", "delete", "get", "patch", "update"]),
    ("", "pods", "attach", "", "v1", "PodAttachOptions", &["create", "get"]),
    ("", "pods", "binding", "", "v1", "Binding", &["create"]),
    ("", "pods", "eviction", "policy", "v1", "Eviction", &["create"]),
    ("", "pods", "exec", "", "v1", "PodExecOptions", &["create", "get"]),
    ("", "pods", "log", "", "v1", "Pod", &["get"]),
    ("", "pods", "portforward", "", "v1", "PodPortForwardOptions", &["create", "get"]),
    ("", "pods", "proxy", "", "v1", "PodProxyOptions", &["create", "delete", "get", "patch", "update"]),
    ("", "serviceaccounts", "token", "authentication.k8s.io", "v1", "TokenRequest", &["create"]),
];

/// Groups in the order in which clients shall look for a name. Source: kubernetes apiserver's
/// group priorities, `pkg/controlplane/apiserver/aggregator.go`.
const ORDER: &[&str] = &[
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
];

/// `/version`.
pub(super) fn version() -> Value {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{arch}", std::env::consts::OS),
    })
}

/// `/api`.
pub(super) fn core(call: &Call<'_>) -> Result<Response<ResponseBody>, Status> {
    if let Some(version) = negotiate::discovery(&call.head.headers) {
        return Ok(aggregated(call, version, true));
    }
    let accept = negotiate::accept(&call.head.headers)?;
    let value = json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    });
    reply::value(200, accept.encoding, &value)
}

/// `/apis`.
pub(super) fn groups(call: &Call<'_>) -> Result<Response<ResponseBody>, Status> {
    if let Some(version) = negotiate::discovery(&call.head.headers) {
        return Ok(aggregated(call, version, false));
    }
    let accept = negotiate::accept(&call.head.headers)?;
    let groups: Vec<Value> = named_groups(call.service.cluster())
        .iter()
        .map(|(group, versions)| api_group(group, versions))
        .collect();
    let value = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    reply::value(200, accept.encoding, &value)
}

/// `/apis/<group>`.
pub(super) fn group(call: &Call<'_>, group: &str) -> Response<ResponseBody> {
    let groups = named_groups(call.service.cluster());
    let Some((_, versions)) = groups.iter().find(|(name, _)| name == group) else {
        return reply::not_found();
    };
    let mut value = api_group(group, versions);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    reply::json(200, &value)
}

/// `/api/v1`, `/apis/<group>/<version>`.
pub(super) fn group_version(call: &Call<'_>, group: &str, version: &str) -> Response<ResponseBody> {
    let versions = served(call.service.cluster());
    let Some(resources) = versions.get(&(group.to_owned(), version.to_owned())) else {
        return reply::not_found();
    };
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let list: Vec<Value> = resources.iter().flat_map(|resource| resource.legacy()).collect();
    reply::json(
        200,
        &json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": list,
        }),
    )
}

/// Every group and version that is served.
pub(super) fn group_versions(cluster: &Cluster) -> Vec<(String, String)> {
    served(cluster).into_keys().collect()
}

fn aggregated(call: &Call<'_>, version: &str, core: bool) -> Response<ResponseBody> {
    let served = served(call.service.cluster());
    let mut groups = named_groups(call.service.cluster());
    if core {
        groups = vec![(String::new(), vec!["v1".to_owned()])];
    }
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources = &served[&(group.clone(), version.clone())];
                    let resources: Vec<Value> =
                        resources.iter().filter_map(Resource::aggregated).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    let content_type = match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    cached(call, content_type, body.to_string())
}

/// A document with its tag, or 304 if the client has it already.
pub(super) fn cached(
    call: &Call<'_>,
    content_type: &'static str,
    body: String,
) -> Response<ResponseBody> {
    let tag = format!("\"{}\"", fingerprint(body.as_bytes()));
    let known = call.head.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known.is_some_and(|known| known.contains(&tag)) {
        reply::with(304, content_type, ResponseBody::whole(""))
    } else {
        reply::with(200, content_type, ResponseBody::whole(body))
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

/// A short name for content: FNV-1a, in hexadecimal.
pub(super) fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// A resource with its subresources, as discovery tells of it.
struct Resource {
    kind: Kind,
    verbs: Vec<&'static str>,
    subresources: Vec<Subresource>,
}

struct Subresource {
    name: &'static str,
    group: String,
    version: String,
    kind: String,
    verbs: &'static [&'static str],
}

impl Resource {
    fn of(kind: &Kind, version: &str) -> Self {
        let verbs = VERBS
            .iter()
            .copied()
            .filter(|verb| match *verb {
                "get" | "list" | "watch" => true,
                "deletecollection" => !kind.read_only && kind.plural != "namespaces",
                _ => !kind.read_only,
            })
            .collect();
        let mut subresources: Vec<Subresource> = SUBRESOURCES
            .iter()
            .filter(|(group, plural, ..)| *group == kind.group && *plural == kind.plural)
            .map(|&(_, _, name, group, version, kind, verbs)| Subresource {
                name,
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                verbs,
            })
            .collect();
        if kind.status {
            subresources.push(Subresource {
                name: "status",
                group: kind.group.clone(),
                version: version.to_owned(),
                kind: kind.kind.clone(),
                verbs: STATUS_VERBS,
            });
        }
        if kind.scale {
            subresources.push(Subresource {
                name: "scale",
                group: "autoscaling".into(),
                version: "v1".into(),
                kind: "Scale".into(),
                verbs: STATUS_VERBS,
            });
        }
        subresources.sort_by_key(|subresource| subresource.name);
        Self { kind: kind.clone(), verbs, subresources }
    }

    /// Entries of an `APIResourceList`.
    fn legacy(&self) -> Vec<Value> {
        let kind = &self.kind;
        let mut entries = Vec::new();
        if !self.verbs.is_empty() {
            let mut entry = json!({
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": self.verbs,
            });
            if !kind.short_names.is_empty() {
                entry["shortNames"] = json!(kind.short_names);
            }
            if !kind.categories.is_empty() {
                entry["categories"] = json!(kind.categories);
            }
            entries.push(entry);
        }
        for subresource in &self.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", kind.plural, subresource.name),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": subresource.kind,
                "verbs": subresource.verbs,
            });
            if subresource.group != kind.group {
                entry["group"] = subresource.group.as_str().into();
                entry["version"] = subresource.version.as_str().into();
            }
            entries.push(entry);
        }
        entries
    }

    /// Entry of an `APIGroupDiscoveryList`.
    fn aggregated(&self) -> Option<Value> {
        let kind = &self.kind;
        let own = kind.custom.is_some();
        let response = |group: &str, version: &str, name: &str| {
            let foreign = group != kind.group;
            let (group, version) = if own || foreign { (group, version) } else { ("", "") };
            json!({"group": group, "version": version, "kind": name})
        };
        let mut entry = json!({
            "resource": kind.plural,
            "responseKind": response(&kind.group, &kind.version, &kind.kind),
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": kind.singular,
            "verbs": self.verbs,
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        let subresources: Vec<Value> = self
            .subresources
            .iter()
            .map(|subresource| {
                let Subresource { name, group, version, kind, verbs } = subresource;
                let response = response(group, version, kind);
                json!({"subresource": name, "responseKind": response, "verbs": verbs})
            })
            .collect();
        if !subresources.is_empty() {
            entry["subresources"] = subresources.into();
        }
        Some(entry)
    }
}

/// Everything that is served, by group and version.
fn served(cluster: &Cluster) -> BTreeMap<(String, String), Vec<Resource>> {
    let mut served: BTreeMap<(String, String), Vec<Resource>> = BTreeMap::new();
    for kind in cluster.kinds() {
        let mut add = |group: &str, version: &str| {
            let shown = Kind { group: group.into(), version: version.into(), ..Kind::clone(&kind) };
            let key = (group.to_owned(), version.to_owned());
            served.entry(key).or_default().push(Resource::of(&shown, version));
        };
        match &kind.custom {
            Some(custom) => custom.served.iter().for_each(|version| add(&kind.group, version)),
            None => {
                add(&kind.group, &kind.version);
                for (group, version) in View::versions(&kind) {
                    add(group, version);
                }
            }
        }
    }
    for &(group, version, kind, plural, namespaced) in REVIEWS {
        let shown = Kind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_ascii_lowercase(),
            namespaced,
            ..Kind::default()
        };
        let resource = Resource { kind: shown, verbs: vec!["create"], subresources: Vec::new() };
        let key = (group.to_owned(), version.to_owned());
        served.entry(key).or_default().push(resource);
    }
    served.values_mut().for_each(|list| list.sort_by(|a, b| a.kind.plural.cmp(&b.kind.plural)));
    served
}

/// Groups but the core's, with their versions, the preferred one first.
fn named_groups(cluster: &Cluster) -> Vec<(String, Vec<String>)> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, version) in served(cluster).into_keys() {
        if !group.is_empty() {
            groups.entry(group).or_default().push(version);
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(group, _)| {
        ORDER.iter().position(|known| known == group).unwrap_or(ORDER.len())
    });
    groups
}

/// Order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, and others last. Source: apimachinery
/// `pkg/version/helpers.go`.
fn priority(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let parsed = if let Some((major, minor)) = rest.split_once("beta") {
        number(major).zip(number(minor)).map(|(major, minor)| (2, major, minor))
    } else if let Some((major, minor)) = rest.split_once("alpha") {
        number(major).zip(number(minor)).map(|(major, minor)| (1, major, minor))
    } else {
        number(rest).map(|major| (3, major, 0))
    };
    parsed.unwrap_or((0, 0, 0))
}

fn api_group(group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
}
