//! LimitRanger. Source: `plugin/pkg/admission/limitranger/admission.go`.

use std::sync::Arc;

use aerostat_api::Quantity;
use serde_json::{Map, Value, json};

use super::{forbidden, list};
use crate::kinds::Kind;
use crate::registry::Cluster;
use crate::status::Status;
use crate::store::Object;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn ranges(cluster: &Cluster, namespace: &str) -> Vec<Arc<Object>> {
    let resource = (String::new(), "limitranges".to_owned());
    cluster.store().list(&resource, namespace).0
}

fn limits_of<'a>(ranges: &'a [Arc<Object>], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    ranges
        .iter()
        .flat_map(|range| list(&range.value["spec"], "limits"))
        .filter(move |limit| limit["type"] == kind)
}

/// Gives containers the default requests and limits of the namespace.
pub(super) fn fill(cluster: &Cluster, namespace: &str, pod: &mut Value) {
    let ranges = ranges(cluster, namespace);
    let mut done = Vec::new();
    for limit in limits_of(&ranges, "Container") {
        for (field, shown) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = pod["spec"].get_mut(field).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter(|c| c.is_object()) {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                let sides =
                    [("requests", "defaultRequest", "request"), ("limits", "default", "limit")];
                for (side, from, word) in sides {
                    let set = merge(&mut container["resources"][side], &limit[from]);
                    if !set.is_empty() {
                        done.push(format!("{} {word} for {shown} {name}", set.join(", ")));
                    }
                }
            }
        }
    }
    if !done.is_empty() {
        pod["metadata"]["annotations"][ANNOTATION] =
            format!("LimitRanger plugin set: {}", done.join("; ")).into();
    }
}

/// Adds what is missing; says what that was.
fn merge(to: &mut Value, from: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in from.as_object().into_iter().flatten() {
        if to[name].is_null() {
            to[name] = amount.clone();
            set.push(name.clone());
        }
    }
    set
}

/// Holds a pod and its containers against the bounds of the namespace.
pub(super) fn check_pod(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    pod: &Value,
) -> Result<(), Status> {
    let ranges = ranges(cluster, namespace);
    if ranges.is_empty() {
        return Ok(());
    }
    let mut wrong = Vec::new();
    let spec = &pod["spec"];
    for limit in limits_of(&ranges, "Container") {
        for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
            let resources = &container["resources"];
            bounds(
                "Container",
                limit,
                &resources["requests"],
                Some(&resources["limits"]),
                &mut wrong,
            );
        }
    }
    for limit in limits_of(&ranges, "Pod") {
        let (requests, limits) = (pod_total(spec, "requests"), pod_total(spec, "limits"));
        bounds("Pod", limit, &requests, Some(&limits), &mut wrong);
    }
    refuse(kind, pod, wrong)
}

/// Holds a claim against the bounds of the namespace.
pub(super) fn check_claim(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    claim: &Value,
) -> Result<(), Status> {
    let ranges = ranges(cluster, namespace);
    let mut wrong = Vec::new();
    for limit in limits_of(&ranges, "PersistentVolumeClaim") {
        let requests = &claim["spec"]["resources"]["requests"];
        bounds("PersistentVolumeClaim", limit, requests, None, &mut wrong);
    }
    refuse(kind, claim, wrong)
}

fn refuse(kind: &Kind, value: &Value, mut wrong: Vec<String>) -> Result<(), Status> {
    let mut seen = std::collections::BTreeSet::new();
    wrong.retain(|text| seen.insert(text.clone()));
    match wrong.as_slice() {
        [] => Ok(()),
        [only] => Err(forbidden(kind, value, only)),
        all => Err(forbidden(kind, value, &format!("[{}]", all.join(", ")))),
    }
}

