//! The whole of Aerostat in one process.
//!
//! ```text
//! manifests ─> apply ─> World: cluster + simulated cloud + controllers ─> story: one line an event
//!                         ^
//!              scenario: steps at times, in virtual time
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`world`] | [`World`]: everything put together, for `aerostat up` and for scenarios alike |
//! | [`config`] | the simulated timings, as a file |
//! | [`manifest`] | Kubernetes manifests from files, applied |
//! | [`story`] | what happens, as it happens, in lines for people or JSON |
//! | [`scenario`] | steps at times, played in virtual time |

pub mod config;
pub mod manifest;
pub mod scenario;
pub mod show;
pub mod story;
pub mod world;

pub use config::Config;
pub use world::{World, WorldOptions};
