//! The whole of Aerostat, with controllers that die, or that are left alone for a day, and with
//! whatever else a seed can think of.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod crashes;
mod refusals;
mod region;
mod restless;
mod seeds;
mod steady;
mod surge;
mod world;
