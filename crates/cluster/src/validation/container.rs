//! Containers: names, images, ports, environment, mounts, probes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::place::Place;
use super::{Errors, names, resources};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// Fields of a pod that its environment may show.
const FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The regular containers of a pod spec.
pub(super) fn containers(spec: Place, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    if spec.list("containers").is_empty() {
        errors.push(spec.child("containers").required(""));
        return;
    }
    let mut seen = BTreeSet::new();
    for at in spec.items("containers") {
        common(at, volumes, errors);
        let name = at.child("name");
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        lifecycle(at, grace(spec), errors);
        for field in PROBES {
            probe(at.child(field), field, grace(spec), errors);
        }
    }
    unique_host_ports(spec.items("containers"), errors);
}

/// The init containers; those that restart always are sidecars, and may have probes.
pub(super) fn init_containers(spec: Place, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let mut seen: BTreeSet<&str> =
        spec.list("containers").iter().filter_map(|other| other["name"].as_str()).collect();
    for at in spec.items("initContainers") {
        common(at, volumes, errors);
        let policy = at.child("restartPolicy");
        let sidecar = policy.text() == "Always";
        let name = at.child("name");
        if !name.text().is_empty() && !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        unique_host_ports(std::iter::once(at), errors);
        if sidecar {
            lifecycle(at, grace(spec), errors);
            for field in PROBES {
                probe(at.child(field), field, grace(spec), errors);
            }
            continue;
        }
        for field in ["lifecycle"].iter().chain(&PROBES) {
            let field = at.child(field);
            if field.is_set() {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(field.forbidden(why));
            }
        }
    }
}

fn grace(spec: Place) -> Option<i64> {
    spec.value["terminationGracePeriodSeconds"].as_i64()
}

fn common(at: Place, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let name = at.child("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        name.each(names::dns_label(name.text()), errors);
    }
    if at.child("image").text().is_empty() {
        errors.push(at.child("image").required(""));
    }
    at.child("terminationMessagePolicy").one_of(&["File", "FallbackToLogsOnError"], errors);
    ports(at, errors);
    for variable in at.items("env") {
        let name = variable.child("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else {
            name.each(names::env_name(name.text()), errors);
        }
        value_from(variable, errors);
    }
    env_from(at, errors);
    mounts(at, volumes, errors);
    at.child("imagePullPolicy").one_of(&["Always", "IfNotPresent", "Never"], errors);
    resources::requirements(at.child("resources"), resources::container_name, errors);
}

fn ports(at: Place, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in at.items("ports") {
        let name = port.child("name");
        if !name.text().is_empty() {
            let problems = names::port_name(name.text());
            if problems.is_empty() && !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
            name.each(problems, errors);
        }
        let number = port.child("containerPort");
        match number.number() {
            None | Some(0) => errors.push(number.required("")),
            Some(value) => number.each(names::port_number(value), errors),
        }
        let host = port.child("hostPort");
        if let Some(value) = host.number().filter(|value| *value != 0) {
            host.each(names::port_number(value), errors);
        }
        port.child("protocol").one_of(&PROTOCOLS, errors);
    }
}

/// No two containers listen on the same port of the host.
fn unique_host_ports<'p, 'v: 'p>(
    containers: impl Iterator<Item = Place<'p, 'v>>,
    errors: &mut Errors,
) {
    let mut seen = BTreeSet::new();
    for at in containers {
        for port in at.items("ports") {
            let host = port.child("hostPort");
            let Some(number) = host.number().filter(|number| *number != 0) else { continue };
            let (protocol, ip) = (port.child("protocol").text(), port.child("hostIP").text());
            let taken = format!("{protocol}/{ip}/{number}");
            if seen.contains(&taken) {
                errors.push(host.showing(&Value::from(taken)).duplicate());
            } else {
                seen.insert(taken);
            }
        }
    }
}

