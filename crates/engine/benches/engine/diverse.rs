//! Karpenter's benchmark: its types, its pool and its pods.
//!
//! Sources: kubernetes-sigs/karpenter v1.14.1
//! `pkg/controllers/provisioning/scheduling/scheduling_benchmark_test.go` (pods, limits) and
//! `pkg/cloudprovider/fake/instancetype.go` (types). Values are drawn from the same lists in the
//! same order, by another generator.

use std::sync::Arc;

use aerostat_api::{NodePool, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Pool, Snapshot};
use serde_json::{Value, json};

use crate::pods::{Dice, Pods, Size, spread, term};
use crate::world;

const CPU: [u64; 5] = [100, 250, 500, 1000, 1500];
const MEMORY: [u64; 6] = [100, 256, 512, 1024, 2048, 4096];
const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Fifths without constraints, spread over zones, spread over machines, together in a zone, and
/// apart on machines; what is left over without constraints.
pub fn diverse(count: usize) -> Snapshot {
    let mut dice = Dice(42);
    let mut pods = Pods::default();
    let my_label = |dice: &mut Dice| json!({"my-label": dice.of(&LETTERS)});
    let mut add = |dice: &mut Dice, labels: &Value, spec: &Value| {
        let size = size(dice);
        pods.add(&json!({"labels": labels}), spec, size);
    };
    let fifth = count / 5;
    for _ in 0..fifth {
        let labels = my_label(&mut dice);
        add(&mut dice, &labels, &json!({}));
    }
    for key in [labels::ZONE, labels::HOSTNAME] {
        for _ in 0..fifth {
            let (labels, counted) = (my_label(&mut dice), my_label(&mut dice));
            add(&mut dice, &labels, &spread(key, 1, &counted));
        }
    }
    for _ in 0..fifth {
        // The name as it is there.
        let labels = json!({"my-affininity": dice.of(&LETTERS)});
        add(&mut dice, &labels, &term("podAffinity", labels::ZONE, &labels));
    }
    for _ in 0..fifth {
        let labels = json!({"app": "nginx"});
        add(&mut dice, &labels, &term("podAntiAffinity", labels::HOSTNAME, &labels));
    }
    for _ in 0..count - 5 * fifth {
        let labels = my_label(&mut dice);
        add(&mut dice, &labels, &json!({}));
    }
    snapshot(pods)
}

/// Equal pods that would like a zone, no other one of them in the zone, and none on the machine.
pub fn preferring(count: usize) -> Snapshot {
    let labels = json!({"app": "nginx"});
    let apart = |weight: u32, key: &str| {
        let selector = json!({"matchLabels": labels});
        json!({"weight": weight, "podAffinityTerm": {"labelSelector": selector, "topologyKey": key}})
    };
    let zone = json!({"key": labels::ZONE, "operator": "In", "values": ["test-zone-1"]});
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let spec = json!({"affinity": {
        "nodeAffinity": {preferred: [{"weight": 1, "preference": {"matchExpressions": [zone]}}]},
        "podAntiAffinity": {preferred: [apart(10, labels::ZONE), apart(1, labels::HOSTNAME)]},
    }});
    let mut pods = Pods::default();
    // What Karpenter's generator draws first.
    pods.add_all(count, &json!({"labels": labels}), &spec, (100, 4096));
    snapshot(pods)
}

fn size(dice: &mut Dice) -> Size {
    (dice.of(&CPU), dice.of(&MEMORY))
}

fn snapshot(pods: Pods) -> Snapshot {
    Snapshot { pods: pods.list, pools: vec![pool(types(400))], ..Snapshot::default() }
}

fn pool(types: Vec<InstanceType>) -> Pool {
    let pool: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "limits": {"cpu": "10000000", "memory": "10000000Gi"},
            "template": {"spec": {
                "nodeClassRef": {"group": "test", "kind": "Class", "name": "default"},
                "requirements": [],
            }},
        },
    }))
    .unwrap();
    world::pool(&pool, &Arc::new(types))
}

/// Type `i` has `i` cores, `2 i` GiB, takes `10 i` pods and has five offerings at one price.
fn types(count: usize) -> Vec<InstanceType> {
    const PLACES: [(&str, &str); 5] = [
        ("spot", "test-zone-1"),
        ("spot", "test-zone-2"),
        ("on-demand", "test-zone-1"),
        ("on-demand", "test-zone-2"),
        ("on-demand", "test-zone-3"),
    ];
    let kind = |number: usize| {
        let size = number as i64 + 1;
        let memory = (2 * size) << 30;
        let price = 0.1 * size as f64 + 0.1 * memory as f64 / 1e9;
        let capacity =
            Resources { cpu: 1000 * size, memory, pods: 10 * size, ..Resources::default() };
        let reserved = Resources { cpu: 100, memory: 10 << 20, ..Resources::default() };
        let mut allocatable = capacity.clone();
        allocatable.subtract(&reserved);
        let offering = |(capacity_type, zone): (&str, &str)| Offering {
            zone: zone.to_owned(),
            capacity_type: capacity_type.to_owned(),
            price,
            available: true,
            reservation: None,
        };
        InstanceType {
            name: format!("fake-it-{number}"),
            labels: [(labels::ARCH.to_owned(), "amd64".to_owned())].into(),
            offerings: PLACES.into_iter().map(offering).collect(),
            capacity,
            allocatable,
        }
    };
    let mut types: Vec<InstanceType> = (0..count).map(kind).collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types
}
