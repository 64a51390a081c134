//! Which offerings a claim may get.

use aerostat_api::requirements::Requirements;
use aerostat_api::{NodeClaim, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::resources::Resources;

use crate::ProviderError;
use crate::catalog::Flavor;

/// The offerings that meet the claim's requirements and carry what its pods ask for and that are
/// not known to have run out, cheapest first; among equal prices the first type's first zone.
/// `types` are sorted by name.
///
/// # Errors
///
/// If there is none, or a requirement cannot be read.
pub(super) fn feasible<'a>(
    types: &'a [InstanceType],
    claim: &NodeClaim,
    flavor: Flavor,
) -> Result<Vec<(&'a InstanceType, &'a Offering)>, ProviderError> {
    let requirements = Requirements::from_pool(&claim.spec.requirements)
        .map_err(|error| ProviderError::Other(format!("spec.{error}")))?;
    let asked = claim.spec.resources.as_ref().map(|resources| &resources.requests);
    let asked = asked.map(Resources::from_quantities).unwrap_or_default();
    let mut feasible: Vec<(&InstanceType, &Offering)> = named(types, &requirements)
        .into_iter()
        .filter(|kind| kind.allocatable.covers(&asked) && allows(&requirements, kind, flavor))
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)))
        .filter(|(_, offering)| {
            let reservation = offering.reservation.as_ref().map(|reservation| &*reservation.id);
            requirements.allows(labels::ZONE, Some(&offering.zone))
                && requirements.allows(labels::CAPACITY_TYPE, Some(&offering.capacity_type))
                && requirements.allows(labels::RESERVATION_ID, reservation)
        })
        .collect();
    if feasible.is_empty() {
        return Err(ProviderError::InsufficientCapacity(
            "no offering meets the claim's requirements and carries its requests".to_owned(),
        ));
    }
    feasible.retain(|(_, offering)| offering.available);
    feasible.sort_by(|(a, one), (b, other)| {
        let by_price = one.price.total_cmp(&other.price);
        by_price.then_with(|| (&a.name, &one.zone).cmp(&(&b.name, &other.zone)))
    });
    Ok(feasible)
}

/// The types that the requirements name, or all.
fn named<'a>(types: &'a [InstanceType], requirements: &Requirements) -> Vec<&'a InstanceType> {
    let names =
        requirements.get(labels::INSTANCE_TYPE).and_then(|requirement| requirement.values());
    let Some(names) = names else { return types.iter().collect() };
    let find = |name: &String| types.binary_search_by(|kind| kind.name.cmp(name)).ok();
    names.iter().filter_map(find).map(|at| &types[at]).collect()
}

/// Whether the type's own labels are allowed. Labels that come with the claim are not the type's:
/// only those that a type could have and this one lacks count as absent.
fn allows(requirements: &Requirements, kind: &InstanceType, flavor: Flavor) -> bool {
    let instance_label = match flavor {
        Flavor::AutoMode => format!("{}instance-", labels::EKS_PREFIX),
        Flavor::Kwok => labels::KWOK_PREFIX.to_owned(),
    };
    requirements.iter().all(|requirement| {
        let key = requirement.key();
        match kind.labels.get(key) {
            Some(value) => requirements.allows(key, Some(value)),
            None => !key.starts_with(&instance_label) || requirements.allows(key, None),
        }
    })
}
