//! What is different on a node that KWOK would play: pods are ready at once whatever their probes
//! say, nothing ends by itself but what a Job runs, and a deleted pod goes after its delay, which its
//! grace period has no say in.
//!
//! Source: kubernetes-sigs/kwok `kustomize/stage/pod/fast/`, kubernetes-sigs/karpenter
//! `hack/kwok/stages/`.

use std::net::Ipv4Addr;

use aerostat_api::{Duration, labels};
use k8s_openapi::api::core::v1::{Container, Node, NodeAddress, Pod};

use super::settings::Settings;
use super::workload::Run;
use crate::{Cluster, Status};

/// How long a deleted pod stays, as a Go duration: an annotation of the pod.
const DELAY: &str = "pod-delete.stage.kwok.x-k8s.io/delay";
/// Label of pods that play another part.
const STAGE: &str = "kwok.x-k8s.io/stage";
/// A part: the pod runs and never becomes ready.
const UNHEALTHY: &str = "unhealthy";

/// Where machines are that come without an address: 10.240.0.0/16, sixty to a network, so that
/// the rest is their pods'.
const FIRST: [u8; 2] = [10, 240];
const PER_NETWORK: u64 = 60;

/// Whether KWOK would play the node.
pub(super) fn plays(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(labels::KWOK_NODE)).is_some_and(|value| value == "fake")
}

/// The address of the `number`th machine that has none.
pub(super) fn address(number: u64) -> Ipv4Addr {
    let byte = |value: u64| u8::try_from(value % 256).unwrap_or_default();
    let (network, host) = (number / PER_NETWORK, 4 + number % PER_NETWORK);
    Ipv4Addr::new(FIRST[0], FIRST[1], byte(network), byte(host))
}

/// Gives a node its address.
pub(super) fn give_address(cluster: &Cluster, name: &str, ip: Ipv4Addr) -> Result<(), Status> {
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    cluster.modify_status::<Node>("", name, |node| {
        let status = node.status.get_or_insert_default();
        let addresses = status.addresses.get_or_insert_default();
        if addresses.iter().all(|address| address.type_ != "InternalIP") {
            addresses.push(address("InternalIP", ip.to_string()));
            addresses.push(address("Hostname", name.to_owned()));
        }
    })?;
    Ok(())
}

/// What a container does once started.
pub(super) fn known(pod: &Pod, container: &Container, init: bool, settings: &Settings) -> Run {
    let sidecar = container.restart_policy.as_deref() == Some("Always");
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let of_job = owners.iter().any(|owner| owner.kind == "Job" && owner.controller == Some(true));
    let duration = match () {
        () if init && sidecar => None,
        () if init => Some(settings.init_duration),
        () => of_job.then_some(settings.job_duration),
    };
    Run { duration, exit_code: 0 }
}

/// Whether the pod never becomes ready.
pub(super) fn is_unhealthy(pod: &Pod) -> bool {
    let all = pod.metadata.labels.as_ref();
    all.and_then(|all| all.get(STAGE)).is_some_and(|stage| stage == UNHEALTHY)
}

/// How long a deleted pod stays.
///
/// # Errors
///
/// Names the annotation if it is no duration.
pub(super) fn delay(pod: &Pod) -> Result<Duration, String> {
    let text = pod.metadata.annotations.as_ref().and_then(|all| all.get(DELAY));
    let at_once = Duration(std::time::Duration::ZERO);
    text.map_or(Ok(at_once), |text| Duration::parse(text).map_err(|why| format!("{DELAY}: {why}")))
}
