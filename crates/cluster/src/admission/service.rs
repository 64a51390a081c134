//! Cluster addresses and node ports of services. IPv4 only.
//!
//! Source of the rules: `pkg/registry/core/service/storage/alloc.go`. There an address is drawn at
//! random; here it follows from the service's UID, so that the cluster's seed decides.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::list;
use crate::registry::Cluster;
use crate::status::{FieldError, Status};
use crate::store::Object;

/// 10.96.0.0/16, as kubeadm has it.
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const NETWORK_TEXT: &str = "10.96.0.0/16";
const NETWORK_MASK: u32 = 0xffff_0000;
/// Addresses below are left to those who ask for one: 10.96.0.1 is the API server's.
const FIRST_DYNAMIC: u32 = 256;
const LAST: u32 = 65_534;
const NODE_PORTS: (u32, u32) = (30_000, 32_767);

/// Gives a new service its address and node ports.
pub(super) fn create(cluster: &Cluster, service: &mut Value) -> Result<(), Status> {
    if !service["spec"].is_object() {
        return Ok(());
    }
    let taken = Taken::by_others(cluster, service);
    address(service, &taken)?;
    node_ports(service, &taken)
}

/// Keeps what a service has been given where an update leaves it out, gives what is new.
pub(super) fn update(cluster: &Cluster, new: &mut Value, old: &Value) -> Result<(), Status> {
    if !new["spec"].is_object() {
        return Ok(());
    }
    if needs_address(old) && needs_address(new) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if is_empty(&new["spec"][field]) && !is_empty(&old["spec"][field]) {
                new["spec"][field] = old["spec"][field].clone();
            }
        }
    }
    if needs_node_ports(old) && needs_node_ports(new) {
        for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
            let same = |other: &&Value| {
                other["name"].as_str().unwrap_or_default()
                    == port["name"].as_str().unwrap_or_default()
            };
            if is_empty(&port["nodePort"])
                && let Some(before) = list(&old["spec"], "ports").iter().find(same)
                && !is_empty(&before["nodePort"])
            {
                port["nodePort"] = before["nodePort"].clone();
            }
        }
    }
    let taken = Taken::by_others(cluster, new);
    if new["spec"]["clusterIP"] != old["spec"]["clusterIP"] || !needs_address(old) {
        address(new, &taken)?;
    }
    node_ports(new, &taken)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

fn needs_address(service: &Value) -> bool {
    service["spec"]["type"] != "ExternalName"
}

fn needs_node_ports(service: &Value) -> bool {
    let kind = service["spec"]["type"].as_str().unwrap_or_default();
    kind == "NodePort"
        || (kind == "LoadBalancer" && service["spec"]["allocateLoadBalancerNodePorts"] != false)
}

/// Addresses and ports of all other services.
#[derive(Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u32>,
}

impl Taken {
    fn by_others(cluster: &Cluster, service: &Value) -> Self {
        let resource = (String::new(), "services".to_owned());
        let (services, _) = cluster.store().list(&resource, "");
        let mut taken = Self::default();
        let uid = service["metadata"]["uid"].as_str().unwrap_or_default();
        for other in services.iter().filter(|other| other.uid() != uid) {
            taken.add(other);
        }
        taken
    }

