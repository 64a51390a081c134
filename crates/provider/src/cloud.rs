//! What a cloud can do for Aerostat.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::nodepool::NodeClassRef;
use aerostat_api::{Class, ClassKind, NodeClaim, Quantity};
use aerostat_engine::instance::InstanceType;
use futures::future::BoxFuture;
use jiff::Timestamp;

/// A machine that the provider runs, as it describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// `aws:///ap-northeast-1a/i-0740e2a4362e88675`.
    pub provider_id: String,
    /// The UID of the claim that it was launched for.
    pub claim: String,
    /// When it was launched.
    pub launched: Timestamp,
    /// Labels that its node will carry: type, zone, capacity type and the rest.
    pub labels: BTreeMap<String, String>,
    /// What its claim is to remember of the launch.
    pub annotations: BTreeMap<String, String>,
    /// The machine image.
    pub image_id: Option<String>,
    /// What the machine has.
    pub capacity: BTreeMap<String, Quantity>,
    /// What pods may use of it.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// What a provider has to tell about a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which notice it is, for [`CloudProvider::acknowledge`].
    pub id: u64,
    /// The machine.
    pub provider_id: String,
    /// What will become of it.
    pub event: Event,
}

/// What will become of a machine.
///
/// Source: aws/karpenter-provider-aws `pkg/controllers/interruption/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A spot machine is taken back in two minutes.
    SpotInterruption,
    /// It has been stopped or terminated by somebody else.
    Terminated,
}

/// When the conditions of a node are a reason to replace it.
///
/// Source: kubernetes-sigs/karpenter `pkg/cloudprovider/types.go`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// The condition.
    pub condition: &'static str,
    /// Its status: `False` or `Unknown`.
    pub status: &'static str,
    /// How long that is put up with.
    pub toleration: std::time::Duration,
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

    /// The kind of class that its machines are launched with.
    fn class_kind(&self) -> &'static ClassKind;

    /// What `Ready` of a class depends on, as far as the provider looks at classes: all of it is
    /// true of every class that the server has taken. `None`: classes are ready as they come.
    fn class_conditions(&self) -> Option<&'static [&'static str]>;

    /// Everything that could be launched with a class, offerings that are out of stock included,
    /// by name. `class` is `None` as long as nobody knows it.
    ///
    /// # Errors
    ///
    /// If the class is of no kind that the provider knows, or says what it cannot do.
    fn instance_types(
        &self,
        reference: &NodeClassRef,
        class: Option<&Class>,
    ) -> Result<Arc<Vec<InstanceType>>, ProviderError>;

    /// When an offering that has run out will be tried again.
    fn next_change(&self) -> Option<Timestamp>;

    /// Launches a machine for a claim of `class`: the cheapest offering of `types` (those of its
    /// class, by name, as they were planned with) that it allows and that is to be had. Idempotent
    /// by the claim's UID: asked again, it returns the machine that it launched the first time.
    fn create<'a>(
        &'a self,
        claim: &'a NodeClaim,
        class: Option<&'a Class>,
        types: &'a [InstanceType],
    ) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// Why the provider would launch something else for a launched claim today, in one word; `class`
    /// is the claim's, as it is now.
    fn is_drifted<'a>(
        &'a self,
        claim: &'a NodeClaim,
        class: Option<&'a Class>,
    ) -> BoxFuture<'a, Result<Option<&'static str>, ProviderError>>;

    /// Ends a machine. `Ok` says that it has begun; `NotFound` that the machine is gone.
    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Which conditions of nodes are a reason to replace them.
    fn repair_policies(&self) -> &'static [RepairPolicy];

    /// The oldest notice that was not acknowledged; waits for one.
    fn next_notice(&self) -> BoxFuture<'_, Notice>;

    /// Says that everything has been done about a notice.
    fn acknowledge(&self, notice: &Notice);

    /// One machine.
    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// All machines that it runs for this cluster, by provider ID.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>>;
}
