//! Services. Source: `validateService`, `ValidateServiceUpdate`.

use std::collections::BTreeSet;

use serde_json::json;

use super::container::port as port_or_name;
use super::metadata::labels;
use super::place::Place;
use super::{Errors, names};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn service(root: Place, errors: &mut Errors) {
    let spec = root.child("spec");
    let kind = spec.child("type").text();
    let headless = spec.child("clusterIP").text() == "None";
    if spec.list("ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(spec.child("ports").required(""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            if let Some(first) = spec.items("clusterIPs").next() {
                let why = format!("may not be set to 'None' for {kind} services");
                errors.push(first.invalid(&why));
            }
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies"] {
                if !spec.list(field).is_empty() {
                    let why = "may not be set for ExternalName services";
                    errors.push(spec.child(field).forbidden(why));
                }
            }
            let name = spec.child("externalName");
            match name.text().trim_end_matches('.') {
                "" => errors.push(name.required("")),
                text => name.each(names::dns_subdomain(text), errors),
            }
        }
        _ => {}
    }
    ports(spec, errors);
    labels(spec.child("selector"), errors);
    spec.child("sessionAffinity").one_of(&["ClientIP", "None"], errors);
    let timeout = spec.child("sessionAffinityConfig");
    let timeout = timeout.child("clientIP");
    let timeout = timeout.child("timeoutSeconds");
    if timeout.number().is_some_and(|seconds| !(1..=86_400).contains(&seconds)) {
        errors.push(timeout.invalid("must be greater than 0 and less than 86400"));
    }
    let first = spec.list("clusterIPs").first();
    let ip = spec.child("clusterIP");
    if kind != "ExternalName" {
        match first {
            Some(first) if ip.text().is_empty() && first != "" => {
                let why = "must be empty when `clusterIP` is not specified";
                errors.push(spec.child("clusterIPs").invalid(why));
            }
            Some(first) if first != ip.value => {
                errors.push(spec.child("clusterIPs").invalid("first value must match `clusterIP`"));
            }
            _ => {}
        }
        for address in spec.items("clusterIPs") {
            if address.text() != "None" && address.text().parse::<std::net::IpAddr>().is_err() {
                let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.push(address.invalid(why));
            }
        }
    }
    spec.child("type").one_of(&TYPES, errors);
    if kind != "LoadBalancer" && spec.child("allocateLoadBalancerNodePorts").is_set() {
        let why = "may only be used when `type` is 'LoadBalancer'";
        errors.push(spec.child("allocateLoadBalancerNodePorts").forbidden(why));
    }
    let class = spec.child("loadBalancerClass");
    if class.is_set() && kind != "LoadBalancer" {
        errors.push(class.forbidden("may only be used when `type` is 'LoadBalancer'"));
    }
    if spec.child("internalTrafficPolicy").is_set() {
        spec.child("internalTrafficPolicy").one_of(&["Cluster", "Local"], errors);
    }
}

fn ports(spec: Place, errors: &mut Errors) {
    let several = spec.list("ports").len() > 1;
    let mut names_seen = BTreeSet::new();
    let mut node_ports = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for at in spec.items("ports") {
        let name = at.child("name");
        if several && name.text().is_empty() {
            errors.push(name.required(""));
        } else if !name.text().is_empty() {
            name.each(names::dns_label(name.text()), errors);
            if !names_seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
        }
        let number = at.child("port");
        let value = number.number().unwrap_or(0);
        number.showing(&json!(value)).each(names::port_number(value), errors);
        let protocol = at.child("protocol");
        protocol.one_of(&["SCTP", "TCP", "UDP"], errors);
        port_or_name(at.child("targetPort"), errors);
        let node_port = at.child("nodePort");
        let node_value = node_port.number().unwrap_or(0);
        if node_value != 0 {
            if spec.child("type").text() == "ClusterIP" {
                errors.push(node_port.forbidden("may not be used when `type` is 'ClusterIP'"));
            }
            if !node_ports.insert((protocol.text(), node_value)) {
                errors.push(node_port.duplicate());
            }
        }
        if !numbers.insert((protocol.text(), value)) {
            let key = json!({"port": value, "protocol": protocol.text()});
            errors.push(at.showing(&key).duplicate());
        }
    }
}

/// An address, once given, stays.
pub(super) fn update(root: Place, old: Place, errors: &mut Errors) {
    let (spec, old_spec) = (root.child("spec"), old.child("spec"));
    let external = |spec: Place| spec.child("type").text() == "ExternalName";
    if external(spec) || external(old_spec) {
        return;
    }
    let (new, before) = (spec.list("clusterIPs"), old_spec.list("clusterIPs"));
    let all = spec.child("clusterIPs");
    match (new.first(), before.first()) {
        (Some(new), Some(before)) if new != before => {
            if let Some(first) = spec.items("clusterIPs").next() {
                errors.push(first.showing(all.value).invalid("may not change once set"));
            }
        }
        (None, Some(_)) => errors.push(all.invalid("primary clusterIP can not be unset")),
        _ => {}
    }
    let class = spec.child("loadBalancerClass");
    let class_before = old_spec.child("loadBalancerClass");
    if class_before.is_set()
        && class.value != class_before.value
        && spec.child("type").text() == "LoadBalancer"
    {
        errors.push(class.invalid("may not change once set"));
    }
}
