//! Pods that wait, made from Kubernetes' JSON, and numbers that look random.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_engine::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The moment of all plans.
pub fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1)
}

/// Pods in the order of their names.
#[derive(Default)]
pub struct Pods {
    /// Reading a pod is slow; most are alike.
    read: BTreeMap<String, Pod>,
    pub list: Vec<Arc<Pod>>,
}

/// What pods ask for: millicores and MiB.
pub type Size = (u64, u64);

impl Pods {
    /// Adds equal pods that wait.
    pub fn add_all(&mut self, count: usize, metadata: &Value, spec: &Value, size: Size) {
        for _ in 0..count {
            self.add(metadata, spec, size);
        }
    }

    /// Adds a pod that waits; its name is its number.
    pub fn add(&mut self, metadata: &Value, spec: &Value, (cpu, memory): Size) -> &mut Pod {
        let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
        let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
        let key = format!("{metadata}{spec}{requests}");
        let pod = self.read.entry(key).or_insert_with(|| {
            let mut spec = spec.clone();
            spec["containers"] = containers;
            let mut metadata = metadata.clone();
            metadata["namespace"] = "default".into();
            metadata["name"] = "pod".into();
            let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec}));
            let mut pod = Pod::from_k8s(&pod.unwrap()).unwrap();
            pod.unschedulable_since = Some(Timestamp::UNIX_EPOCH);
            pod
        });
        let number = self.list.len();
        let name = format!("pod-{number:06}");
        self.list.push(Arc::new(Pod { uid: name.clone(), name, ..pod.clone() }));
        self.list.last_mut().and_then(Arc::get_mut).unwrap()
    }
}

/// Numbers that look random; the same ones in every run.
pub struct Dice(pub u64);

impl Dice {
    /// One of `sides`.
    pub fn of<T: Copy>(&mut self, sides: &[T]) -> T {
        sides[self.below(sides.len())]
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// A required term of pod affinity or anti-affinity.
pub fn term(kind: &str, key: &str, labels: &Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": labels}}]}}})
}

/// A required spread constraint.
pub fn spread(key: &str, max_skew: u32, labels: &Value) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels}}]})
}
