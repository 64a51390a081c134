//! The filters against a plain reading of the rules: every pod looked at for every node.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pod::{PodTerm, Spread};

/// Small numbers that a case is made of.
struct Choices {
    bytes: Vec<u8>,
    next: usize,
}

impl Choices {
    fn below(&mut self, n: u8) -> u8 {
        self.next += 1;
        self.bytes[(self.next - 1) % self.bytes.len()] % n
    }

    fn of(&mut self, list: &[&str]) -> String {
        list[usize::from(self.below(u8::try_from(list.len()).unwrap()))].to_owned()
    }

    fn term(&mut self) -> Value {
        let mut term = json!({"topologyKey": self.of(&["host", "zone", "rack"])});
        term["labelSelector"] = match self.below(6) {
            0 => json!({}),
            1 => json!({"matchExpressions": [
                {"key": "app", "operator": "NotIn", "values": [self.of(&["x", "y"])]}]}),
            2 => Value::Null,
            _ => json!({"matchLabels": {"app": self.of(&["x", "y", "z"])}}),
        };
        match self.below(4) {
            0 => term["namespaceSelector"] = json!({"matchLabels": {"team": "t"}}),
            1 => term["namespaces"] = json!([self.of(&["m", "n"])]),
            _ => {}
        }
        term
    }

    fn terms(&mut self) -> Value {
        (0..self.below(4).saturating_sub(1)).map(|_| self.term()).collect()
    }

    fn pod(&mut self, constrained: bool) -> Pod {
        let mut spec = json!({"affinity": {}});
        if constrained {
            for kind in ["podAffinity", "podAntiAffinity"] {
                spec["affinity"][kind] =
                    json!({"requiredDuringSchedulingIgnoredDuringExecution": self.terms()});
            }
            let spreads = (0..self.below(4).saturating_sub(1)).map(|_| {
                let mut fields = self.term();
                let fields = fields.as_object_mut().unwrap();
                fields.remove("namespaces");
                fields.remove("namespaceSelector");
                fields.insert("maxSkew".into(), (1 + self.below(2)).into());
                fields.insert("minDomains".into(), (1 + self.below(3)).into());
                fields.insert("whenUnsatisfiable".into(), "DoNotSchedule".into());
                fields.insert("nodeAffinityPolicy".into(), self.of(&["Honor", "Ignore"]).into());
                fields.insert("nodeTaintsPolicy".into(), self.of(&["Honor", "Ignore"]).into());
                Value::Object(fields.clone())
            });
            spec["topologySpreadConstraints"] = spreads.collect();
            if self.below(3) == 0 {
                spec["nodeSelector"] = json!({"rack": "r"});
            }
        }
        let mut pod = pod(&self.of(&["m", "n"]), json!({"app": self.of(&["x", "y", "z"])}), spec);
        pod.deleting = self.below(6) == 0;
        pod
    }

    fn node(&mut self, place: Place) -> Node {
        let mut labels = json!({"host": format!("h{place}")});
        for (key, value) in [("zone", ["a", "b", "c", ""]), ("rack", ["r", "s", "r", ""])] {
            let value = self.of(&value);
            if !value.is_empty() {
                labels[key] = value.into();
            }
        }
        let mut node = node(&format!("h{place}"), labels);
        if self.below(4) == 0 {
            let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
            node.taints = serde_json::from_value(taints).unwrap();
        }
        node
    }
}

type Placed<'a> = Vec<(&'a Node, &'a Pod)>;

struct Naive<'a> {
    nodes: Vec<&'a Node>,
    placed: Placed<'a>,
    namespaces: &'a BTreeMap<String, Labels>,
}

