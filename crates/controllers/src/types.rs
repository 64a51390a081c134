//! What may be launched.

use std::sync::Arc;

use aerostat_api::nodepool::NodeClassRef;
use aerostat_engine::instance::InstanceType;
use aerostat_provider::{CloudProvider, ProviderError};

use crate::index::Index;

/// What the provider sells with a class.
///
/// # Errors
///
/// If the provider does not know the class, or what it asks for.
pub(crate) fn of_class(
    provider: &dyn CloudProvider,
    index: &Index,
    reference: &NodeClassRef,
) -> Result<Arc<Vec<InstanceType>>, ProviderError> {
    let class = index.classes.get(&reference.name).filter(|_| reference.kind == "NodeClass");
    provider.instance_types(reference, class.as_deref())
}
