//! What eliminated a pool for a pod that got nothing: its types, filtered once more, step by step.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::{Requirement, Requirements, labels};

use super::class;
use super::market::{self, Dimensions, Offer, Scope, Store};
use crate::cost::Price;
use crate::instance::InstanceType;
use crate::limits::{Headroom, Machine};
use crate::plan::Launch;
use crate::pod::{Constraints, Pod, PodKey};
use crate::predicates;
use crate::report::{End, LaunchReport, PoolReason, Step, Unplaced};
use crate::resources::Resources;
use crate::snapshot::{Pool, Snapshot};

/// Says of pods that got nothing why, pool by pool; those that cannot be planned for wherever they
/// go have been told so.
pub(crate) fn explain(
    unplaced: &mut [Unplaced],
    snapshot: &Snapshot,
    launches: &[(Launch, LaunchReport)],
) {
    let wanted: BTreeSet<PodKey> = unplaced.iter().map(|unplaced| unplaced.pod.clone()).collect();
    if wanted.is_empty() || snapshot.pools.is_empty() {
        return;
    }
    let key = |pod: &Pod| (pod.namespace.clone(), pod.name.clone());
    let mut pods: BTreeMap<PodKey, &Pod> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.unsupported.is_empty()) {
        let key = key(pod);
        if wanted.contains(&key) {
            pods.insert(key, pod);
        }
    }
    let (asked, group_of) = class::groups(pods.values().map(|pod| &pod.constraints));
    let dimensions = Dimensions::of(pods.values().copied());
    let kinds: BTreeMap<&PodKey, Kind<'_>> = pods
        .iter()
        .zip(&group_of)
        .map(|((key, pod), group)| {
            let on_pods = on_pods(&pod.constraints);
            (key, Kind { group: *group, requests: &pod.requests, on_pods })
        })
        .collect();
    let mut reasons: BTreeMap<&Kind<'_>, Vec<PoolReason>> =
        kinds.values().map(|kind| (kind, Vec::new())).collect();
    for pool in &snapshot.pools {
        let shop = match open(pool, snapshot, &dimensions, &asked, launches) {
            Ok(shop) => shop,
            Err(why) => {
                let reason = ended(pool, End::Unusable { why });
                reasons.values_mut().for_each(|list| list.push(reason.clone()));
                continue;
            }
        };
        let filtered: Vec<Vec<Filtered<'_>>> =
            asked.iter().map(|constraints| shop.filter(constraints)).collect();
        for (kind, list) in &mut reasons {
            let ways = filtered[kind.group].iter().map(|way| shop.judge(way, kind));
            let closest = ways.reduce(|a, b| if b.is_closer_than(&a) { b } else { a });
            list.extend(closest);
        }
    }
    reasons.values_mut().for_each(PoolReason::sort);
    for unplaced in unplaced {
        let kind = kinds.get(&unplaced.pod);
        unplaced.reasons = kind.and_then(|kind| reasons.get(kind)).cloned().unwrap_or_default();
    }
}

/// Pods that the same stands against.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'p> {
    /// Their constraints on nodes.
    group: usize,
    requests: &'p Resources,
    /// Their constraints on other pods, named for people.
    on_pods: Vec<String>,
}

fn ended(pool: &Pool, end: End) -> PoolReason {
    PoolReason { pool: pool.name.clone(), types: pool.types.len(), steps: Vec::new(), end }
}

/// A pool that may launch, and what it may still launch.
struct Shop<'a> {
    store: Store<'a>,
    headroom: Headroom,
    well_known: BTreeSet<String>,
}

/// What one way to satisfy a pod's constraints leaves of a pool.
struct Filtered<'s> {
    steps: Vec<Step>,
    left: Result<Vec<&'s Offer<'s>>, End>,
}

fn open<'a>(
    pool: &'a Pool,
    snapshot: &'a Snapshot,
    dimensions: &Dimensions,
    asked: &[&Constraints],
    launches: &[(Launch, LaunchReport)],
) -> Result<Shop<'a>, String> {
    pool.usable.clone()?;
    if pool.replicas.is_some() {
        return Err("a static pool launches its replicas only".to_owned());
    }
    let store = Store::new(pool, dimensions, &snapshot.daemons, asked, Scope::Open)?;
    let mut headroom = Headroom::of(pool, &snapshot.nodes);
    for (launch, report) in launches.iter().filter(|(launch, _)| launch.pool == pool.name) {
        debug_assert_eq!(launch.pool, report.pool);
        let kind = pool.types.iter().find(|kind| kind.name == report.instance_type);
        let price = Price::from_usd(report.price).unwrap_or_default();
        if let Some(InstanceType { capacity, .. }) = kind {
            headroom.take(&Machine { capacity, price }, 1);
        }
    }
    Ok(Shop { store, headroom, well_known: market::well_known(&pool.types) })
}

