//! The embedded control plane: a model of a Kubernetes cluster for trying and predicting.
//!
//! ```text
//! kubectl ── https ─┐
//! kube::Client ─────┴─> http ──> registry ──> store ──> events ──┬─> watches (http)
//!                                  ^   (admission, defaults,     └─> informers
//!                                  │    validation on the way)          │
//!                                  └── scheduler, workloads, kubelet <──┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`store`] | objects by kind and name, revisions, the ring of events that watches read |
//! | [`kinds`] | which kinds are served: names, verbs, subresources |
//! | [`registry`] | [`Cluster`]: every read and write, with admission, defaults and validation |
//! | [`defaults`], [`admission`], [`validation`] | what a write is given, and what it is refused for |
//! | [`table`] | what kubectl prints of objects |
//! | [`http`] | the API server: a tower service over the registry |
//! | [`serve`] | the API server on a socket: TLS, credentials, kubeconfig |
//! | [`selectors`] | label and field selectors |
//! | [`informer`] | what in-process controllers watch with |
//! | [`bootstrap`] | the objects that every cluster begins with |
//! | [`scheduler`] | places pods on nodes |
//! | [`kubelet`] | the kubelets of all simulated nodes |
//! | [`events`] | recording and expiring `Event` objects |
//! | [`status`] | errors, in the words and codes of Kubernetes |
//!
//! Data moves one way: a write goes through the registry into the store, the store's events wake
//! watches and informers, controllers write again. It is a model: no container runs.

pub mod admission;
pub mod bootstrap;
pub mod defaults;
pub mod events;
pub mod http;
pub mod informer;
pub mod kinds;
pub mod kubelet;
pub mod registry;
pub mod scheduler;
pub mod selectors;
pub mod serve;
pub mod status;
pub mod store;
pub mod table;
pub mod validation;
pub mod workloads;

pub use informer::{Change, Informer};
pub use registry::{Cluster, Options};
pub use status::Status;
