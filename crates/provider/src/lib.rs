//! Clouds: what a provider can do, what it sells, and the simulated one.
//!
//! | module | holds |
//! |---|---|
//! | [`cloud`] | the [`CloudProvider`] trait, instances and errors |
//! | [`catalog`] | instance types, offerings and prices by region |
//! | [`sim`] | the simulated cloud: machines in memory, Nodes that join |
//!
//! Controllers know the trait only.

pub mod catalog;
pub mod cloud;
pub mod sim;

pub use catalog::{Catalog, CatalogError};
pub use cloud::{CloudProvider, Event, Instance, Notice, ProviderError, RepairPolicy};
pub use sim::{SimCloud, Timings};