impl<'a> Shop<'a> {
    /// Filters the pool's types by what does not depend on a pod's size, once for each alternative
    /// of its node affinity.
    fn filter(&self, constraints: &Constraints) -> Vec<Filtered<'_>> {
        let pool = self.store.pool;
        let over = |end: End| vec![Filtered { steps: Vec::new(), left: Err(end) }];
        let untolerated = pool.taints.iter().filter(|taint| {
            let one = std::slice::from_ref(*taint);
            predicates::untolerated(&constraints.tolerations, one).is_some()
        });
        let taints: Vec<String> = untolerated
            .map(|taint| {
                let value = taint.value.as_deref().filter(|value| !value.is_empty());
                let value = value.map(|value| format!("={value}")).unwrap_or_default();
                format!("{}{value}:{}", taint.key, taint.effect)
            })
            .collect();
        if !taints.is_empty() {
            return over(End::Taints { taints });
        }
        let alternatives = market::alternatives(constraints);
        if alternatives.is_empty() {
            let why = "no node selector term can match".to_owned();
            return over(End::Constraints { why });
        }
        let way = |way: Result<Requirements, String>| match way {
            Err(why) => Filtered { steps: Vec::new(), left: Err(End::Constraints { why }) },
            Ok(requirements) => self.walk(&requirements),
        };
        alternatives.into_iter().map(way).collect()
    }

    /// Takes types away label by label: first by the pool's template, then by `wanted`.
    fn walk(&self, wanted: &Requirements) -> Filtered<'_> {
        let (store, types) = (&self.store, &self.store.pool.types);
        let mut left: Vec<usize> = (0..types.len()).collect();
        let mut steps = Vec::new();
        if let Err(error) = store.template.compatible(wanted, &self.well_known) {
            return Filtered { steps, left: Err(End::Constraints { why: error.to_string() }) };
        }
        let own: Vec<&Requirement> = store.template.iter().collect();
        for requirement in own.into_iter().chain(wanted.iter()) {
            let key = requirement.key();
            if key == labels::NODEPOOL || !self.well_known.contains(key) {
                continue;
            }
            let before = left.len();
            left.retain(|kind| has(&types[*kind], requirement));
            if left.is_empty() {
                let end = End::Label { requirement: requirement.to_string() };
                return Filtered { steps, left: Err(end) };
            }
            if left.len() < before {
                steps.push(Step { key: key.to_owned(), left: left.len() });
            }
        }
        let kinds: BTreeSet<usize> = left.into_iter().collect();
        let offered = |offer: &&Offer<'_>| {
            kinds.contains(&offer.kind)
                && wanted.allows(labels::ZONE, Some(offer.zone))
                && wanted.allows(labels::CAPACITY_TYPE, Some(offer.capacity_type))
        };
        let offers: Vec<&Offer<'_>> = store.offers.iter().filter(offered).collect();
        if offers.is_empty() {
            let mut merged = store.template.clone();
            merged.merge(wanted);
            let named = [labels::CAPACITY_TYPE, labels::ZONE].into_iter();
            let requirements = named.filter_map(|key| merged.get(key)).map(ToString::to_string);
            let end = End::Offerings { requirements: requirements.collect() };
            return Filtered { steps, left: Err(end) };
        }
        Filtered { steps, left: Ok(offers) }
    }

    /// What stands against a pod of a certain size.
    fn judge(&self, way: &Filtered<'_>, kind: &Kind<'_>) -> PoolReason {
        let end = match &way.left {
            Err(end) => end.clone(),
            Ok(offers) => self.end(offers, kind),
        };
        PoolReason { steps: way.steps.clone(), ..ended(self.store.pool, end) }
    }

    fn end(&self, offers: &[&Offer<'_>], pod: &Kind<'_>) -> End {
        let (store, pool) = (&self.store, self.store.pool);
        let lacks = |offer: &Offer<'_>| {
            let mut room = pool.types[offer.kind].allocatable.clone();
            room.subtract(&store.shapes[offer.shape].overhead);
            lack(&room, pod.requests)
        };
        let mut by_shape: BTreeMap<usize, Resources> = BTreeMap::new();
        for offer in offers {
            by_shape.entry(offer.shape).or_insert_with(|| lacks(offer));
        }
        let nothing = Resources::default();
        let holding: Vec<&&Offer<'_>> =
            offers.iter().filter(|offer| by_shape[&offer.shape] == nothing).collect();
        if holding.is_empty() {
            return self.too_small(&by_shape, pod.requests);
        }
        for (key, wanted) in store.min_values() {
            let values: BTreeSet<&str> =
                holding.iter().filter_map(|offer| store.label(offer, key)).collect();
            if values.len() < wanted {
                return End::MinValues { key: key.to_owned(), wanted, found: values.len() };
            }
        }
        let within = |offer: &&&Offer<'_>| {
            let capacity = &pool.types[offer.kind].capacity;
            self.headroom.allows(&Machine { capacity, price: offer.price })
        };
        if !holding.iter().any(&within) {
            let kinds: BTreeSet<usize> = holding.iter().map(|offer| offer.kind).collect();
            let money = pool.max_price.map(|_| labels::MAX_USD_PER_HOUR.to_owned());
            let limits = pool.limits.keys().cloned().chain(money).collect();
            return End::Limits { holding: kinds.len(), limits };
        }
        if pod.on_pods.is_empty() {
            let why = "a machine would hold the pod, but was not chosen".to_owned();
            return End::Other { why };
        }
        End::Pods { constraints: pod.on_pods.clone() }
    }

    fn too_small(&self, lacking: &BTreeMap<usize, Resources>, requests: &Resources) -> End {
        let store = &self.store;
        let part = |lacks: &Resources| shortfall(lacks, requests);
        let name = |shape: usize| &store.pool.types[store.shapes[shape].kind].name;
        let closest = lacking.iter().min_by_key(|(shape, lacks)| (part(lacks), name(**shape)));
        let Some((shape, lacks)) = closest else {
            return End::Offerings { requirements: Vec::new() };
        };
        // What even the roomiest lacks is too much by itself.
        let mut alone = lacks.clone();
        for other in lacking.values() {
            for (name, _) in alone.clone().quantities() {
                if other.get(&name) == 0 {
                    alone.set_amount(&name, 0);
                }
            }
        }
        let together = alone == Resources::default();
        let mut wanted = requests.clone();
        for (name, _) in requests.quantities() {
            let is_small = name == "pods" && lacks.pods == 0;
            if is_small || !together && alone.get(&name) == 0 {
                wanted.set_amount(&name, 0);
            }
        }
        let taken = |shape: &usize| store.shapes[*shape].overhead != Resources::default();
        End::Resources {
            wanted,
            together,
            daemons: lacking.keys().any(taken),
            closest: name(*shape).clone(),
            shortfall: part(lacks),
            lacks: lacks.clone(),
        }
    }
}

