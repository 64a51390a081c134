//! The best plan for a few pods, found by trying all: every way to share the pods among machines,
//! every place to buy each machine, judged by the checker.

use std::collections::BTreeMap;

use aerostat_api::labels;
use aerostat_api::nodepool::NodeSelectorRequirement;
use aerostat_engine::check::check;
use aerostat_engine::plan::{Launch, Plan};
use aerostat_engine::pod::{Pod, PodKey};
use aerostat_engine::resources::Resources;
use aerostat_engine::snapshot::{Pool, Snapshot};
use jiff::Timestamp;

/// What a plan comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub unplaced: usize,
    /// USD per hour.
    pub price: f64,
}

/// What the planner's plan comes to.
pub fn price_of_plan(snapshot: &Snapshot, now: Timestamp) -> Outcome {
    let (_, report) = aerostat_engine::plan(snapshot, now);
    let price = report.launches.iter().map(|launch| launch.price).sum();
    Outcome { unplaced: report.unplaced.len(), price }
}

/// The best outcome that is better than `ours`; `ours` if there is none. Fewer pods left out is
/// better, then a lower price.
pub fn best(snapshot: &Snapshot, now: Timestamp, ours: &Outcome) -> Outcome {
    let pods: Vec<&Pod> = snapshot.pods.iter().map(|pod| &**pod).collect();
    let mut best = *ours;
    // As few pods left out as ours leaves, or fewer; those may be any.
    for out in 0..1_u32 << pods.len() {
        let unplaced = out.count_ones() as usize;
        if unplaced > best.unplaced {
            continue;
        }
        let (is_fewer, kept) = (unplaced < best.unplaced, |at: &usize| out >> at & 1 == 0);
        let placed: Vec<&Pod> = (0..pods.len()).filter(kept).map(|at| pods[at]).collect();
        let mut search = Search {
            snapshot,
            now,
            most: if is_fewer { f64::INFINITY } else { best.price - 1e-9 },
            menus: BTreeMap::new(),
        };
        search.share(&placed, &mut Vec::new());
        if search.most < if is_fewer { f64::INFINITY } else { best.price - 1e-9 } {
            best = Outcome { unplaced, price: search.most };
        }
    }
    best
}

/// A machine that could be bought, and its price.
#[derive(Clone)]
struct Item {
    launch: Launch,
    price: f64,
}

struct Search<'s> {
    snapshot: &'s Snapshot,
    now: Timestamp,
    /// What the best plan so far costs.
    most: f64,
    /// What could carry which pods by themselves, cheapest first: one of each pool, zone and
    /// capacity type.
    menus: BTreeMap<Vec<PodKey>, Vec<Item>>,
}

