//! Clouds that sell little, so that planning is quick.

use std::sync::{Arc, OnceLock};

use aerostat_provider::catalog::{Catalog, File, Region};
use serde_json::{Value, json};

/// Three types in one zone, on demand, priced in proportion.
pub fn even() -> Arc<Region> {
    let offering = |cpu: u32| offering(f64::from(cpu) * 0.05, "on-demand", "test-zone-a");
    read([2, 4, 8].map(|cpu| machine(cpu, vec![offering(cpu)])).into())
}

/// Three types in two zones, on demand and spot, not priced in proportion.
pub fn uneven() -> Arc<Region> {
    static REGION: OnceLock<Arc<Region>> = OnceLock::new();
    let offerings = |price: f64| {
        vec![
            offering(price, "on-demand", "test-zone-a"),
            offering(price, "on-demand", "test-zone-b"),
            offering(price * 0.4, "spot", "test-zone-a"),
            offering(price * 0.35, "spot", "test-zone-b"),
        ]
    };
    let types = [(2, 0.10), (4, 0.19), (8, 0.42)];
    REGION
        .get_or_init(|| read(types.map(|(cpu, price)| machine(cpu, offerings(price))).into()))
        .clone()
}

fn offering(price: f64, capacity_type: &str, zone: &str) -> Value {
    json!({"Price": price, "Available": true, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
    ]})
}

fn machine(cpu: u32, offerings: Vec<Value>) -> Value {
    json!({
        "name": format!("m-{cpu}x-amd64-linux"),
        "offerings": offerings,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4),
            "pods": "64", "ephemeral-storage": "20Gi",
        },
    })
}

fn read(types: Vec<Value>) -> Arc<Region> {
    let text = serde_json::to_string(&types).unwrap();
    let catalog = Catalog::from_kwok_json(File { name: "types.json", text: &text }).unwrap();
    catalog.region("test-zone").unwrap()
}
