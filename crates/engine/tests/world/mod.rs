//! A small cluster for tests: read from YAML, planned for, and moved on by carrying the plan out.

#![allow(dead_code, reason = "each test uses its part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod read;
pub mod render;

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_api::{NodePool, labels};
use aerostat_engine::check::check;
use aerostat_engine::cost::{move_price, spending_limit};
use aerostat_engine::instance::InstanceType;
use aerostat_engine::plan::{Launch, Marking, Plan, planned, replaces};
use aerostat_engine::pod::Pod;
use aerostat_engine::provisioning::{Promised, promised};
use aerostat_engine::report::Report;
use aerostat_engine::snapshot::{Pool, Snapshot, Stage, StateNode};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

/// A cluster and how many claims its pools have made.
#[derive(Clone, Default)]
pub struct World {
    pub snapshot: Snapshot,
    pub types: Arc<Vec<InstanceType>>,
    /// What a provider that has everything makes of each claim under way.
    pub becomes: BTreeMap<String, Promised>,
    made: BTreeMap<String, u32>,
}

impl World {
    /// An empty cluster for which these types are to be had.
    pub fn new(types: Arc<Vec<InstanceType>>) -> Self {
        Self { types, ..Self::default() }
    }

    /// Plans, and checks that the plan is right and that the same cluster is planned for equally.
    pub fn plan(&mut self, now: Timestamp) -> (Plan, Report) {
        self.sort();
        let plan = aerostat_engine::plan(&self.snapshot, now);
        assert_eq!(check(&self.snapshot, &plan.0, now), []);
        assert_eq!(plan, aerostat_engine::plan(&self.snapshot.clone(), now));
        plan
    }

