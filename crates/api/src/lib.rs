//! Kubernetes and Karpenter types as Aerostat uses them. No I/O, nothing async.
//!
//! | module | holds |
//! |---|---|
//! | [`labels`] | label, annotation, taint and finalizer names |
//! | [`quantity`] | Kubernetes quantities: exact arithmetic, canonical form |
//! | [`duration`] | Karpenter's duration strings (`30s`, `24h0m0s`, `Never`) |
//! | [`nodepool`], [`nodeclaim`], [`nodeclass`], [`nodeoverlay`] | the custom resources |
//! | [`class`](mod@class) | classes of any provider |
//! | [`condition`] | the status conditions they share |
//! | [`crds`] | their definitions, as the API server enforces them |
//! | [`builtin`] | the NodePools and the NodeClass that are there at the start |
//! | [`hash`] | Karpenter's hash of a NodePool's template |
//! | [`requirements`] | requirement algebra: what a node's labels may be |
//!
//! The types mirror what is served.

pub mod builtin;
pub mod class;
pub mod condition;
pub mod crds;
pub mod duration;
pub mod hash;
pub mod labels;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodeoverlay;
pub mod nodepool;
pub mod quantity;
pub mod requirements;

pub use class::{Class, ClassKind};
pub use condition::Condition;
pub use duration::{Duration, NillableDuration};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeclass::{NodeClass, NodeClassSpec, NodeClassStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use quantity::Quantity;
pub use requirements::{Requirement, Requirements};
