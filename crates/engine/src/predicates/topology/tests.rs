mod naive;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use super::*;
use crate::pod::Pod;
use crate::predicates::Reason;

/// Nodes with their pods, and an index that follows them.
#[derive(Default)]
struct World {
    index: Index,
    nodes: Vec<Option<Node>>,
    pods: Vec<(Place, Pod)>,
}

fn pod(namespace: &str, labels: Value, spec: Value) -> Pod {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c"}]);
    let pod: core::Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": namespace, "labels": labels}, "spec": spec,
    }))
    .unwrap();
    Pod::from_k8s(&pod).unwrap()
}

fn node(name: &str, labels: Value) -> Node {
    let labels = serde_json::from_value(labels).unwrap();
    Node { name: name.into(), labels, ..Node::default() }
}

impl World {
    fn set_node(&mut self, place: Place, node: Option<Node>) {
        if self.nodes.len() <= place {
            self.nodes.resize(place + 1, None);
        }
        self.index.set_node(place, node.as_ref().map(|node| &node.labels));
        self.nodes[place] = node;
    }

    fn labels(&self) -> impl Iterator<Item = (Place, &Labels)> + Clone {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(place, node)| Some((place, &node.as_ref()?.labels)))
    }

    fn add(&mut self, place: Place, pod: Pod) {
        let mut index = std::mem::take(&mut self.index);
        index.add(place, &pod, self.labels(), self.pods.iter().map(|(place, pod)| (*place, pod)));
        self.index = index;
        self.pods.push((place, pod));
    }

    fn remove(&mut self, at: usize) {
        let (place, pod) = self.pods.swap_remove(at);
        self.index.remove(place, &pod);
    }

    fn prepare(&mut self, pod: &Pod, defaults: Option<&[Selector]>) {
        let mut index = std::mem::take(&mut self.index);
        let pods = self.pods.iter().map(|(place, pod)| (*place, pod));
        index.prepare(pod, defaults, self.labels(), pods);
        self.index = index;
    }

    fn eligible(&self, pod: &Pod, place: Place) -> Eligible {
        Eligible::of(&pod.constraints, self.nodes[place].as_ref().unwrap())
    }

    /// What the filters say of each node.
    fn verdicts(&mut self, pod: &Pod) -> Vec<Option<Reason>> {
        self.prepare(pod, None);
        let filters = self.index.filters(pod, |place| self.eligible(pod, place));
        self.labels().map(|(place, _)| filters.check(&self.index, place)).collect()
    }
}

/// Nodes n0, n1, … in the zones given; `-` for none.
fn zones(zones: &[&str]) -> World {
    let mut world = World::default();
    for (place, zone) in zones.iter().enumerate() {
        let name = format!("n{place}");
        let mut labels = json!({HOSTNAME: name});
        if *zone != "-" {
            labels[ZONE] = (*zone).into();
        }
        world.set_node(place, Some(node(&name, labels)));
    }
    world
}

fn term(app: &str, key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn affinity(kind: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn spread(fields: Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}});
    constraint.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"topologySpreadConstraints": [constraint]})
}

#[test]
fn affinity_wants_all_its_terms_met_by_the_same_pods() {
    let mut world = zones(&["a", "a", "b", "-"]);
    let both = affinity("podAffinity", json!([term("db", ZONE), term("db", HOSTNAME)]));
    let follower = pod("n", json!({"app": "web"}), both);
    let nowhere = vec![Some(Reason::PodAffinity); 4];
    assert_eq!(world.verdicts(&follower), nowhere);
    world.add(0, pod("other", json!({"app": "db"}), json!({})));
    assert_eq!(world.verdicts(&follower), nowhere, "another namespace");
    world.add(0, pod("n", json!({"app": "db"}), json!({})));
    let only_there =
        [None, Some(Reason::PodAffinity), Some(Reason::PodAffinity), Some(Reason::PodAffinity)];
    assert_eq!(world.verdicts(&follower), only_there);
    let zonal = pod("n", json!({}), affinity("podAffinity", json!([term("db", ZONE)])));
    let in_zone = [None, None, Some(Reason::PodAffinity), Some(Reason::PodAffinity)];
    assert_eq!(world.verdicts(&zonal), in_zone);
}

