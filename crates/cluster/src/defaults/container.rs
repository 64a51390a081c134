//! Containers: images, ports, environment, probes, hooks.

use serde_json::{Map, Value};

use super::{default, default_nonzero, entry, items, member, quantities};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

pub(super) fn container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = pull_policy(image);
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    if let Some(resources) = entry(container, "resources") {
        quantities(resources, "limits");
        quantities(resources, "requests");
    }
    for port in items(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        let Some(source) = member(variable, "valueFrom") else { continue };
        if let Some(field) = member(source, "fieldRef") {
            default(field, "apiVersion", "v1");
        }
        if let Some(resource) = member(source, "resourceFieldRef") {
            default(resource, "divisor", "0");
        }
        if let Some(file) = member(source, "fileKeyRef") {
            default(file, "optional", false);
        }
    }
    for name in PROBES {
        if let Some(probe) = member(container, name) {
            default_nonzero(probe, "timeoutSeconds", 1);
            default_nonzero(probe, "periodSeconds", 10);
            default_nonzero(probe, "successThreshold", 1);
            default_nonzero(probe, "failureThreshold", 3);
            handler(probe);
        }
    }
    if let Some(lifecycle) = member(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = member(lifecycle, hook) {
                handler(hook);
            }
        }
    }
}

/// What a probe or hook does.
fn handler(action: &mut Map<String, Value>) {
    if let Some(get) = member(action, "httpGet") {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
    if let Some(grpc) = member(action, "grpc")
        && !grpc.contains_key("service")
    {
        grpc.insert("service".into(), "".into());
    }
}

/// Images that may change behind their tag are always pulled. Source: `pkg/util/parsers`.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let (named, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = named.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if !digest => "Always",
        _ => "IfNotPresent",
    }
}
