//! Which offering a claim gets.

use aerostat_api::requirements::Requirements;
use aerostat_api::{NodeClaim, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::resources::Resources;

use crate::ProviderError;

/// The cheapest offering that is to be had, meets the claim's requirements and carries what its
/// pods ask for. Among equal prices the first type's first zone.
///
/// # Errors
///
/// If there is none, or a requirement cannot be read.
pub(super) fn cheapest<'a>(
    types: &'a [InstanceType],
    claim: &NodeClaim,
) -> Result<(&'a InstanceType, &'a Offering), ProviderError> {
    let requirements = Requirements::from_pool(&claim.spec.requirements)
        .map_err(|error| ProviderError::Other(format!("spec.{error}")))?;
    let asked = claim.spec.resources.as_ref().map(|resources| &resources.requests);
    let asked = asked.map(Resources::from_quantities).unwrap_or_default();
    let mut feasible = types
        .iter()
        .filter(|kind| kind.allocatable.covers(&asked) && allows(&requirements, kind))
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)))
        .filter(|(_, offering)| {
            requirements.allows(labels::ZONE, Some(&offering.zone))
                && requirements.allows(labels::CAPACITY_TYPE, Some(&offering.capacity_type))
        })
        .peekable();
    if feasible.peek().is_none() {
        return Err(ProviderError::InsufficientCapacity(
            "no offering meets the claim's requirements and carries its requests".to_owned(),
        ));
    }
    feasible
        .filter(|(_, offering)| offering.available)
        .min_by(|(a, one), (b, other)| {
            let by_price = one.price.total_cmp(&other.price);
            by_price.then_with(|| (&a.name, &one.zone).cmp(&(&b.name, &other.zone)))
        })
        // Karpenter's words.
        .ok_or_else(|| {
            ProviderError::InsufficientCapacity(
                "all requested instance types were unavailable during launch".to_owned(),
            )
        })
}

/// Whether the type's own labels are allowed. Labels that come with the claim are not the type's:
/// only those that a type could have and this one lacks count as absent.
fn allows(requirements: &Requirements, kind: &InstanceType) -> bool {
    let instance_label = format!("{}instance-", labels::EKS_PREFIX);
    requirements.iter().all(|requirement| {
        let key = requirement.key();
        match kind.labels.get(key) {
            Some(value) => requirements.allows(key, Some(value)),
            None => !key.starts_with(&instance_label) || requirements.allows(key, None),
        }
    })
}