#[test]
fn the_first_of_a_group_may_go_anywhere_with_the_key() {
    let mut world = zones(&["a", "b", "-"]);
    let own = pod("n", json!({"app": "web"}), affinity("podAffinity", json!([term("web", ZONE)])));
    assert_eq!(world.verdicts(&own), [None, None, Some(Reason::PodAffinity)]);
    world.add(1, own.clone());
    assert_eq!(world.verdicts(&own), [Some(Reason::PodAffinity), None, Some(Reason::PodAffinity)]);
}

#[test]
fn anti_affinity_holds_both_ways() {
    let mut world = zones(&["a", "a", "b"]);
    let shy =
        pod("n", json!({"app": "shy"}), affinity("podAntiAffinity", json!([term("web", ZONE)])));
    let web = pod("n", json!({"app": "web"}), json!({}));
    world.add(0, shy.clone());
    let existing = Some(Reason::ExistingAntiAffinity);
    assert_eq!(world.verdicts(&web), [existing.clone(), existing, None]);
    assert_eq!(world.index.shunned_sets(&web).len(), 1);
    assert_eq!(world.index.shunned_sets(&shy).len(), 0);
    world.remove(0);
    assert_eq!(world.verdicts(&web), [None, None, None]);
    assert_eq!(world.index.shunned_sets(&web).len(), 0);
    world.add(2, web);
    assert_eq!(world.verdicts(&shy), [None, None, Some(Reason::PodAntiAffinity)]);
}

#[test]
fn namespaces_are_selected_by_name_or_labels() {
    let mut world = zones(&["a", "b"]);
    let mut by_label = term("web", ZONE);
    by_label["namespaceSelector"] = json!({"matchLabels": {"team": "x"}});
    let shy = pod("n", json!({}), affinity("podAntiAffinity", json!([by_label])));
    world.add(0, pod("m", json!({"app": "web"}), json!({})));
    assert_eq!(world.verdicts(&shy), [None, None]);
    let labels = BTreeMap::from([("team".to_owned(), "x".to_owned())]);
    let pods = world.pods.iter().map(|(place, pod)| (*place, pod));
    assert!(world.index.set_namespace("m", Some(&labels), pods));
    assert_eq!(world.verdicts(&shy), [Some(Reason::PodAntiAffinity), None]);
    let mut everywhere = term("web", ZONE);
    everywhere["namespaces"] = json!(["m"]);
    let named = pod("n", json!({}), affinity("podAntiAffinity", json!([everywhere])));
    assert_eq!(world.verdicts(&named), [Some(Reason::PodAntiAffinity), None]);
}

#[test]
fn spread_keeps_the_skew() {
    let mut world = zones(&["a", "b", "-"]);
    let web = pod("n", json!({"app": "web"}), spread(json!({})));
    let label = Some(Reason::SpreadLabel);
    assert_eq!(world.verdicts(&web), [None, None, label.clone()]);
    world.add(0, web.clone());
    assert_eq!(world.verdicts(&web), [Some(Reason::Spread), None, label.clone()]);
    // Who does not count may join.
    let guest = pod("n", json!({"app": "guest"}), spread(json!({})));
    assert_eq!(world.verdicts(&guest), [None, None, label]);
    let mut leaving = web.clone();
    leaving.deleting = true;
    world.remove(0);
    world.add(0, leaving);
    assert_eq!(world.verdicts(&web)[0], None, "pods that leave do not count");
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let mut world = zones(&["a", "b"]);
    let web = pod("n", json!({"app": "web"}), spread(json!({"minDomains": 3})));
    world.add(0, web.clone());
    world.add(1, web.clone());
    assert_eq!(world.verdicts(&web), [Some(Reason::Spread), Some(Reason::Spread)]);
    world.set_node(2, Some(node("n2", json!({ZONE: "c"}))));
    assert_eq!(world.verdicts(&web), [Some(Reason::Spread), Some(Reason::Spread), None]);
}

