//! Plans made again and again while things happen: nothing is ordered twice, limits hold at all
//! times, and equal clusters are planned for equally.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod world;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use aerostat_api::{NodePool, Quantity};
use aerostat_engine::instance::InstanceType;
use aerostat_engine::pod::{Owner, Pod};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Promise, Stage};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use world::World;
use world::read::catalog;

/// Something that happens between two plans.
#[derive(Clone, Debug)]
enum Event {
    /// Pods of a class turn up, seen by the scheduler.
    Arrive { class: usize, count: u32 },
    /// An owner makes pods: a few are there, the others are promised.
    Scale { class: usize, created: u32, promised: u32 },
    /// An owner creates more of the pods that it promised.
    Create { count: u32 },
    /// The oldest claim under way becomes a node, and the pods that were planned for it are bound.
    Join,
    /// A pod is deleted.
    Leave { pod: usize },
}

/// Requests of the classes: cpu in milli-cores, memory in MiB.
const CLASSES: [(i64, i64); 6] =
    [(250, 512), (500, 1000), (1900, 3000), (1000, 7000), (3500, 3500), (100, 6000)];

fn event() -> impl Strategy<Value = Event> {
    let class = 0..CLASSES.len();
    prop_oneof![
        4 => (class.clone(), 1..8_u32).prop_map(|(class, count)| Event::Arrive { class, count }),
        2 => (class, 1..3_u32, 0..20_u32)
            .prop_map(|(class, created, promised)| Event::Scale { class, created, promised }),
        2 => (1..6_u32).prop_map(|count| Event::Create { count }),
        3 => Just(Event::Join),
        1 => (0..100_usize).prop_map(|pod| Event::Leave { pod }),
    ]
}

/// A world of one pool, and what has happened in it.
struct Story {
    world: World,
    now: Timestamp,
    pods: u32,
    /// Whether a pod was deleted. The promises of an owner whose last waiting pod is deleted do
    /// not count for the moment, so others may get their room.
    some_left: bool,
}