impl Naive<'_> {
    fn has(&self, term: &PodTerm, pod: &Pod) -> bool {
        term.pods.has(&pod.namespace, &pod.labels, self.namespaces)
    }

    fn near(&self, key: &str, a: &Node, b: &Node) -> bool {
        a.labels.contains_key(key) && a.labels.get(key) == b.labels.get(key)
    }

    fn check(&self, pod: &Pod, node: &Node) -> Option<Reason> {
        for spread in pod.constraints.spread.iter().filter(|spread| spread.required) {
            if !node.labels.contains_key(&spread.topology_key) {
                return Some(Reason::SpreadLabel);
            }
            if self.skewed(pod, node, spread) {
                return Some(Reason::Spread);
            }
        }
        let terms = &pod.constraints.pod_affinity;
        let company = |other: &Pod| terms.iter().all(|term| self.has(term, other));
        let met = |term: &PodTerm| {
            self.placed
                .iter()
                .any(|(at, other)| company(other) && self.near(&term.topology_key, at, node))
        };
        let anywhere = self.placed.iter().any(|(at, other)| {
            company(other) && terms.iter().any(|term| at.labels.contains_key(&term.topology_key))
        });
        let keys = terms.iter().all(|term| node.labels.contains_key(&term.topology_key));
        if !terms.is_empty() && !(keys && (terms.iter().all(met) || (!anywhere && company(pod)))) {
            return Some(Reason::PodAffinity);
        }
        let clash = |ours: bool| {
            self.placed.iter().any(|(at, other)| {
                let (who, whom) = if ours { (pod, *other) } else { (*other, pod) };
                who.constraints
                    .pod_anti_affinity
                    .iter()
                    .any(|term| self.has(term, whom) && self.near(&term.topology_key, at, node))
            })
        };
        if clash(true) {
            return Some(Reason::PodAntiAffinity);
        }
        clash(false).then_some(Reason::ExistingAntiAffinity)
    }

    fn skewed(&self, pod: &Pod, node: &Node, spread: &Spread) -> bool {
        let constraints = &pod.constraints;
        let counts = |node: &Node| {
            let required = constraints.spread.iter().filter(|spread| spread.required);
            let all = required.map(|s| &s.topology_key).all(|key| node.labels.contains_key(key));
            let selected =
                constraints.node_selector.iter().all(|(k, v)| node.labels.get(k) == Some(v));
            all && (selected || !spread.honors_affinity)
                && (node.taints.is_empty() || !spread.honors_taints)
        };
        let mut domains: BTreeMap<&str, u32> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| counts(node)) {
            domains.insert(&node.labels[&spread.topology_key], 0);
        }
        let selects = |other: &Pod| {
            spread.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels))
        };
        let everything = spread.selector.as_ref().is_some_and(|selector| selector.0.is_empty());
        for (at, other) in self.placed.iter().filter(|(at, _)| counts(at)) {
            if !everything && !other.deleting && other.namespace == pod.namespace && selects(other)
            {
                *domains.get_mut(at.labels[&spread.topology_key].as_str()).unwrap() += 1;
            }
        }
        let few = domains.len() < spread.min_domains as usize;
        let fewest = if few { 0 } else { *domains.values().min().unwrap() };
        let here = domains.get(node.labels[&spread.topology_key].as_str()).unwrap_or(&0);
        here + u32::from(selects(pod)) > fewest + spread.max_skew
    }
}

fn compare(world: &mut World, pod: &Pod, choices: &mut Choices) {
    let verdicts = world.verdicts(pod);
    let filters = world.index.filters(pod, |place| world.eligible(pod, place));
    let nodes: Vec<(Place, &Node)> = world
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(place, node)| Some((place, node.as_ref()?)))
        .collect();
    let there = |place: &Place| world.nodes.get(*place)?.as_ref();
    let placed: Placed<'_> =
        world.pods.iter().filter_map(|(place, pod)| Some((there(place)?, pod))).collect();
    let namespaces = &world.index.namespaces;
    let plain = Naive { nodes: nodes.iter().map(|(_, node)| *node).collect(), placed, namespaces };
    for ((_, node), verdict) in nodes.iter().zip(&verdicts) {
        assert_eq!(
            *verdict,
            plain.check(pod, node),
            "{pod:?} on {node:?} among {:?}",
            plain.placed
        );
    }
    // Somebody comes to a node, and who was there before goes.
    let Some((place, node)) = nodes.get(usize::from(choices.below(5))) else { return };
    let newcomer = choices.pod(true);
    let mut tried = filters.clone();
    let mut index = world.index.clone();
    index.announce(&newcomer, world.labels(), world.pods.iter().map(|(place, pod)| (*place, pod)));
    tried.add(&index, pod, &newcomer, *place);
    let mut changed = Naive { placed: vec![(node, &newcomer)], ..plain };
    for (at, other) in &world.pods {
        match there(at) {
            Some(_) if at == place => tried.remove(&index, pod, other, *place),
            Some(node) => changed.placed.push((node, other)),
            None => {}
        }
    }
    assert_eq!(tried.check(&index, *place), changed.check(pod, node), "{pod:?} {newcomer:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn filters_say_what_the_rules_say(bytes in prop::collection::vec(any::<u8>(), 20..400)) {
        let mut choices = Choices { bytes, next: 0 };
        let mut world = World::default();
        for place in 0..1 + usize::from(choices.below(5)) {
            let node = choices.node(place);
            world.set_node(place, Some(node));
        }
        for _ in 0..choices.below(40) {
            match choices.below(10) {
                0 if !world.pods.is_empty() => {
                    let at = usize::from(choices.below(250)) % world.pods.len();
                    world.remove(at);
                }
                1 => {
                    let place = usize::from(choices.below(5));
                    let node = (choices.below(3) > 0).then(|| choices.node(place));
                    world.set_node(place, node);
                }
                2 => {
                    let labels = BTreeMap::from([("team".to_owned(), choices.of(&["t", "u"]))]);
                    let labels = (choices.below(3) > 0).then_some(&labels);
                    let pods = world.pods.iter().map(|(place, pod)| (*place, pod));
                    world.index.set_namespace(&choices.of(&["m", "n"]), labels, pods);
                }
                3 | 4 => {
                    let pod = choices.pod(true);
                    compare(&mut world, &pod, &mut choices);
                }
                _ => {
                    let constrained = choices.below(2) == 0;
                    let pod = choices.pod(constrained);
                    world.add(usize::from(choices.below(5)), pod);
                }
            }
        }
        let pod = choices.pod(true);
        compare(&mut world, &pod, &mut choices);
    }
}
