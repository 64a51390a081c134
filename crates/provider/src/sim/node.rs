//! The Node of a simulated machine, as its kubelet registers it.
//!
//! Names and versions are those of Auto Mode's nodes, brought up to the emulated Kubernetes; the
//! image's date and the build behind the version are made up.

use std::collections::BTreeMap;

use aerostat_api::{NodeClaim, Quantity, labels};
use aerostat_engine::instance::InstanceType;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::{Machine, kwok};
use crate::catalog::Flavor;

/// Says that a simulated kubelet plays this node.
pub(super) const PLAYED: &str = "sim.aerostat.dev/kubelet";
const KUBELET_VERSION: &str = "v1.36.3-eks-a1e2057";
const OS_IMAGE: &str = "Bottlerocket (EKS Auto, Standard) 2026.11.12 (aws-k8s-1.36-standard)";
const KERNEL: &str = "6.12.55";
const RUNTIME: &str = "containerd://2.1.5+bottlerocket";
/// What KWOK's nodes say of themselves.
const FAKE: &str = "fake";
const KWOK_VERSION: &str = "kwok-v0.8.0";

/// The machine image of a type: one for each architecture.
pub(super) fn image_id(kind: &InstanceType) -> String {
    let arm = kind.labels.get(labels::ARCH).is_some_and(|arch| arch == "arm64");
    if arm { "ami-0a1e205a700000a64" } else { "ami-0a1e205a700000d64" }.to_owned()
}

/// The name of a machine's Node.
pub(super) fn name(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or_default()
}

/// The Node of `machine`, not ready yet.
pub(super) fn of(machine: &Machine, flavor: Flavor, now: Timestamp) -> Node {
    let instance = &machine.instance;
    let name = name(&instance.provider_id);
    let (labels, annotations) = match flavor {
        Flavor::AutoMode => (
            node_labels(name, &instance.labels, &machine.claim),
            [(PLAYED.to_owned(), "true".to_owned())].into(),
        ),
        Flavor::Kwok => (kwok::node_labels(name, machine), kwok::node_annotations(machine)),
    };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(instance.provider_id.clone()),
            taints: Some(match flavor {
                Flavor::AutoMode => taints(&machine.claim),
                // The claim's own come when it is registered.
                Flavor::Kwok => vec![unregistered()],
            }),
            ..NodeSpec::default()
        }),
        status: Some(status(name, machine, flavor, now)),
    }
}

/// What the kubelet and the cloud say of a node, and what the claim asks for.
fn node_labels(
    name: &str,
    instance: &BTreeMap<String, String>,
    claim: &NodeClaim,
) -> BTreeMap<String, String> {
    let mut all = instance.clone();
    all.insert(labels::HOSTNAME.to_owned(), name.to_owned());
    all.insert("app.kubernetes.io/managed-by".to_owned(), "eks".to_owned());
    all.insert(labels::NODECLASS.to_owned(), claim.spec.node_class_ref.name.clone());
    for (old, new) in [
        ("beta.kubernetes.io/arch", labels::ARCH),
        ("beta.kubernetes.io/os", labels::OS),
        ("beta.kubernetes.io/instance-type", labels::INSTANCE_TYPE),
        ("failure-domain.beta.kubernetes.io/region", labels::REGION),
        ("failure-domain.beta.kubernetes.io/zone", labels::ZONE),
        ("topology.ebs.csi.eks.amazonaws.com/zone", labels::ZONE),
    ] {
        if let Some(value) = all.get(new).cloned() {
            all.insert(old.to_owned(), value);
        }
    }
    all.extend(claim.metadata.labels.clone().unwrap_or_default());
    all
}

fn taints(claim: &NodeClaim) -> Vec<Taint> {
    let asked = claim.spec.taints.iter().chain(&claim.spec.startup_taints).flatten();
    asked.cloned().chain([unregistered()]).collect()
}

fn unregistered() -> Taint {
    Taint {
        key: labels::UNREGISTERED_TAINT.to_owned(),
        effect: "NoExecute".to_owned(),
        ..Taint::default()
    }
}

fn status(name: &str, machine: &Machine, flavor: Flavor, now: Timestamp) -> NodeStatus {
    let instance = &machine.instance;
    let region = instance.labels.get(labels::REGION).map_or("", String::as_str);
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    let not_ready = NodeCondition {
        type_: "Ready".to_owned(),
        status: "False".to_owned(),
        reason: Some("KubeletNotReady".to_owned()),
        message: Some("container runtime status check may not have completed yet".to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    let mut addresses = vec![address("InternalIP", machine.address.to_string())];
    if flavor == Flavor::AutoMode {
        addresses.push(address("InternalDNS", format!("{name}.{region}.compute.internal")));
    }
    addresses.push(address("Hostname", name.to_owned()));
    NodeStatus {
        addresses: Some(addresses),
        capacity: Some(texts(&instance.capacity)),
        allocatable: Some(texts(&instance.allocatable)),
        conditions: Some(vec![not_ready]),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: 10250 }),
        }),
        node_info: Some(system_info(machine, flavor)),
        ..NodeStatus::default()
    }
}

fn system_info(machine: &Machine, flavor: Flavor) -> NodeSystemInfo {
    let [high, low, boot_high, boot_low] = machine.entropy;
    let label = |key: &str| machine.instance.labels.get(key).cloned().unwrap_or_default();
    if flavor == Flavor::Kwok {
        return NodeSystemInfo {
            architecture: label(labels::ARCH),
            operating_system: label(labels::OS),
            kubelet_version: KWOK_VERSION.to_owned(),
            container_runtime_version: KWOK_VERSION.to_owned(),
            kernel_version: FAKE.to_owned(),
            os_image: FAKE.to_owned(),
            ..NodeSystemInfo::default()
        };
    }
    // Like those of EC2, the machine's IDs begin with ec2.
    let machine_id = format!("ec2{:013x}{low:016x}", high >> 12);
    NodeSystemInfo {
        architecture: label(labels::ARCH),
        boot_id: uuid(&format!("{boot_high:016x}{boot_low:016x}")),
        container_runtime_version: RUNTIME.to_owned(),
        kernel_version: KERNEL.to_owned(),
        kubelet_version: KUBELET_VERSION.to_owned(),
        operating_system: label(labels::OS),
        os_image: OS_IMAGE.to_owned(),
        system_uuid: uuid(&machine_id),
        machine_id,
        ..NodeSystemInfo::default()
    }
}

/// 32 hexadecimal digits in the groups of a UUID.
fn uuid(digits: &str) -> String {
    let group = |from: usize, to: usize| &digits[from..to];
    [group(0, 8), group(8, 12), group(12, 16), group(16, 20), group(20, 32)].join("-")
}

fn texts(amounts: &BTreeMap<String, Quantity>) -> BTreeMap<String, resource::Quantity> {
    let text = |(name, amount): (&String, &Quantity)| {
        (name.clone(), resource::Quantity(amount.to_string()))
    };
    amounts.iter().map(text).collect()
}
