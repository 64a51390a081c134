//! A small world.

use std::sync::Arc;

use aerostat_clock::Clock;
use aerostat_engine::snapshot::Settings;
use aerostat_provider::catalog::{Catalog, File, Region};
use aerostat_sim::{World, WorldOptions};
use jiff::Timestamp;
use serde_json::{Value, json};

/// When it begins.
pub const START: &str = "2025-01-06T08:00:00Z";

/// A world that begins now.
pub fn start() -> World {
    let epoch: Timestamp = START.parse().unwrap();
    let options = WorldOptions {
        clock: Clock::simulated(epoch),
        seed: 1,
        region: region(),
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

/// A cloud that sells little, so that planning is quick.
fn region() -> Arc<Region> {
    let offering = |price: f64| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
        ]})
    };
    let types: Vec<Value> = [2, 4, 8]
        .map(|cpu| {
            json!({
                "name": format!("m-{cpu}x-amd64-linux"),
                "offerings": [offering(f64::from(cpu) * 0.05)],
                "architecture": "amd64",
                "operatingSystems": ["linux"],
                "resources": {
                    "cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4),
                    "pods": "64", "ephemeral-storage": "20Gi",
                },
            })
        })
        .into();
    let text = serde_json::to_string(&types).unwrap();
    let catalog = Catalog::from_kwok_json(File { name: "types.json", text: &text }).unwrap();
    catalog.region("test-zone").unwrap()
}