    fn add(&mut self, service: &Object) {
        let spec = &service.value["spec"];
        let address = spec["clusterIP"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
        self.addresses.extend(address.map(u32::from));
        let ports = list(spec, "ports").iter().filter_map(|port| port["nodePort"].as_u64());
        self.ports.extend(ports.filter_map(|port| u32::try_from(port).ok()));
    }
}

fn address(service: &mut Value, taken: &Taken) -> Result<(), Status> {
    let seed = seed_of(service);
    let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let invalid = |error: FieldError| Status::invalid("", "Service", &name, &[error]);
    let spec = &mut service["spec"];
    if spec["type"] == "ExternalName" {
        return Ok(());
    }
    let first = spec["clusterIPs"][0].as_str().unwrap_or_default();
    let asked = spec["clusterIP"].as_str().filter(|ip| !ip.is_empty()).unwrap_or(first).to_owned();
    let address = match asked.as_str() {
        "None" => "None".to_owned(),
        "" => {
            let free = free_in(FIRST_DYNAMIC, LAST, seed, |host| {
                !taken.addresses.contains(&(NETWORK + host))
            });
            let Some(host) = free else {
                let message =
                    format!("failed to allocate a serviceIP for Service {name:?}: range is full");
                return Err(Status::new(500, "InternalError", message));
            };
            Ipv4Addr::from(NETWORK + host).to_string()
        }
        asked => {
            let refuse = |why: String| {
                let why = format!("failed to allocate IP {asked}: {why}");
                invalid(FieldError::invalid("spec.clusterIPs", &json!([asked]), &why))
            };
            match asked.parse::<Ipv4Addr>().map(u32::from) {
                Ok(number) if number & NETWORK_MASK != NETWORK => {
                    return Err(refuse(format!(
                        "the provided IP ({asked}) is not in the valid range. The range of valid \
                         IPs is {NETWORK_TEXT}"
                    )));
                }
                Ok(number) if taken.addresses.contains(&number) => {
                    return Err(refuse("provided IP is already allocated".into()));
                }
                Ok(_) => asked.to_owned(),
                // No IPv4 address: validation has words for it.
                Err(_) => return Ok(()),
            }
        }
    };
    // Without a selector a headless service may be of any family, whatever the cluster has.
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let any_family = address == "None" && !selects;
    if is_empty(&spec["ipFamilyPolicy"]) {
        spec["ipFamilyPolicy"] = if any_family { "RequireDualStack" } else { "SingleStack" }.into();
    }
    if is_empty(&spec["ipFamilies"]) {
        let both = any_family && spec["ipFamilyPolicy"] != "SingleStack";
        spec["ipFamilies"] = if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
    } else if !any_family && list(spec, "ipFamilies").iter().any(|family| family == "IPv6") {
        let at = list(spec, "ipFamilies").iter().position(|family| family == "IPv6").unwrap_or(0);
        let field = format!("spec.ipFamilies[{at}]");
        let why = "not configured on this cluster";
        return Err(invalid(FieldError::invalid(field, &json!("IPv6"), why)));
    }
    if !any_family && spec["ipFamilyPolicy"] == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        let error = FieldError::invalid("spec.ipFamilyPolicy", &json!("RequireDualStack"), why);
        return Err(invalid(error));
    }
    spec["clusterIP"] = address.clone().into();
    if is_empty(&spec["clusterIPs"]) {
        spec["clusterIPs"] = json!([address]);
    }
    Ok(())
}

fn node_ports(service: &mut Value, taken: &Taken) -> Result<(), Status> {
    if !needs_node_ports(service) {
        return Ok(());
    }
    let seed = seed_of(service);
    let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut used = taken.ports.clone();
    let ports = service["spec"]["ports"].as_array_mut();
    for (i, port) in ports.into_iter().flatten().enumerate().filter(|(_, port)| port.is_object()) {
        let given = port["nodePort"].as_u64().unwrap_or(0);
        if given == 0 {
            let (first, last) = NODE_PORTS;
            let Some(free) = free_in(first, last, seed, |number| !used.contains(&number)) else {
                let message = "failed to allocate a nodePort: range is full";
                return Err(Status::new(500, "InternalError", message));
            };
            used.insert(free);
            port["nodePort"] = free.into();
            continue;
        }
        let number = u32::try_from(given).unwrap_or(u32::MAX);
        let why = if !(NODE_PORTS.0..=NODE_PORTS.1).contains(&number) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if taken.ports.contains(&number) {
            "provided port is already allocated"
        } else {
            used.insert(number);
            continue;
        };
        let field = format!("spec.ports[{i}].nodePort");
        let error = FieldError::invalid(field, &port["nodePort"], why);
        return Err(Status::invalid("", "Service", &name, &[error]));
    }
    Ok(())
}

/// A number that follows from the service's UID.
fn seed_of(service: &Value) -> u32 {
    let uid = service["metadata"]["uid"].as_str().unwrap_or_default();
    uid.get(..8).and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0)
}

/// The first free number of a range at or after the one that the seed points at, going round.
fn free_in(first: u32, last: u32, seed: u32, is_free: impl Fn(u32) -> bool) -> Option<u32> {
    let size = last - first + 1;
    (0..size).map(|step| first + (seed % size + step) % size).find(|number| is_free(*number))
}