    fn sort(&mut self) {
        let snapshot = &mut self.snapshot;
        snapshot.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        snapshot.nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
        snapshot.pools.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Does what the plan says: its claims are ordered, its nodes are gone.
    pub fn carry_out(&mut self, plan: &Plan, now: Timestamp) {
        let given_up = |state: &StateNode| {
            plan.terminations.iter().any(|t| Some(&t.claim) == state.claim.as_ref())
        };
        let nodes = &mut self.snapshot.nodes;
        for nomination in &plan.moves {
            let (namespace, name) = &nomination.pod;
            let pods = &mut self.snapshot.pods;
            let mover = pods.iter_mut().find(|p| p.namespace == *namespace && p.name == *name);
            let mover = Arc::make_mut(mover.unwrap());
            let left = nodes.iter().find(|state| mover.node.as_ref() == Some(&state.node.name));
            if left.is_none_or(given_up) {
                mover.node.clone_from(&nomination.node);
            }
        }
        nodes.retain(|state| !given_up(state));
        let taint = Taint {
            key: labels::DISRUPTED_TAINT.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        for state in nodes.iter_mut() {
            let is_meant = |m: &&Marking| Some(&m.claim) == state.claim.as_ref();
            if plan.marks.iter().any(|m| is_meant(&m)) {
                state.node.taints.push(taint.clone());
            }
            if plan.releases.iter().any(|m| is_meant(&m)) {
                state.node.taints.retain(|other| *other != taint);
            }
            if plan.rollbacks.iter().any(|r| Some(&r.claim) == state.claim.as_ref()) {
                state.replaces = None;
            }
        }
        for nomination in &plan.nominations {
            let place = nomination.node.as_ref().or(nomination.claim.as_ref()).unwrap();
            self.snapshot.nominations.insert(nomination.pod.clone(), place.clone());
        }
        for launch in &plan.launches {
            let claim = self.order(launch, now);
            for pod in &launch.pods {
                self.snapshot.nominations.insert(pod.clone(), claim.clone());
            }
        }
    }

    fn order(&mut self, launch: &Launch, now: Timestamp) -> String {
        let number = self.made.entry(launch.pool.clone()).or_default();
        *number += 1;
        let name = format!("{}-{number}", launch.pool);
        let pool = self.snapshot.pools.iter().find(|pool| pool.name == launch.pool).unwrap();
        let promise = promised(&launch.requirements, &launch.labels, &pool.types).unwrap();
        // A provider takes the first type, if it is to be had.
        let mut first = launch.requirements.to_vec();
        let kinds = first.iter_mut().filter(|r| r.key == labels::INSTANCE_TYPE);
        kinds.for_each(|requirement| requirement.values.truncate(1));
        let first = promised(&first, &launch.labels, &pool.types).unwrap();
        self.becomes.insert(name.clone(), first);
        self.snapshot.nodes.push(StateNode {
            node: aerostat_engine::node::Node {
                name: name.clone(),
                labels: promise.labels,
                taints: launch.taints.clone(),
                allocatable: promise.allocatable,
                ..Default::default()
            },
            has_node: false,
            claim: Some(name.clone()),
            pool: Some(launch.pool.clone()),
            stage: Stage::Ordered,
            deleting: false,
            do_not_disrupt: false,
            capacity: promise.capacity,
            created: now,
            initialized: None,
            last_pod_event: None,
            nominated_until: None,
            price: Some(promise.price),
            planned: planned(&launch.annotations),
            replaces: replaces(&launch.annotations),
            obsolete: None,
            expires: None,
        });
        name
    }

    pub fn add_pod(&mut self, pod: Pod) {
        self.snapshot.pods.push(Arc::new(pod));
    }

    pub fn remove_pod(&mut self, name: &str) {
        self.snapshot.pods.retain(|pod| pod.name != name);
    }
}

/// A NodePool as the controllers resolve it.
pub fn pool(pool: &NodePool, types: &Arc<Vec<InstanceType>>) -> Pool {
    let (spec, template) = (&pool.spec, &pool.spec.template);
    let metadata = template.metadata.clone().unwrap_or_default();
    let annotation = |key: &str| pool.metadata.annotations.as_ref()?.get(key).cloned();
    Pool {
        name: pool.metadata.name.clone().unwrap(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        weight: spec.weight.unwrap_or(0),
        usable: match annotation("test/unusable") {
            Some(why) => Err(why),
            None => Ok(()),
        },
        requirements: template.spec.requirements.clone(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        taints: template.spec.taints.clone().unwrap_or_default(),
        startup_taints: template.spec.startup_taints.clone().unwrap_or_default(),
        class: Some(template.spec.node_class_ref.clone()),
        hash: "1".to_owned(),
        limits: spec.limits.clone().unwrap_or_default(),
        max_price: spending_limit(&pool.metadata.annotations.clone().unwrap_or_default()).unwrap(),
        move_price: move_price(&pool.metadata.annotations.clone().unwrap_or_default()).unwrap(),
        replicas: spec.replicas.map(|count| u32::try_from(count).unwrap()),
        budgets: spec.disruption.budgets.clone(),
        budget_time_zone: annotation(labels::BUDGET_TIME_ZONE),
        consolidate_after: spec.disruption.consolidate_after.duration.map(|d| d.0),
        policy: spec.disruption.consolidation_policy.clone(),
        termination_grace: template.spec.termination_grace_period,
        expire_after: template.spec.expire_after.clone(),
        types: types.clone(),
    }
}

/// Labels that Auto Mode gives to nodes of a type called `family.size`.
pub fn type_labels(name: &str, arch: &str, cpu: &str) -> BTreeMap<String, String> {
    let family = name.split('.').next().unwrap();
    let generation: String = family.chars().filter(char::is_ascii_digit).take(1).collect();
    let category: String = family.chars().take_while(|c| !c.is_ascii_digit()).collect();
    let of = |key: &str| format!("{}{key}", labels::EKS_PREFIX);
    [
        (labels::ARCH.to_owned(), arch.to_owned()),
        (labels::OS.to_owned(), "linux".to_owned()),
        (labels::INSTANCE_TYPE.to_owned(), name.to_owned()),
        (of("instance-family"), family.to_owned()),
        (of("instance-category"), category),
        (of("instance-generation"), generation),
        (of("instance-cpu"), cpu.to_owned()),
    ]
    .into()
}

/// A node of a type that is up, on demand, without a pool.
pub fn node(kind: &InstanceType, name: &str, zone: &str) -> StateNode {
    let mut node_labels = kind.labels.clone();
    for (key, value) in [
        (labels::ZONE, zone),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::HOSTNAME, name),
        (labels::INSTANCE_TYPE, &kind.name),
    ] {
        node_labels.insert(key.to_owned(), value.to_owned());
    }
    StateNode {
        node: aerostat_engine::node::Node {
            name: name.to_owned(),
            labels: node_labels,
            allocatable: kind.allocatable.clone(),
            ..Default::default()
        },
        has_node: true,
        claim: None,
        pool: None,
        stage: Stage::Initialized,
        deleting: false,
        do_not_disrupt: false,
        capacity: kind.capacity.clone(),
        created: Timestamp::UNIX_EPOCH,
        initialized: Some(Timestamp::UNIX_EPOCH),
        last_pod_event: None,
        nominated_until: None,
        price: None,
        planned: BTreeMap::new(),
        replaces: None,
        obsolete: None,
        expires: None,
    }
}