fn value_from(variable: Place, errors: &mut Errors) {
    let at = variable.child("valueFrom");
    if !at.is_set() {
        return;
    }
    let fields = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let sources = fields.iter().filter(|field| at.child(field).is_set()).count();
    let field_path = at.child("fieldRef");
    let path = field_path.child("fieldPath");
    if field_path.is_set() {
        if path.text().is_empty() {
            errors.push(path.required(""));
        } else if !path.text().contains('[') && !FIELD_PATHS.contains(&path.text()) {
            errors.push(path.not_supported(&FIELD_PATHS));
        }
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        let reference = at.child(field);
        if reference.is_set() {
            for part in ["name", "key"] {
                if reference.child(part).text().is_empty() {
                    errors.push(reference.child(part).required(""));
                }
            }
        }
    }
    let empty = Value::from("");
    let at = at.showing(&empty);
    if sources == 0 {
        errors.push(at.invalid(
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`",
        ));
    } else if !variable.child("value").text().is_empty() {
        errors.push(at.invalid("may not be specified when `value` is not empty"));
    } else if sources > 1 {
        errors.push(at.invalid("may not have more than one field specified at a time"));
    }
}

fn env_from(at: Place, errors: &mut Errors) {
    let empty = Value::from("");
    let whole = at.child("envFrom").showing(&empty);
    for source in at.items("envFrom") {
        let prefix = source.child("prefix");
        if !prefix.text().is_empty() {
            prefix.each(names::env_name(prefix.text()), errors);
        }
        let (config, secret) = (source.child("configMapRef"), source.child("secretRef"));
        for reference in [config, secret].into_iter().filter(Place::is_set) {
            let name = reference.child("name");
            if name.text().is_empty() {
                errors.push(name.required(""));
            }
        }
        match (config.is_set(), secret.is_set()) {
            (false, false) => {
                errors.push(whole.invalid("must specify one of: `configMapRef` or `secretRef`"));
            }
            (true, true) => {
                errors.push(whole.invalid("may not have more than one field specified at a time"));
            }
            _ => {}
        }
    }
}

fn mounts(at: Place, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for mount in at.items("volumeMounts") {
        let (name, path) = (mount.child("name"), mount.child("mountPath"));
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        if !volumes.contains(name.text()) {
            errors.push(name.not_found());
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if !seen.insert(path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        if !mount.child("subPath").text().is_empty()
            && !mount.child("subPathExpr").text().is_empty()
        {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.push(mount.child("subPathExpr").invalid(why));
        }
    }
}

fn lifecycle(at: Place, grace: Option<i64>, errors: &mut Errors) {
    let lifecycle = at.child("lifecycle");
    for field in ["postStart", "preStop"] {
        let hook = lifecycle.child(field);
        if hook.is_set() {
            handler(hook, grace, errors);
        }
    }
}

fn probe(at: Place, field: &str, grace: Option<i64>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    handler(at, grace, errors);
    for number in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        at.child(number).nonnegative(errors);
    }
    let own_grace = at.child("terminationGracePeriodSeconds");
    if field == "readinessProbe" {
        if own_grace.is_set() {
            errors.push(own_grace.invalid("must not be set for readinessProbes"));
        }
    } else {
        if own_grace.number().is_some_and(|seconds| seconds <= 0) {
            errors.push(own_grace.invalid("must be greater than 0"));
        }
        let successes = at.child("successThreshold");
        if successes.number().is_some_and(|number| number != 1) {
            errors.push(successes.invalid("must be 1"));
        }
    }
}

/// What a probe or hook does: exactly one thing.
fn handler(at: Place, grace: Option<i64>, errors: &mut Errors) {
    let mut first = true;
    for field in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = at.child(field);
        if !action.is_set() {
            continue;
        }
        if !first {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        first = false;
        match field {
            "exec" if action.list("command").is_empty() => {
                errors.push(action.child("command").required(""));
            }
            "httpGet" => {
                port(action.child("port"), errors);
                action.child("scheme").one_of(&["HTTP", "HTTPS"], errors);
            }
            "tcpSocket" | "grpc" => port(action.child("port"), errors),
            "sleep" => {
                let seconds = action.child("seconds").number().unwrap_or(0);
                if let Some(grace) = grace
                    && !(0..=grace).contains(&seconds)
                {
                    let why = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    errors.push(action.showing(&Value::from(seconds)).invalid(&why));
                }
            }
            _ => {}
        }
    }
    if first {
        errors.push(at.required("must specify a handler type"));
    }
}

/// A port by number or by name.
pub(super) fn port(at: Place, errors: &mut Errors) {
    match at.value {
        Value::String(name) => at.each(names::port_name(name), errors),
        _ => at.each(names::port_number(at.number().unwrap_or(0)), errors),
    }
}