impl<'s> Search<'s> {
    /// Tries every way to share `pods` among `machines` and new ones.
    fn share(&mut self, pods: &[&'s Pod], machines: &mut Vec<Vec<&'s Pod>>) {
        let Some((next, rest)) = pods.split_first() else {
            return self.buy(machines);
        };
        for at in 0..=machines.len() {
            if at == machines.len() {
                machines.push(Vec::new());
            }
            machines[at].push(next);
            if at + 1 < machines.len() || !self.menu(&machines[at]).is_empty() {
                self.share(rest, machines);
            }
            machines[at].pop();
            if machines[at].is_empty() {
                machines.truncate(at);
            }
        }
    }

    /// Tries every way to buy machines that are filled.
    fn buy(&mut self, machines: &[Vec<&Pod>]) {
        let mut menus: Vec<Vec<Item>> = machines.iter().map(|pods| self.menu(pods)).collect();
        if menus.iter().any(Vec::is_empty) {
            return;
        }
        menus.sort_by_key(Vec::len);
        self.choose(&menus, &mut Plan::default(), 0.0);
    }

    fn choose(&mut self, menus: &[Vec<Item>], plan: &mut Plan, spent: f64) {
        let least: f64 = menus.iter().map(|menu| menu[0].price).sum();
        if spent + least >= self.most - 1e-9 {
            return;
        }
        let Some((menu, rest)) = menus.split_first() else {
            if check(self.snapshot, plan, self.now).is_empty() {
                self.most = spent;
            }
            return;
        };
        for item in menu {
            plan.launches.push(item.launch.clone());
            self.choose(rest, plan, spent + item.price);
            plan.launches.pop();
        }
    }

    /// What could carry these pods, other machines aside.
    fn menu(&mut self, pods: &[&Pod]) -> Vec<Item> {
        let keys: Vec<PodKey> =
            pods.iter().map(|pod| (pod.namespace.clone(), pod.name.clone())).collect();
        if let Some(menu) = self.menus.get(&keys) {
            return menu.clone();
        }
        let mut requests = Resources::default();
        pods.iter().for_each(|pod| requests.add(&pod.requests));
        let mut cheapest: BTreeMap<(String, String, String), Item> = BTreeMap::new();
        for pool in &self.snapshot.pools {
            for launch in launches(pool, &keys, &requests) {
                let (item, place) = launch;
                let is_cheaper = cheapest.get(&place).is_none_or(|other| item.price < other.price);
                if is_cheaper && self.carries(&item.launch) {
                    cheapest.insert(place, item);
                }
            }
        }
        let mut menu: Vec<Item> = cheapest.into_values().collect();
        menu.sort_by(|a, b| a.price.total_cmp(&b.price));
        self.menus.insert(keys, menu.clone());
        menu
    }

    /// Whether a machine can carry its pods, what they want of pods elsewhere aside.
    fn carries(&self, launch: &Launch) -> bool {
        let mut alone = self.snapshot.clone();
        for pod in &mut alone.pods {
            let constraints = &mut std::sync::Arc::make_mut(pod).constraints;
            constraints.pod_affinity.clear();
            constraints.pod_anti_affinity.clear();
            constraints.spread.clear();
        }
        let plan = Plan { launches: vec![launch.clone()], ..Plan::default() };
        check(&alone, &plan, self.now).is_empty()
    }
}

/// A launch of these pods for everything that a pool could buy, with its pool, zone and capacity
/// type.
fn launches<'p>(
    pool: &'p Pool,
    pods: &'p [PodKey],
    requests: &'p Resources,
) -> impl Iterator<Item = (Item, (String, String, String))> {
    let only = |key: &str, value: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: vec![value.to_owned()],
        min_values: None,
    };
    let offerings =
        pool.types.iter().flat_map(|kind| kind.offerings.iter().map(move |o| (kind, o)));
    // A label that the pool leaves open may have any of its values.
    let open = pool.requirements.iter().find(|r| r.key == "team");
    let values: Vec<Option<String>> =
        open.map_or(vec![None], |r| r.values.iter().cloned().map(Some).collect());
    offerings.flat_map(move |(kind, offering)| {
        let launch = move |team: &Option<String>| {
            let mut node_labels = pool.labels.clone();
            node_labels.insert(labels::NODEPOOL.to_owned(), pool.name.clone());
            node_labels.extend(team.clone().map(|team| ("team".to_owned(), team)));
            Launch {
                pool: pool.name.clone(),
                pool_uid: pool.uid.clone(),
                labels: node_labels,
                annotations: Default::default(),
                requirements: vec![
                    only(labels::INSTANCE_TYPE, &kind.name),
                    only(labels::ZONE, &offering.zone),
                    only(labels::CAPACITY_TYPE, &offering.capacity_type),
                ]
                .into(),
                taints: pool.taints.clone(),
                startup_taints: pool.startup_taints.clone(),
                class: pool.class.clone().unwrap(),
                requests: requests.quantities(),
                termination_grace: None,
                expire_after: None,
                pods: pods.to_vec(),
                promised: 0,
            }
        };
        let place = move |team: &Option<String>| {
            let pool = format!("{} {}", pool.name, team.clone().unwrap_or_default());
            (pool, offering.zone.clone(), offering.capacity_type.clone())
        };
        let items = values
            .iter()
            .map(move |team| (Item { launch: launch(team), price: offering.price }, place(team)));
        items.collect::<Vec<_>>()
    })
}
