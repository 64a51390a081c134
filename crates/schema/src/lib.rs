//! Kubernetes' type tables and what follows from them.
//!
//! ```text
//! data/ (generated) -> table -> decode, protobuf   bytes to JSON in the form the API keeps
//!                            -> strategic          strategic merge patch
//!                            -> apply              server-side apply, field ownership
//!                            -> openapi            documents for kubectl
//! CRD schema -> custom                             the same for custom resources
//! policy spec -> policy                            CEL that looks at requests
//! ```
//!
//! Everything is a pure function of its arguments and of the table.

pub mod apply;
pub mod custom;
pub mod decode;
pub mod openapi;
mod order;
pub mod policy;
pub mod protobuf;
pub mod strategic;
pub mod table;
