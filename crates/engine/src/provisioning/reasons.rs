//! Why a pod got nothing, in Karpenter's words.
//!
//! Source of the texts: kubernetes-sigs/karpenter
//! `pkg/controllers/provisioning/scheduling/{nodeclaim,scheduler}.go`, `pkg/scheduling/taints.go`.

use aerostat_api::{Requirements, labels};

use super::market::{self, Store};
use crate::instance::InstanceType;
use crate::limits::{Headroom, Machine};
use crate::pod::Pod;
use crate::predicates;
use crate::resources::Resources;

/// What each pool says to a pod that got no place, in the pools' order.
pub(crate) fn message(pod: &Pod, stores: &[Store<'_>], limits: &[Headroom]) -> String {
    let texts = stores.iter().zip(limits).map(|(store, headroom)| reason(pod, store, headroom));
    texts.collect::<Vec<_>>().join("; ")
}

fn reason(pod: &Pod, store: &Store<'_>, headroom: &Headroom) -> String {
    let pool = &store.pool.name;
    if headroom.is_out_of_nodes() {
        return format!("node limits have been exhausted for nodepool (NodePool={pool})");
    }
    let exceeded =
        format!("all available instance types exceed limits for nodepool (NodePool={pool})");
    let allowed = store.offers.iter().filter(|offer| {
        let capacity = &store.pool.types[offer.kind].capacity;
        headroom.allows(&Machine { capacity, price: offer.price })
    });
    let mut kinds: Vec<usize> = allowed.map(|offer| offer.kind).collect();
    kinds.dedup();
    if kinds.is_empty() {
        return exceeded;
    }
    let untolerated = store.pool.taints.iter().filter(|taint| {
        predicates::untolerated(&pod.constraints.tolerations, std::slice::from_ref(taint)).is_some()
    });
    let untolerated: Vec<String> = untolerated
        .map(|taint| {
            let value = taint.value.as_deref().filter(|value| !value.is_empty());
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            format!("did not tolerate taint (taint={}{value}:{})", taint.key, taint.effect)
        })
        .collect();
    if !untolerated.is_empty() {
        return untolerated.join("; ");
    }
    // Karpenter gives up the alternatives one by one: what is told is what stands against the last.
    let last = market::alternatives(&pod.constraints).pop();
    let requirements = match last {
        None => return "incompatible requirements, no node selector terms".to_owned(),
        Some(Err(error)) => return format!("incompatible requirements, {error}"),
        Some(Ok(requirements)) => requirements,
    };
    let well_known = market::well_known(&store.pool.types);
    if let Err(error) = store.template.compatible(&requirements, &well_known) {
        return format!("incompatible requirements, {error}");
    }
    let mut merged = store.template.clone();
    merged.merge(&requirements);
    match filtered(pod, store, &kinds, &merged) {
        Some((text, requests)) => format!(
            "{text}, requirements={merged}, resources={}",
            serde_json::to_string(&requests.quantities()).unwrap_or_default()
        ),
        None => exceeded,
    }
}

/// Which of the three filters (requirements, resources, offerings) left no type, and what was
/// asked for with the daemons of the most welcoming type.
fn filtered(
    pod: &Pod,
    store: &Store<'_>,
    kinds: &[usize],
    requirements: &Requirements,
) -> Option<(String, Resources)> {
    let mut seen = [false; 8];
    let mut requests: Option<Resources> = None;
    for kind in kinds {
        let instance = &store.pool.types[*kind];
        let shapes = store.shapes.iter().filter(|shape| shape.kind == *kind);
        let mut fits = false;
        for shape in shapes {
            let mut need = pod.requests.clone();
            need.add(&shape.overhead);
            fits |= instance.allocatable.covers(&need);
            if requests.as_ref().is_none_or(|least| least.covers(&need)) {
                requests = Some(need);
            }
        }
        let matches = usize::from(matches(instance, requirements));
        let offered = usize::from(offered(instance, requirements));
        seen[matches | usize::from(fits) << 1 | offered << 2] = true;
    }
    let any = |mask: usize| (0..8).any(|flags| seen[flags] && flags & mask == mask);
    let (matching, fitting, offering) = (1, 2, 4);
    let requests = requests.unwrap_or_default();
    let text = match (any(matching), any(fitting), any(offering)) {
        (false, false, false) => {
            "no instance type met the scheduling requirements or had enough resources or had a required offering"
        }
        (false, false, true) => {
            "no instance type met the scheduling requirements or had enough resources"
        }
        (false, true, false) => {
            "no instance type met the scheduling requirements or had a required offering"
        }
        (true, false, false) => "no instance type had enough resources or had a required offering",
        (false, true, true) => "no instance type met all requirements",
        (true, false, true) if pod.requests.cpu >= 1_000_000_000 => {
            "no instance type has enough resources (CPU request >= 1 Million, m vs M typo?)"
        }
        (true, false, true) => "no instance type has enough resources",
        (true, true, false) => "no instance type has the required offering",
        (true, true, true) if any(7) => return min_values(store).map(|text| (text, requests)),
        (true, true, true) if any(matching | fitting) => {
            "no instance type which met the scheduling requirements and had enough resources, had a required offering"
        }
        (true, true, true) if any(fitting | offering) => {
            "no instance type which had enough resources and the required offering met the scheduling requirements"
        }
        (true, true, true) if any(matching | offering) => {
            "no instance type which met the scheduling requirements and the required offering had the required resources"
        }
        (true, true, true) => "no instance type met the requirements/resources/offering tuple",
    };
    Some((text.to_owned(), requests))
}

fn min_values(store: &Store<'_>) -> Option<String> {
    let keys: Vec<&str> = store.min_values().map(|(key, _)| key).collect();
    let keys = keys.join(" ");
    let text = format!("minValues requirement is not met for label(s) (label(s)=[{keys}])");
    (!keys.is_empty()).then_some(text)
}

/// Whether each label of the type, or of some offering of it, is allowed.
fn matches(kind: &InstanceType, requirements: &Requirements) -> bool {
    requirements.iter().all(|requirement| match requirement.key() {
        labels::ZONE => kind.offerings.iter().any(|o| requirement.has(&o.zone)),
        labels::CAPACITY_TYPE => kind.offerings.iter().any(|o| requirement.has(&o.capacity_type)),
        key => market::type_label(kind, key).is_none_or(|value| requirement.has(value)),
    })
}

/// Whether some offering is allowed. A reservation that still had room would have been used.
fn offered(kind: &InstanceType, requirements: &Requirements) -> bool {
    kind.offerings.iter().any(|offering| {
        offering.available
            && offering.reservation.is_none()
            && requirements.allows(labels::ZONE, Some(&offering.zone))
            && requirements.allows(labels::CAPACITY_TYPE, Some(&offering.capacity_type))
    })
}
