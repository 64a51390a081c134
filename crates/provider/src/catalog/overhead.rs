//! What a machine has and what it leaves to pods.
//!
//! The formulas are those of aws/karpenter-provider-aws `pkg/providers/instancetype/types.go`, for
//! Bottlerocket, the system of Auto Mode's nodes.

use aerostat_api::{Class, Quantity, labels};
use aerostat_engine::instance::InstanceType;
use aerostat_engine::resources::Resources;

use super::ec2::Shape;

pub(super) const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// Auto Mode never runs more pods on a node.
pub(super) const MAX_PODS: i64 = 110;
/// The data volume of a node, unless its class says otherwise.
pub(crate) const DATA_VOLUME: i64 = 80 * GIB;

/// What a machine of this shape has as its kubelet would report it, with at most `max_pods` pods
/// and a data volume of `volume` bytes.
pub(super) fn capacity(shape: &Shape, max_pods: i64, volume: i64) -> Resources {
    // The hypervisor and the kernel keep 7.5 %; arm64 machines 64 MiB besides.
    let memory = shape.memory_mib - if shape.arch == "arm64" { 64 } else { 0 };
    let memory = memory - (memory * 75 + 999) / 1000;
    // Local disks take the place of the volume if they are the larger.
    let disks = shape.local_nvme_gb.unwrap_or(0) * 1_000_000_000;
    let mut capacity = Resources {
        cpu: shape.vcpu * 1000,
        memory: memory * MIB,
        storage: disks.max(volume),
        // One address of each interface is its own; two pods use the host's network.
        pods: (shape.enis * (shape.ipv4_per_eni - 1) + 2).min(max_pods),
        ..Resources::default()
    };
    let neuron = ["inferentia", "trainium"].iter().any(|n| shape.accelerator_name.starts_with(n));
    let neurons = shape.accelerator_count.unwrap_or(0);
    let other = [
        (shape.gpu_manufacturer.as_str() == "nvidia", "nvidia.com/gpu", shape.gpu_count),
        (neuron, "aws.amazon.com/neuron", Some(neurons)),
        (neuron, "aws.amazon.com/neuroncore", shape.neuron_cores.map(|cores| cores * neurons)),
        (true, "vpc.amazonaws.com/efa", Some(shape.efa)),
    ];
    for (there, name, amount) in other {
        if let Some(amount) = amount.filter(|amount| there && *amount > 0) {
            capacity.other.insert(name.to_owned(), amount);
        }
    }
    capacity
}

/// What the kubelet keeps of `capacity`: for itself and the runtime, and so as not to run dry.
pub(super) fn reserved(capacity: &Resources) -> Resources {
    Resources {
        cpu: reserved_cpu(capacity.cpu),
        memory: (11 * capacity.pods + 255 + 100) * MIB,
        storage: GIB + capacity.storage / 10,
        ..Resources::default()
    }
}

/// The size of the data volume of a class, in bytes.
///
/// # Errors
///
/// Names the field if it is no size.
pub(crate) fn data_volume(class: &Class) -> Result<i64, String> {
    let size = class.spec["ephemeralStorage"]["size"].as_str();
    let Some(size) = size else { return Ok(DATA_VOLUME) };
    let bytes = size.parse::<Quantity>().map_err(|error| error.to_string());
    match bytes.map(|quantity| quantity.units()) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        Ok(_) => Err(format!("spec.ephemeralStorage.size is {size:?}: it must be above 0")),
        Err(error) => Err(format!("spec.ephemeralStorage.size is {size:?}: {error}")),
    }
}

/// Gives machines of a type, which have the usual data volume, one of `volume` bytes.
pub(crate) fn resize(kind: &mut InstanceType, volume: i64) {
    if volume == DATA_VOLUME {
        return;
    }
    let label = format!("{}instance-local-nvme", labels::EKS_PREFIX);
    let disks = kind.labels.get(&label).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let storage = disks.saturating_mul(1_000_000_000).max(volume);
    kind.capacity.storage = storage;
    kind.allocatable.storage = (storage - reserved(&kind.capacity).storage).max(0);
}

/// 6 % of the first core, 1 % of the second, 0.5 % of the third and fourth, 0.25 % of the rest;
/// in milli-cores.
fn reserved_cpu(cpu: i64) -> i64 {
    [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)]
        .into_iter()
        .map(|(from, to, share)| (cpu.min(to) - from).max(0) * share / 10_000)
        .sum()
}
