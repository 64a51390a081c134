//! Which of the nodes that can take a pod is best: the default scores with their weights.
//!
//! Source: kubernetes `pkg/scheduler/framework/plugins` (tainttoleration, nodeaffinity,
//! noderesources, imagelocality) and `pkg/scheduler/apis/config/v1/default_plugins.go`. What other
//! pods make of a node comes from the engine's `predicates::topology`.

use aerostat_clock::Stream;
use aerostat_engine::node::{Node, Usage};
use aerostat_engine::predicates;
use rand::RngExt;

use super::cache::{Cache, Slot};
use super::pod::PodInfo;

const MAX: i64 = 100;
const TAINT_WEIGHT: i64 = 3;
const AFFINITY_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
/// Images smaller than this do not count (bytes).
const IMAGE_MIN: i64 = 23 * 1024 * 1024;
/// Images larger than this for each container do not count more (bytes).
const IMAGE_MAX: i64 = 1000 * 1024 * 1024;

/// What speaks for a node, before it is compared with the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scores {
    /// How many `PreferNoSchedule` taints the pod does not tolerate.
    pub(super) taints: i64,
    /// The weights of the preferred affinity terms that match.
    pub(super) affinity: i64,
    /// LeastAllocated and BalancedAllocation, each 0 to 100.
    pub(super) resources: i64,
    /// ImageLocality, 0 to 100.
    pub(super) image: i64,
}

impl Scores {
    pub(super) fn of(info: &PodInfo, node: &Node, usage: &Usage, cache: &Cache) -> Self {
        let constraints = &info.pod.constraints;
        let taints = predicates::untolerated_preferences(&constraints.tolerations, &node.taints);
        let affinity = constraints.preferred_affinity.iter().filter(|preferred| {
            predicates::matches_term(&preferred.preference, Some(&node.name), &node.labels)
        });
        Self {
            taints: i64::try_from(taints).unwrap_or(i64::MAX),
            affinity: affinity.map(|preferred| i64::from(preferred.weight)).sum(),
            resources: least_allocated(info, node, usage) + balanced(info, node, usage),
            image: image_locality(info, node, cache),
        }
    }
}

/// What other pods make of the nodes that fit, 0 to 100 for each in turn; `None` if they are equal.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// InterPodAffinity.
    pub(super) affinity: Option<Vec<i64>>,
    /// PodTopologySpread.
    pub(super) spread: Option<Vec<i64>>,
}

impl Wishes {
    fn total(&self, at: usize) -> i64 {
        let of = |scores: &Option<Vec<i64>>| scores.as_ref().map_or(0, |scores| scores[at]);
        POD_AFFINITY_WEIGHT * of(&self.affinity) + SPREAD_WEIGHT * of(&self.spread)
    }
}

/// The best of the nodes that fit; equals are drawn from.
pub(super) fn best(fits: &[(Slot, Scores)], wishes: &Wishes, stream: &mut Stream) -> Option<Slot> {
    if let [(only, _)] = fits {
        return Some(*only);
    }
    let most_taints = fits.iter().map(|(_, scores)| scores.taints).max()?;
    let most_affinity = fits.iter().map(|(_, scores)| scores.affinity).max()?;
    let total = |scores: &Scores| {
        let taints = if most_taints == 0 { MAX } else { MAX - MAX * scores.taints / most_taints };
        let affinity = if most_affinity == 0 { 0 } else { MAX * scores.affinity / most_affinity };
        TAINT_WEIGHT * taints + AFFINITY_WEIGHT * affinity + scores.resources + scores.image
    };
    let mut best = i64::MIN;
    let mut equals = Vec::new();
    for (at, (slot, scores)) in fits.iter().enumerate() {
        let total = total(scores) + wishes.total(at);
        if total > best {
            best = total;
            equals.clear();
        }
        if total == best {
            equals.push(*slot);
        }
    }
    let draw = if equals.len() > 1 { stream.random_range(0..equals.len()) } else { 0 };
    equals.get(draw).copied()
}

