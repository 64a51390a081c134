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
//! | [`scenario`] | what happens in a world, as a file; played in virtual time and told |
//! | [`script`] | the steps and arrivals of a scenario in one order of time |
//! | [`arrivals`] | work that comes by itself |
//! | [`event_log`] | a run's story as a file, to be shown again |
//! | [`state`] | every object of a cluster, to be looked at or to start from |
//! | [`traces`] | what other clusters were like |
//! | [`span`] | time as scenarios write it |
//! | [`simulate`](mod@simulate) | a scenario in virtual time, measured |
//! | [`compare`](mod@compare) | several scenarios side by side |
//! | [`measure`] | what a run costs and how long its pods wait |
//! | [`report`] | what a simulation tells |
//! | `size` | how many pods can be simulated |

pub mod arrivals;
pub mod compare;
pub mod config;
pub mod event_log;
mod leader;
pub mod manifest;
pub mod measure;
mod process;
pub mod report;
pub mod scenario;
pub mod script;
pub mod show;
pub mod simulate;
mod size;
pub mod span;
pub mod state;
pub mod story;
pub mod traces;
pub mod world;

pub use config::Config;
pub use world::{World, WorldOptions};
