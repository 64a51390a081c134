//! A small world.

use aerostat_clock::Clock;
use aerostat_engine::snapshot::Settings;
use aerostat_sim::{World, WorldOptions};
use jiff::Timestamp;

/// When it begins.
pub const START: &str = "2025-01-06T08:00:00Z";

/// A world that begins now.
pub fn start() -> World {
    let epoch: Timestamp = START.parse().unwrap();
    let options = WorldOptions {
        clock: Clock::simulated(epoch),
        seed: 1,
        region: crate::region::even(),
        config: aerostat_sim::Config::default(),
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
