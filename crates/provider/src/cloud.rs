//! What a cloud can do for Aerostat.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::{NodeClaim, NodePool, Quantity};
use aerostat_engine::instance::InstanceType;
use futures::future::BoxFuture;

/// A machine that the provider runs, as it describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// `aws:///ap-northeast-1a/i-0740e2a4362e88675`.
    pub provider_id: String,
    /// Labels that its node will carry: type, zone, capacity type and the rest.
    pub labels: BTreeMap<String, String>,
    /// The machine image.
    pub image_id: Option<String>,
    /// What the machine has.
    pub capacity: BTreeMap<String, Quantity>,
    /// What pods may use of it.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// Why a provider did not do it.
///
/// Source: kubernetes-sigs/karpenter `pkg/cloudprovider/types.go`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// There is no such instance (any more).
    #[error("{0}")]
    NotFound(String),
    /// None of the offerings that the claim allows is to be had now.
    #[error("{0}")]
    InsufficientCapacity(String),
    /// The node class is missing or not ready.
    #[error("{0}")]
    ClassNotReady(String),
    /// Anything else; worth another try.
    #[error("{0}")]
    Other(String),
}

/// A cloud.
pub trait CloudProvider: Send + Sync + 'static {
    /// Its name, `sim` for example.
    fn name(&self) -> &'static str;

    /// Everything that a pool could launch, offerings that are out of stock included, by name.
    ///
    /// # Errors
    ///
    /// If the pool's class is of no kind that the provider knows.
    fn instance_types(&self, pool: &NodePool) -> Result<Arc<Vec<InstanceType>>, ProviderError>;

    /// Launches a machine for a claim. Idempotent by the claim's UID: asked again, it returns the
    /// machine that it launched the first time.
    fn create<'a>(&'a self, claim: &'a NodeClaim)
    -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// Ends a machine. `Ok` says that it has begun; `NotFound` that the machine is gone.
    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// One machine.
    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// All machines that it runs for this cluster, by provider ID.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>>;
}
