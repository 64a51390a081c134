//! The whole of Aerostat, with controllers that die, or that are left alone for a day.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod crashes;
mod steady;
mod world;
