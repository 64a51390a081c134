//! Kubernetes and Karpenter types as Aerostat uses them. No I/O, nothing async.
//!
//! | module | holds |
//! |---|---|
//! | [`labels`] | label, annotation, taint and finalizer names |
//! | [`quantity`] | Kubernetes quantities: exact arithmetic, canonical form |
//! | [`duration`] | Karpenter's duration strings (`30s`, `24h0m0s`, `Never`) |
//! | [`nodepool`], [`nodeclaim`], [`nodeclass`] | the custom resources |
//! | [`condition`] | the status conditions they share |
//!
//! The types mirror what is served; the schemas that the API server enforces stand beside them.

pub mod condition;
pub mod duration;
pub mod labels;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodepool;
pub mod quantity;

pub use condition::Condition;
pub use duration::{Duration, NillableDuration};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeclass::{NodeClass, NodeClassSpec, NodeClassStatus};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use quantity::Quantity;