/// The more is left, the better.
fn least_allocated(info: &PodInfo, node: &Node, usage: &Usage) -> i64 {
    let pairs = [
        (usage.scored.cpu + info.pod.scored.cpu, node.allocatable.cpu),
        (usage.scored.memory + info.pod.scored.memory, node.allocatable.memory),
    ];
    let scores = pairs.iter().filter(|(_, capacity)| *capacity > 0).map(|(used, capacity)| {
        let left = i128::from((capacity - used).max(0));
        i64::try_from(left * i128::from(MAX) / i128::from(*capacity)).unwrap_or(0)
    });
    let (sum, count) = scores.fold((0, 0), |(sum, count), score| (sum + score, count + 1));
    if count == 0 { 0 } else { sum / count }
}

/// The more evenly cpu and memory are used afterwards, compared with before, the better.
fn balanced(info: &PodInfo, node: &Node, usage: &Usage) -> i64 {
    let requests = &info.pod.requests;
    if requests.cpu == 0 && requests.memory == 0 {
        return 0;
    }
    let balance = |cpu: i64, memory: i64| {
        let pairs = [(cpu, node.allocatable.cpu), (memory, node.allocatable.memory)];
        let fractions: Vec<f64> = pairs
            .iter()
            .filter(|(_, capacity)| *capacity > 0)
            .map(|(used, capacity)| (*used as f64 / *capacity as f64).min(1.0))
            .collect();
        let deviation = match fractions[..] {
            [a, b] => ((a - b) / 2.0).abs(),
            _ => 0.0,
        };
        ((1.0 - deviation) * MAX as f64) as i64
    };
    let used = &usage.requested;
    let with = balance(used.cpu + requests.cpu, used.memory + requests.memory);
    let without = balance(used.cpu, used.memory);
    MAX / 2 + (MAX / 2 + with - without) / 2
}

/// The more of the pod's images are there, by size, the better; images on few nodes count less.
pub(super) fn image_locality(info: &PodInfo, node: &Node, cache: &Cache) -> i64 {
    let nodes = cache.len().max(1);
    let size = |image: &String| {
        let size = *node.images.get(image)?;
        let spread = cache.nodes_with_image(image) as f64 / nodes as f64;
        Some((size as f64 * spread) as i64)
    };
    let sum: i64 = info.images.iter().filter_map(size).sum();
    let most = IMAGE_MAX * i64::try_from(info.images.len()).unwrap_or(1).max(1);
    MAX * (sum.clamp(IMAGE_MIN, most) - IMAGE_MIN) / (most - IMAGE_MIN)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(requests: serde_json::Value) -> PodInfo {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [
                {"name": "c", "image": "perl:5.34.0", "resources": {"requests": requests}}]},
        }))
        .unwrap();
        PodInfo::read(&pod).unwrap()
    }

    fn node(name: &str) -> Node {
        let mut node = Node { name: name.into(), ..Node::default() };
        node.allocatable.cpu = 2000;
        node.allocatable.memory = 4 << 30;
        node
    }

    #[test]
    fn room_and_balance_are_scored() {
        let pod = pod(json!({"cpu": "1", "memory": "1Gi"}));
        let mut usage = Usage::default();
        // Half of the cpu and three quarters of the memory are left.
        assert_eq!(least_allocated(&pod, &node("n"), &usage), (50 + 75) / 2);
        // Balance falls from 100 to 87.
        assert_eq!(balanced(&pod, &node("n"), &usage), 50 + (50 + 87 - 100) / 2);
        usage.scored.cpu = 5000;
        assert_eq!(least_allocated(&pod, &node("n"), &usage), 75 / 2);
    }

    #[test]
    fn a_pod_that_asks_for_nothing_counts_with_the_minima_and_balances_nothing() {
        let pod = pod(json!({}));
        // 100m of 2000m, 200Mi of 4096Mi.
        assert_eq!(least_allocated(&pod, &node("n"), &Usage::default()), 95);
        assert_eq!(balanced(&pod, &node("n"), &Usage::default()), 0);
    }

    #[test]
    fn an_image_counts_by_size_and_spread() {
        let mut cache = Cache::default();
        let mut warm = node("warm");
        warm.images.insert("perl:5.34.0".into(), 336_374_010);
        cache.set_node(warm.clone());
        cache.set_node(node("cold"));
        let pod = pod(json!({}));
        assert_eq!(image_locality(&pod, &warm, &cache), 14);
        assert_eq!(image_locality(&pod, &node("cold"), &cache), 0);
    }
}
