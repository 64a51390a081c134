//! What pods use: a load that is given, shared by those that serve.
//!
//! Nothing runs here, so nothing can be measured. A workload says by annotations how much work there
//! is for all of its pods together; each that is ready does its part, up to its limits.

use std::collections::BTreeMap;

use aerostat_api::Quantity;
use k8s_openapi::api::core::v1::Pod;

use super::replicas::Sample;
use crate::workloads::pods::{is_active, is_ready, phase};

/// Annotation of a workload: the cpu (`-memory`: the memory) that its ready pods use together.
const LOAD: &str = "sim.aerostat.dev/load-";

/// The pods of a workload with `annotations`, as a metric of `resource` sees them.
///
/// # Errors
///
/// If the workload does not say what its load is, or a pod does not say what it asks for though
/// `needs_requests`.
pub(super) fn samples(
    annotations: &BTreeMap<String, String>,
    pods: &[&Pod],
    resource: &str,
    needs_requests: bool,
) -> Result<Vec<Sample>, String> {
    let key = format!("{LOAD}{resource}");
    let text = annotations.get(&key).ok_or_else(|| {
        format!(
            "unable to get metrics for resource {resource}: nothing is measured in a simulation, \
             and the target has no annotation {key}"
        )
    })?;
    let load = amount(text).filter(|load| *load >= 0);
    let load = load.ok_or_else(|| {
        format!("annotation {key}: {text:?} is no amount: write it like 1500m, 4 or 2Gi")
    })?;
    let pods: Vec<&Pod> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
    let serving = pods.iter().filter(|pod| serves(pod)).count();
    let part = load / i64::try_from(serving.max(1)).unwrap_or(i64::MAX);
    let sample = |pod: &&Pod| {
        let requests = sum(pod, resource, |container| container.requests.as_ref());
        if needs_requests && requests.is_none() {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            return Err(format!("missing request for {resource} in a container of Pod {name}"));
        }
        let most = sum(pod, resource, |container| container.limits.as_ref());
        let usage = serves(pod).then(|| most.map_or(part, |most| part.min(most)));
        Ok(Sample { requests: requests.unwrap_or(0), usage })
    };
    pods.iter().map(sample).collect()
}

fn serves(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

type Resources = k8s_openapi::api::core::v1::ResourceRequirements;
type Amounts = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

/// The sum over containers, in thousandths; `None` if one says nothing.
fn sum(pod: &Pod, resource: &str, of: impl Fn(&Resources) -> Option<&Amounts>) -> Option<i64> {
    let containers = &pod.spec.as_ref()?.containers;
    let each = containers.iter().map(|container| {
        let amounts = container.resources.as_ref().and_then(&of)?;
        amount(&amounts.get(resource)?.0)
    });
    each.sum()
}

/// In thousandths.
pub(super) fn amount(text: &str) -> Option<i64> {
    text.parse::<Quantity>().ok().map(|quantity| quantity.milli())
}
