//! Services, their endpoints, ingresses and policies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::selector::{labels, selector_or_none};
use super::{AGE, NAME, Printer, age, list, name, number, some_of, text};

/// How many hosts, ports or addresses a cell shows.
const SHOWN: usize = 3;

pub(super) const SERVICE: Printer = Printer {
    columns: &[
        NAME,
        ("Type", "string", 0, "How it is reached."),
        ("Cluster-IP", "string", 0, "Address within the cluster."),
        ("External-IP", "string", 0, "Addresses from outside."),
        ("Port(s)", "string", 0, "Ports, with those on nodes."),
        AGE,
        ("Selector", "string", 1, "Labels of its pods."),
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let ports: Vec<String> = list(&spec["ports"])
            .iter()
            .map(|port| {
                let (number_, protocol) = (number(&port["port"]), text(&port["protocol"], ""));
                match number(&port["nodePort"]) {
                    0 => format!("{number_}/{protocol}"),
                    node => format!("{number_}:{node}/{protocol}"),
                }
            })
            .collect();
        let ports = if ports.is_empty() { "<none>".into() } else { ports.join(",") };
        vec![
            name(object),
            text(&spec["type"], "").into(),
            text(&spec["clusterIPs"][0], "<none>").into(),
            external(object).into(),
            ports.into(),
            age::of(object, now).into(),
            labels(&spec["selector"]).into(),
        ]
    },
};

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let own: Vec<String> =
        list(&spec["externalIPs"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let (mut all, instead) = match text(&spec["type"], "") {
        "ExternalName" => return text(&spec["externalName"], "").into(),
        "LoadBalancer" => (balancers(service), "<pending>"),
        "ClusterIP" | "NodePort" => (Vec::new(), "<none>"),
        _ => return "<unknown>".into(),
    };
    all.extend(own);
    if all.is_empty() { instead.into() } else { all.join(",") }
}

/// Addresses or host names of the load balancers in front.
fn balancers(object: &Value) -> Vec<String> {
    let entries = list(&object["status"]["loadBalancer"]["ingress"]).iter();
    let addresses: BTreeSet<String> = entries
        .map(|entry| text(&entry["ip"], text(&entry["hostname"], "")).to_owned())
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect()
}

pub(super) const ENDPOINTS: Printer = Printer {
    columns: &[NAME, ("Endpoints", "string", 0, "Addresses and ports."), AGE],
    cells: |object, now| {
        let mut all = Vec::new();
        for subset in list(&object["subsets"]) {
            let addresses =
                || list(&subset["addresses"]).iter().map(|address| text(&address["ip"], ""));
            let ports = list(&subset["ports"]);
            if ports.is_empty() {
                all.extend(addresses().map(str::to_owned));
            }
            for port in ports {
                let port = number(&port["port"]);
                all.extend(addresses().map(|ip| match ip.contains(':') {
                    true => format!("[{ip}]:{port}"),
                    false => format!("{ip}:{port}"),
                }));
            }
        }
        let none = list(&object["subsets"]).is_empty();
        let text = if none { "<none>".into() } else { some_of(&all, SHOWN, ",") };
        vec![name(object), text.into(), age::of(object, now).into()]
    },
};

pub(super) const ENDPOINT_SLICE: Printer = Printer {
    columns: &[
        NAME,
        ("AddressType", "string", 0, "What its addresses are."),
        ("Ports", "string", 0, "Ports of every endpoint."),
        ("Endpoints", "string", 0, "Addresses."),
        AGE,
    ],
    cells: |object, now| {
        let ports: Vec<String> = list(&object["ports"])
            .iter()
            .map(|port| match port["port"].as_i64() {
                Some(number) => number.to_string(),
                None => port["name"].as_str().unwrap_or("*").to_owned(),
            })
            .collect();
        let endpoints = list(&object["endpoints"]).iter();
        let addresses: Vec<String> = endpoints
            .flat_map(|endpoint| list(&endpoint["addresses"]))
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let shown = |all: &[String]| match some_of(all, SHOWN, ",") {
            text if text.is_empty() => "<unset>".to_owned(),
            text => text,
        };
        vec![
            name(object),
            text(&object["addressType"], "").into(),
            shown(&ports).into(),
            shown(&addresses).into(),
            age::of(object, now).into(),
        ]
    },
};

pub(super) const INGRESS: Printer = Printer {
    columns: &[
        NAME,
        ("Class", "string", 0, "Ingress class that serves it."),
        ("Hosts", "string", 0, "Hosts of its rules."),
        ("Address", "string", 0, "Addresses of its load balancers."),
        ("Ports", "string", 0, "Ports that are open."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let tls = !list(&spec["tls"]).is_empty();
        vec![
            name(object),
            text(&spec["ingressClassName"], "<none>").into(),
            hosts(list(&spec["rules"])).into(),
            balancers(object).join(",").into(),
            if tls { "80, 443" } else { "80" }.into(),
            age::of(object, now).into(),
        ]
    },
};

/// Rules beyond the shown hosts count as more, those without a host too.
fn hosts(rules: &[Value]) -> String {
    let (mut shown, mut more) = (Vec::new(), false);
    for rule in rules {
        more |= shown.len() == SHOWN;
        let host = text(&rule["host"], "");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    if shown.is_empty() {
        "*".into()
    } else if more {
        format!("{} + {} more...", shown.join(","), rules.len() - SHOWN)
    } else {
        shown.join(",")
    }
}

pub(super) const INGRESS_CLASS: Printer = Printer {
    columns: &[
        NAME,
        ("Controller", "string", 0, "Who handles it."),
        ("Parameters", "string", 0, "An object with more about it."),
        AGE,
    ],
    cells: |object, now| {
        let mut shown = text(&object["metadata"]["name"], "").to_owned();
        let annotations = &object["metadata"]["annotations"];
        if annotations["ingressclass.kubernetes.io/is-default-class"] == "true" {
            shown.push_str(" (default)");
        }
        let parameters = &object["spec"]["parameters"];
        let reference = if parameters.is_object() {
            let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}"));
            let kind = text(&parameters["kind"], "");
            format!("{kind}{}/{}", group.unwrap_or_default(), text(&parameters["name"], ""))
        } else {
            "<none>".into()
        };
        vec![
            shown.into(),
            text(&object["spec"]["controller"], "").into(),
            reference.into(),
            age::of(object, now).into(),
        ]
    },
};

pub(super) const NETWORK_POLICY: Printer = Printer {
    columns: &[NAME, ("Pod-Selector", "string", 0, "Pods that it is for."), AGE],
    cells: |object, now| {
        let pods = selector_or_none(&object["spec"]["podSelector"]);
        vec![name(object), pods.into(), age::of(object, now).into()]
    },
};
