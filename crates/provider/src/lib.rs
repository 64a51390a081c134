//! Clouds: what a provider can do, what it sells, and the simulated one.
//!
//! | module | holds |
//! |---|---|
//! | [`cloud`] | the [`CloudProvider`] trait, instances and errors |
//!
//! Controllers know the trait only.

pub mod cloud;

pub use cloud::{CloudProvider, Instance, ProviderError};