/// Whether a type, or some offering of it, has a label as it must be.
fn has(kind: &InstanceType, requirement: &Requirement) -> bool {
    match requirement.key() {
        labels::ZONE => kind.offerings.iter().any(|o| requirement.has(&o.zone)),
        labels::CAPACITY_TYPE => kind.offerings.iter().any(|o| requirement.has(&o.capacity_type)),
        key => match market::type_label(kind, key) {
            Some(value) => requirement.has(value),
            None => requirement.allows_absence(),
        },
    }
}

/// What `room` lacks of `need`.
fn lack(room: &Resources, need: &Resources) -> Resources {
    let mut lacks = Resources::default();
    for (name, _) in need.quantities() {
        let missing = need.get(&name).saturating_sub(room.get(&name));
        lacks.set_amount(&name, if need.get(&name) > 0 { missing.max(0) } else { 0 });
    }
    lacks
}

/// The largest part of `need` that is lacking, in millionths.
fn shortfall(lacks: &Resources, need: &Resources) -> u64 {
    let part = |(name, _): (String, _)| {
        let (missing, all) = (i128::from(lacks.get(&name)), i128::from(need.get(&name).max(1)));
        u64::try_from(missing * 1_000_000 / all).unwrap_or(u64::MAX)
    };
    lacks.quantities().into_iter().map(part).max().unwrap_or(0)
}

/// A pod's hard constraints on other pods, named for people.
fn on_pods(constraints: &Constraints) -> Vec<String> {
    let of_terms = |name: &str, keys: BTreeSet<&str>| {
        let keys: Vec<&str> = keys.into_iter().collect();
        (!keys.is_empty()).then(|| format!("{name} over {}", keys.join(", ")))
    };
    let keys = |terms: &'_ [crate::pod::PodTerm]| -> Vec<String> {
        terms.iter().map(|term| term.topology_key.clone()).collect()
    };
    let (near, apart) = (keys(&constraints.pod_affinity), keys(&constraints.pod_anti_affinity));
    let spread = constraints.spread.iter().filter(|spread| spread.required);
    let ports = (!constraints.host_ports.is_empty()).then(|| "host ports".to_owned());
    of_terms("pod affinity", near.iter().map(String::as_str).collect())
        .into_iter()
        .chain(of_terms("pod anti-affinity", apart.iter().map(String::as_str).collect()))
        .chain(of_terms("topology spread", spread.map(|s| &*s.topology_key).collect()))
        .chain(ports)
        .collect()
}