/// Adds what breaks `limit`. Without `limits` only requests are looked at, as for claims.
fn bounds(
    of: &str,
    limit: &Value,
    requests: &Value,
    limits: Option<&Value>,
    wrong: &mut Vec<String>,
) {
    let parse = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    let bound = |field: &str| {
        let map = limit[field].as_object().cloned().unwrap_or_default();
        map.into_iter().filter_map(move |(name, bound)| {
            let bound = bound.as_str()?.parse::<Quantity>().ok()?;
            Some((name, bound))
        })
    };
    let no_limits = Value::Null;
    let limits_or_none = limits.unwrap_or(&no_limits);
    for (name, min) in bound("min") {
        let (request, limit) = (parse(&requests[&name]), parse(&limits_or_none[&name]));
        let head = format!("minimum {name} usage per {of} is {min}");
        match (request, limit) {
            (None, _) => wrong.push(format!("{head}.  No request is specified")),
            (Some(r), _) if r < min => wrong.push(format!("{head}, but request is {r}")),
            (_, Some(l)) if l < min => wrong.push(format!("{head}, but limit is {l}")),
            _ => {}
        }
    }
    for (name, max) in bound("max") {
        let (request, limit) = (parse(&requests[&name]), parse(&limits_or_none[&name]));
        let head = format!("maximum {name} usage per {of} is {max}");
        match (request, limit) {
            (None, _) if limits.is_none() => {
                wrong.push(format!("{head}.  No request is specified"));
            }
            (_, None) if limits.is_some() => wrong.push(format!("{head}.  No limit is specified")),
            (_, Some(l)) if l > max => wrong.push(format!("{head}, but limit is {l}")),
            (Some(r), _) if r > max => wrong.push(format!("{head}, but request is {r}")),
            _ => {}
        }
    }
    for (name, ratio) in bound("maxLimitRequestRatio").filter(|_| limits.is_some()) {
        let head = format!("{name} max limit to request ratio per {of} is {ratio}");
        let nonzero = |value: &Value| parse(value).filter(|amount| !amount.is_zero());
        match (nonzero(&requests[&name]), nonzero(&limits_or_none[&name])) {
            (None, _) => {
                wrong.push(format!("{head}, but no request is specified or request is 0"));
            }
            (_, None) => wrong.push(format!("{head}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let provided = limit.milli() as f64 / request.milli() as f64;
                if provided * 1000.0 > ratio.milli() as f64 {
                    wrong.push(format!("{head}, but provided ratio is {provided:.6}"));
                }
            }
        }
    }
}

/// What a pod requests or limits as a whole: its containers and sidecars together, or more if its
/// init containers need more; what the pod says for itself wins.
pub(super) fn pod_total(spec: &Value, side: &str) -> Value {
    let amounts = |owner: &Value| -> Vec<(String, Quantity)> {
        let map = owner["resources"][side].as_object();
        map.into_iter()
            .flatten()
            .filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?)))
            .collect()
    };
    type Amounts = std::collections::BTreeMap<String, Quantity>;
    let add = |to: &mut Amounts, more: Vec<(String, Quantity)>| {
        for (name, amount) in more {
            let sum = to.get(&name).map_or(amount, |have| *have + amount);
            to.insert(name, sum);
        }
    };
    let (mut running, mut sidecars, mut peak) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in list(spec, "containers") {
        add(&mut running, amounts(container));
    }
    for container in list(spec, "initContainers") {
        let mut now = sidecars.clone();
        add(&mut now, amounts(container));
        if container["restartPolicy"] == "Always" {
            add(&mut running, amounts(container));
            sidecars = now.clone();
        }
        for (name, amount) in now {
            let most = peak.get(&name).map_or(amount, |have| (*have).max(amount));
            peak.insert(name, most);
        }
    }
    for (name, amount) in peak {
        let most = running.get(&name).map_or(amount, |have| (*have).max(amount));
        running.insert(name, most);
    }
    let own =
        amounts(spec).into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
    running.extend(own);
    let total: Map<String, Value> =
        running.into_iter().map(|(name, amount)| (name, json!(amount.to_string()))).collect();
    total.into()
}