impl Story {
    fn new(limits: &[(&str, i64)]) -> Self {
        let types = catalog(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), "tokyo");
        let mut types: Vec<InstanceType> =
            types.into_iter().filter(|kind| kind.capacity.cpu <= 16_000).collect();
        types.sort_by(|a, b| a.name.cmp(&b.name));
        let types = Arc::new(types);
        let pool: NodePool = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            }}},
        }))
        .unwrap();
        let mut world = World::new(types.clone());
        let mut pool = world::pool(&pool, &types);
        // What is ordered to save money is another story.
        pool.policy = "WhenEmpty".to_owned();
        pool.limits = limits
            .iter()
            .map(|(name, units)| ((*name).to_owned(), Quantity::from_units(*units)))
            .collect();
        world.snapshot.pools.push(pool);
        let now = "2025-01-06T10:00:00Z".parse().unwrap();
        Self { world, now, pods: 0, some_left: false }
    }

    fn happen(&mut self, event: &Event) {
        self.now += SignedDuration::from_secs(10);
        match event {
            Event::Arrive { class, count } => {
                for _ in 0..*count {
                    let pod = self.pod(*class, None);
                    self.world.add_pod(pod);
                }
            }
            Event::Scale { class, created, promised } => {
                let name = format!("owner-{}", self.pods);
                let owner = Owner { kind: "ReplicaSet".to_owned(), uid: name.clone(), name };
                for _ in 0..*created {
                    let pod = self.pod(*class, Some(owner.clone()));
                    self.world.add_pod(pod);
                }
                let pod = Arc::new(self.pod(*class, Some(owner)));
                self.world.snapshot.promised.push(Promise { pod, count: *promised });
            }
            Event::Create { count } => self.create(*count),
            Event::Join => {
                // Owners are done long before a machine is up.
                self.create(u32::MAX);
                self.join();
            }
            Event::Leave { pod } => {
                self.some_left = true;
                let pods = &mut self.world.snapshot.pods;
                if !pods.is_empty() {
                    pods.remove(pod % pods.len());
                }
            }
        }
    }

    /// Owners create pods that they have promised.
    fn create(&mut self, count: u32) {
        for _ in 0..count {
            let mut promised = self.world.snapshot.promised.iter_mut();
            let Some(promise) = promised.find(|promise| promise.count > 0) else { return };
            promise.count -= 1;
            let mut pod = (*promise.pod).clone();
            self.pods += 1;
            pod.name = format!("pod-{:04}", self.pods);
            self.world.add_pod(pod);
        }
    }

    /// The oldest claim becomes a node; the scheduler binds what the plan put there.
    fn join(&mut self) {
        let (plan, _) = self.world.plan(self.now);
        let saves = self.world.snapshot.pools[0].policy != "WhenEmpty";
        assert!(plan.launches.is_empty() || self.some_left || saves);
        self.world.carry_out(&plan, self.now);
        let snapshot = &mut self.world.snapshot;
        let Some(state) = snapshot.nodes.iter_mut().find(|state| !state.has_node) else { return };
        let claim = state.node.name.clone();
        state.node.name = format!("node-{claim}");
        state.has_node = true;
        state.stage = Stage::Initialized;
        state.initialized = Some(self.now);
        if let Some(machine) = self.world.becomes.remove(&claim) {
            state.price = Some(machine.price);
            state.capacity = machine.capacity;
            state.node.labels = machine.labels;
            state.node.allocatable = machine.allocatable;
        }
        let (node, mut free) = (state.node.name.clone(), state.node.allocatable.clone());
        for pod in &mut snapshot.pods {
            let key = (pod.namespace.clone(), pod.name.clone());
            if snapshot.nominations.get(&key) == Some(&claim) && free.covers(&pod.requests) {
                free.subtract(&pod.requests);
                snapshot.nominations.remove(&key);
                let bound = Pod { node: Some(node.clone()), ..(**pod).clone() };
                *pod = Arc::new(bound);
            }
        }
    }

    fn pod(&mut self, class: usize, owner: Option<Owner>) -> Pod {
        self.pods += 1;
        let (cpu, memory) = CLASSES[class];
        let requests = Resources { cpu, memory: memory << 20, pods: 1, ..Resources::default() };
        Pod {
            namespace: "default".to_owned(),
            name: format!("pod-{:04}", self.pods),
            uid: String::new(),
            labels: Default::default(),
            annotations: Default::default(),
            owner,
            scored: requests.clone(),
            requests,
            constraints: Default::default(),
            priority: i32::try_from(class % 2).unwrap(),
            preempts: false,
            node: None,
            nominated_node: None,
            created: self.now,
            started: None,
            unschedulable_since: Some(self.now),
            gated: false,
            deleting: false,
            terminal: false,
            ends: None,
            grace_seconds: 30,
            claims: Vec::new(),
            unsupported: Vec::new(),
        }
    }

    fn pending(&self) -> usize {
        self.world.snapshot.pods.iter().filter(|pod| pod.node.is_none()).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    #[test]
    fn nothing_is_ordered_twice(events in proptest::collection::vec(event(), 1..18)) {
        let mut story = Story::new(&[]);
        for event in events {
            story.happen(&event);
            let (plan, report) = story.world.plan(story.now);
            prop_assert!(report.unplaced.is_empty(), "{report:?}");
            let adds = matches!(event, Event::Arrive { .. } | Event::Scale { .. });
            if !adds && !story.some_left {
                prop_assert_eq!(plan.launches.len(), 0, "after {:?}", event);
            }
            story.world.carry_out(&plan, story.now);
            let (again, _) = story.world.plan(story.now);
            prop_assert_eq!(again.launches.len(), 0);
            prop_assert_eq!(again.nominations.len(), story.pending());
        }
    }

    #[test]
    fn a_restart_orders_at_most_for_pods_that_no_claim_was_ordered_for(
        events in proptest::collection::vec(event(), 1..18),
    ) {
        let mut story = Story::new(&[]);
        let mut guests = BTreeSet::new();
        for event in events.iter().filter(|event| !matches!(event, Event::Join)) {
            story.happen(event);
            let (plan, _) = story.world.plan(story.now);
            let known = &story.world.snapshot.nominations;
            let new = plan.nominations.iter().filter(|n| !known.contains_key(&n.pod));
            guests.extend(new.map(|nomination| nomination.pod.clone()));
            story.world.carry_out(&plan, story.now);
        }
        story.world.snapshot.nominations.clear();
        let (plan, _) = story.world.plan(story.now);
        let ordered: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
        prop_assert!(ordered <= guests.len());
    }

    #[test]
    fn saving_money_comes_to_rest(events in proptest::collection::vec(event(), 1..18)) {
        prop_assert!(comes_to_rest(&events), "it never ends");
    }

    #[test]
    fn limits_hold(
        events in proptest::collection::vec(event(), 1..18),
        cpu in 0..40_i64,
        nodes in 0..10_i64,
    ) {
        let mut story = Story::new(&[("cpu", cpu), ("nodes", nodes)]);
        for event in events {
            story.happen(&event);
            let (plan, _) = story.world.plan(story.now);
            story.world.carry_out(&plan, story.now);
            let states = &story.world.snapshot.nodes;
            let held: i64 = states.iter().map(|state| state.capacity.cpu).sum();
            prop_assert!(held <= cpu * 1000, "{held} of {cpu} cores");
            prop_assert!(states.len() <= usize::try_from(nodes).unwrap());
        }
    }
}

/// Whether saving money on what `events` leave comes to its end.
fn comes_to_rest(events: &[Event]) -> bool {
    let mut story = Story::new(&[]);
    story.world.snapshot.pools[0].policy = "WhenEmptyOrUnderutilized".to_owned();
    for event in events {
        story.happen(event);
        let (plan, _) = story.world.plan(story.now);
        story.world.carry_out(&plan, story.now);
    }
    story.create(u32::MAX);
    for _ in 0..200 {
        story.now += SignedDuration::from_secs(60);
        story.join();
        let (plan, report) = story.world.plan(story.now);
        assert!(report.unplaced.is_empty(), "{report:?}");
        let acts = plan.launches.len() + plan.terminations.len() + plan.marks.len();
        let is_up = story.world.snapshot.nodes.iter().all(|state| state.has_node);
        if acts == 0 && plan.releases.is_empty() && is_up {
            return true;
        }
        story.world.carry_out(&plan, story.now);
    }
    false
}
