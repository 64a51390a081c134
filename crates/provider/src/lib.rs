//! Clouds: what a provider can do, what it sells, and the simulated one.
//!
//! | module | holds |
//! |---|---|
//! | [`cloud`] | the [`CloudProvider`] trait, instances and errors |
//! | [`catalog`] | instance types, offerings and prices by region |
//!
//! Controllers know the trait only.

pub mod catalog;
pub mod cloud;

pub use catalog::{Catalog, CatalogError};
pub use cloud::{CloudProvider, Instance, ProviderError};