#[test]
fn only_eligible_nodes_make_domains() {
    let mut world = zones(&["a", "b"]);
    let selecting = |policy: &str| {
        let mut spec = spread(json!({"nodeAffinityPolicy": policy}));
        spec["nodeSelector"] = json!({ZONE: "a"});
        pod("n", json!({"app": "web"}), spec)
    };
    world.add(0, pod("n", json!({"app": "web"}), json!({})));
    assert_eq!(world.verdicts(&selecting("Honor"))[0], None);
    assert_eq!(world.verdicts(&selecting("Ignore"))[0], Some(Reason::Spread));
    let mut tainted = node("n1", json!({ZONE: "b"}));
    tainted.taints = serde_json::from_value(json!([{"key": "k", "effect": "NoSchedule"}])).unwrap();
    world.set_node(1, Some(tainted));
    let web =
        |policy: &str| pod("n", json!({"app": "web"}), spread(json!({"nodeTaintsPolicy": policy})));
    assert_eq!(world.verdicts(&web("Honor"))[0], None);
    assert_eq!(world.verdicts(&web("Ignore"))[0], Some(Reason::Spread));
}

#[test]
fn match_label_keys_count_each_revision_for_itself() {
    let mut world = zones(&["a", "b"]);
    let of = |revision: &str| {
        let spec = spread(json!({"matchLabelKeys": ["revision"]}));
        pod("n", json!({"app": "web", "revision": revision}), spec)
    };
    world.add(0, of("1"));
    assert_eq!(world.verdicts(&of("1"))[0], Some(Reason::Spread));
    assert_eq!(world.verdicts(&of("2"))[0], None);
}

#[test]
fn preferred_terms_draw_both_ways() {
    let mut world = zones(&["a", "a", "b"]);
    let wish = |kind: &str| {
        json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "podAffinityTerm": term("db", ZONE)}]}}})
    };
    let db = pod("n", json!({"app": "db"}), json!({}));
    let fan = pod("n", json!({"app": "fan"}), wish("podAffinity"));
    let foe = pod("n", json!({"app": "foe"}), wish("podAntiAffinity"));
    let scores = |world: &mut World, pod: &Pod| {
        world.prepare(pod, None);
        world.index.affinity_scores(pod, &[0, 1, 2])
    };
    assert_eq!(scores(&mut world, &fan), None);
    world.add(0, db.clone());
    assert_eq!(scores(&mut world, &fan), Some(vec![100, 100, 0]));
    assert_eq!(scores(&mut world, &foe), Some(vec![0, 0, 100]));
    world.remove(0);
    world.add(2, fan);
    assert_eq!(scores(&mut world, &db), Some(vec![0, 0, 100]));
    world.add(2, foe.clone());
    assert_eq!(scores(&mut world, &db), None);
    world.add(2, foe);
    assert_eq!(scores(&mut world, &db), Some(vec![100, 100, 0]));
}

#[test]
fn the_default_spreads_over_hosts_and_zones() {
    let mut world = zones(&["a", "a", "b", "-"]);
    let web = pod("n", json!({"app": "web"}), json!({}));
    let selector = Selector::from_k8s(
        &serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap(),
    );
    let defaults = std::slice::from_ref(&selector);
    world.add(0, web.clone());
    world.prepare(&web, Some(defaults));
    let scores = world
        .index
        .spread_scores(&web, Some(defaults), &[0, 1, 2, 3], |place| world.eligible(&web, place));
    // ln(6) for the host and ln(5) for the zone, plus 2 and 4; n3 has no zone.
    assert_eq!(scores, Some(vec![100 * (9 + 2 - 9) / 9, 100 * (11 - 8) / 9, 100 * 5 / 9, 100]));
    assert_eq!(world.index.spread_scores(&web, None, &[0, 1], |p| world.eligible(&web, p)), None);
}
