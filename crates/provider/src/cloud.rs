//! What a cloud can do for Aerostat.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::nodepool::NodeClassRef;
use aerostat_api::{NodeClaim, NodeClass, Quantity};
use aerostat_engine::instance::InstanceType;
use futures::future::BoxFuture;
use jiff::Timestamp;

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

    /// Everything that could be launched with a class, offerings that are out of stock included,
    /// by name. `class` is `None` as long as nobody knows it.
    ///
    /// # Errors
    ///
    /// If the class is of no kind that the provider knows, or says what it cannot do.
    fn instance_types(
        &self,
        reference: &NodeClassRef,
        class: Option<&NodeClass>,
    ) -> Result<Arc<Vec<InstanceType>>, ProviderError>;

    /// When an offering that has run out will be tried again.
    fn next_change(&self) -> Option<Timestamp>;

    /// Launches a machine for a claim: the cheapest offering of `types` (those of its class, by
    /// name, as they were planned with) that it allows and that is to be had. Idempotent by the
    /// claim's UID: asked again, it returns the machine that it launched the first time.
    fn create<'a>(
        &'a self,
        claim: &'a NodeClaim,
        types: &'a [InstanceType],
    ) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// Why the provider would launch something else for a launched claim today, in one word; `class`
    /// is the claim's, as it is now.
    fn is_drifted<'a>(
        &'a self,
        claim: &'a NodeClaim,
        class: Option<&'a NodeClass>,
    ) -> BoxFuture<'a, Result<Option<&'static str>, ProviderError>>;

    /// Ends a machine. `Ok` says that it has begun; `NotFound` that the machine is gone.
    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// One machine.
    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// All machines that it runs for this cluster, by provider ID.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>>;
}
