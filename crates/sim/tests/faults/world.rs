//! A small world.

use std::sync::Arc;

use aerostat_clock::Clock;
use aerostat_engine::snapshot::Settings;
use aerostat_provider::catalog::{Catalog, Region};
use aerostat_sim::{World, WorldOptions};
use jiff::Timestamp;

/// When it begins.
pub const START: &str = "2025-01-06T08:00:00Z";

/// A world that begins now.
pub fn start() -> World {
    start_in(crate::region::even())
}

/// The same where Karpenter's KWOK provider sells its machines.
pub fn start_kwok() -> World {
    start_in(Catalog::kwok(None).unwrap().region("test-zone").unwrap())
}

fn start_in(region: Arc<Region>) -> World {
    let flavor = region.flavor;
    let epoch: Timestamp = START.parse().unwrap();
    let options = WorldOptions {
        clock: Clock::simulated(epoch),
        seed: 1,
        region,
        config: aerostat_sim::Config::of(flavor),
        ca: String::new(),
        settings: Settings::default(),
    };
    World::start(options).unwrap()
}

/// Plays something in virtual time, in a runtime of its own.
pub fn alone<T>(play: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play)
}
