//! A cloud that sells little, so that planning is quick, and not in proportion.

use std::sync::{Arc, OnceLock};

use aerostat_provider::catalog::{Catalog, File, Region};
use serde_json::{Value, json};

/// Three types in two zones, on demand and spot.
pub fn region() -> Arc<Region> {
    static REGION: OnceLock<Arc<Region>> = OnceLock::new();
    REGION.get_or_init(read).clone()
}

fn read() -> Arc<Region> {
    let offering = |price: f64, capacity_type: &str, zone: &str| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ]})
    };
    let types: Vec<Value> = [(2, 0.10), (4, 0.19), (8, 0.42)]
        .map(|(cpu, price)| {
            json!({
                "name": format!("m-{cpu}x-amd64-linux"),
                "offerings": [
                    offering(price, "on-demand", "test-zone-a"),
                    offering(price, "on-demand", "test-zone-b"),
                    offering(price * 0.4, "spot", "test-zone-a"),
                    offering(price * 0.35, "spot", "test-zone-b"),
                ],
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
