//! A large company's cluster, ordered at once: 100,000 pods of 500 deployments, each with a shape
//! and seven in ten with a constraint, on 800 types in three zones and two capacity types.

use std::sync::Arc;

use aerostat_api::{NodePool, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::pods::{Dice, Pods, spread, term};
use crate::world;

const SHAPES: usize = 500;
const REPLICAS: usize = 200;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

pub fn fleet() -> Snapshot {
    let mut dice = Dice(7);
    let mut pods = Pods::default();
    for shape in 0..SHAPES {
        let name = format!("app-{shape:03}");
        let metadata = json!({
            "labels": {"app": name},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name,
                "uid": name, "controller": true}],
        });
        let spec = constraint(shape, &json!({"app": name}), &mut dice);
        let cpu = dice.of(&[50, 100, 200, 250, 500, 750, 1000, 2000, 4000]);
        let memory = cpu * dice.of(&[1, 2, 3, 4, 6, 8]) + 64 * dice.below(8) as u64;
        pods.add_all(REPLICAS, &metadata, &spec, (cpu, memory));
    }
    let pool: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "test", "kind": "Class", "name": "default"},
            "requirements": [],
        }}},
    }))
    .unwrap();
    let pools = vec![world::pool(&pool, &Arc::new(types()))];
    Snapshot { pods: pods.list, pools, ..Snapshot::default() }
}

/// What the pods of a shape demand besides room.
fn constraint(shape: usize, own: &Value, dice: &mut Dice) -> Value {
    match shape % 10 {
        3 => json!({"nodeSelector": {labels::ARCH: "arm64"}}),
        4 => json!({"nodeSelector": {labels::ZONE: dice.of(&ZONES)}}),
        5 => json!({"nodeSelector": {labels::CAPACITY_TYPE: "on-demand"}}),
        6 => spread(labels::ZONE, 1, own),
        7 => spread(labels::HOSTNAME, 2, own),
        8 => term("podAntiAffinity", labels::HOSTNAME, own),
        9 => term("podAffinity", labels::ZONE, own),
        _ => json!({}),
    }
}

/// Eighty families of ten sizes; dearer ones are of an older generation.
fn types() -> Vec<InstanceType> {
    let mut dice = Dice(11);
    let mut types = Vec::new();
    for family in 0..80 {
        let arch = if family % 4 == 3 { "arm64" } else { "amd64" };
        let gib_per_core = [2, 4, 8][family % 3];
        let per_core = 0.02 + 0.003 * gib_per_core as f64 + 0.001 * dice.below(15) as f64;
        for cores in [2_i64, 4, 8, 12, 16, 24, 32, 48, 64, 96] {
            let price = per_core * cores as f64;
            let (memory, pods) = ((cores * gib_per_core) << 30, (cores * 8 + 14).min(110));
            let capacity = Resources { cpu: cores * 1000, memory, pods, ..Resources::default() };
            let reserved = (255 + 11 * pods) << 20;
            let (cpu, memory) = (capacity.cpu - 80, memory - reserved);
            let mut offerings = Vec::new();
            for zone in ZONES {
                let spot = price * (0.3 + 0.01 * dice.below(30) as f64);
                for (capacity_type, price) in [("on-demand", price), ("spot", spot)] {
                    offerings.push(Offering {
                        zone: zone.to_owned(),
                        capacity_type: capacity_type.to_owned(),
                        price,
                        available: true,
                        reservation: None,
                    });
                }
            }
            types.push(InstanceType {
                name: format!("f{family:02}.{cores:02}"),
                labels: [(labels::ARCH.to_owned(), arch.to_owned())].into(),
                offerings,
                allocatable: Resources { cpu, memory, ..capacity.clone() },
                capacity,
            });
        }
    }
    types
}
