//! Pools compiled for planning: what may be bought, and what each pod may use of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::nodepool::NodeClassRef;
use aerostat_api::{Requirement, Requirements, labels};
use k8s_openapi::api::core::v1::NodeSelectorTerm;

use super::bits::Bits;
use super::domain::Item;
use crate::cost::Price;
use crate::instance::{InstanceType, Offering};
use crate::limits::Machine;
use crate::pod::{Constraints, Pod};
use crate::predicates;
use crate::resources::Resources;
use crate::snapshot::Pool;

/// Labels that any new node may have, whatever its pool says. Providers add those of their types.
/// Source: kubernetes-sigs/karpenter `pkg/apis/v1/labels.go`.
const WELL_KNOWN: [&str; 8] = [
    labels::NODEPOOL,
    labels::ZONE,
    labels::REGION,
    labels::INSTANCE_TYPE,
    labels::ARCH,
    labels::OS,
    labels::CAPACITY_TYPE,
    "node.kubernetes.io/windows-build",
];

/// One offering that a pool may buy now.
pub(crate) struct Offer<'a> {
    /// Index of its type in the pool's list.
    pub(crate) kind: usize,
    pub(crate) zone: &'a str,
    pub(crate) capacity_type: &'a str,
    pub(crate) price: Price,
    /// What it leaves to pods.
    pub(crate) shape: usize,
}

/// What machines of one type leave to pods; depends on the daemons that run there.
pub(crate) struct Shape {
    pub(crate) kind: usize,
    /// Allocatable without what daemons take, by dimension.
    pub(crate) room: Vec<i64>,
    /// What daemons take.
    pub(crate) overhead: Resources,
    /// Host ports that daemons take.
    pub(crate) ports: Vec<(String, String, i32)>,
}

/// What of a pool is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// Offerings without a reservation.
    Open,
    /// The same for pods for which minValues cannot be had.
    Relaxed,
    /// Machines of one reservation.
    Reserved(&'a str),
}

/// A pool, compiled.
pub(crate) struct Store<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) scope: Scope<'a>,
    pub(crate) class: &'a NodeClassRef,
    /// What its template says of every node.
    pub(crate) template: Requirements,
    pub(crate) well_known: BTreeSet<String>,
    pub(crate) offers: Vec<Offer<'a>>,
    pub(crate) shapes: Vec<Shape>,
    /// How many offerings its types have in all.
    pub(crate) weighed: usize,
    /// Which offers have which value of a label, for labels that somebody asks about.
    index: BTreeMap<String, ByValue>,
}

struct ByValue {
    values: BTreeMap<String, Bits>,
    absent: Bits,
}

/// One way to satisfy a pod's constraints in a pool.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) requirements: Requirements,
    /// Offers that satisfy it.
    pub(crate) offers: Bits,
}

/// The resources that a plan counts: an amount of each is a vector.
pub(crate) struct Dimensions(Vec<String>);

impl Dimensions {
    pub(crate) fn of<'a>(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut names: BTreeSet<&str> = ["cpu", "memory", "pods"].into();
        for pod in pods {
            names.extend(pod.requests.other.keys().map(String::as_str));
            if pod.requests.storage > 0 {
                names.insert("ephemeral-storage");
            }
        }
        Self(names.into_iter().map(str::to_owned).collect())
    }

    pub(crate) fn vector(&self, resources: &Resources) -> Vec<i64> {
        self.0.iter().map(|name| resources.get(name)).collect()
    }
}

/// The requirements of a pool's template: its own, its labels, its name and its class.
///
/// # Errors
///
/// Names the requirement that cannot be read.
pub(crate) fn template(pool: &Pool) -> Result<Requirements, String> {
    let mut requirements = Requirements::from_pool(&pool.requirements)?;
    requirements.merge(&Requirements::from_labels(&node_labels(pool)));
    Ok(requirements)
}

/// The labels that a pool gives to all its nodes.
pub(crate) fn node_labels(pool: &Pool) -> BTreeMap<String, String> {
    let mut labels = pool.labels.clone();
    labels.insert(labels::NODEPOOL.to_owned(), pool.name.clone());
    if let Some(class) = &pool.class {
        let key = format!("{}/{}", class.group, class.kind.to_lowercase());
        labels.insert(key, class.name.clone());
    }
    labels
}

/// Labels that a new node of the pool may have without the pool naming them.
pub(crate) fn well_known(types: &[InstanceType]) -> BTreeSet<String> {
    let of_types = types.iter().flat_map(|kind| kind.labels.keys().cloned());
    WELL_KNOWN.iter().map(|key| (*key).to_owned()).chain(of_types).collect()
}

/// A type's value of a label, its offering's aside.
pub(crate) fn type_label<'a>(kind: &'a InstanceType, key: &str) -> Option<&'a str> {
    let named = (key == labels::INSTANCE_TYPE).then_some(kind.name.as_str());
    kind.labels.get(key).map(String::as_str).or(named)
}

/// The alternatives in which a pod's node selector, required node affinity and volumes can be had,
/// most preferred first; one that cannot be read or met by a new node is an error in its place.
pub(crate) fn alternatives(constraints: &Constraints) -> Vec<Result<Requirements, String>> {
    let selector = Requirements::from_labels(&constraints.node_selector);
    let mut ways = match &constraints.node_affinity {
        Some(terms) => terms_with(terms, &selector),
        None => vec![Ok(selector)],
    };
    let volumes = &constraints.volumes;
    for terms in volumes.bound.iter().chain(&volumes.unbound) {
        ways = ways_with(ways, terms);
    }
    ways
}

/// Each way with each term. Ways that contradict themselves are left out, unless all do: then one
/// is kept to tell what stands against it.
fn ways_with(
    ways: Vec<Result<Requirements, String>>,
    terms: &[NodeSelectorTerm],
) -> Vec<Result<Requirements, String>> {
    let mut found: Vec<Result<Requirements, String>> = Vec::new();
    let mut last = None;
    for way in ways {
        let Ok(way) = way else {
            last = Some(way);
            continue;
        };
        for with in terms_with(terms, &way) {
            match with {
                Ok(with) if with.iter().any(Requirement::is_empty) => last = Some(Ok(with)),
                Err(error) => last = Some(Err(error)),
                with if !found.contains(&with) => found.push(with),
                _ => {}
            }
        }
    }
    if found.is_empty() {
        found.extend(last);
    }
    found
}

/// The terms as requirements, each with `more`.
fn terms_with(
    terms: &[NodeSelectorTerm],
    more: &Requirements,
) -> Vec<Result<Requirements, String>> {
    let read = |term: &NodeSelectorTerm| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        if expressions.is_empty() && fields.is_empty() {
            return Err("an empty node selector term matches no node".to_owned());
        }
        if let Some(field) = fields.iter().find(|field| field.operator != "NotIn") {
            return Err(format!(
                "node selector term with matchFields, {} {}",
                field.key, field.operator
            ));
        }
        let mut requirements = Requirements::from_expressions(expressions)?;
        requirements.merge(more);
        Ok(requirements)
    };
    terms.iter().map(read).collect()
}

impl<'a> Store<'a> {
    /// Compiles a pool. `constraints` are all that will be asked about.
    ///
    /// # Errors
    ///
    /// Names the requirement that cannot be read, or the class that is missing.
    pub(crate) fn new(
        pool: &'a Pool,
        dimensions: &Dimensions,
        daemons: &[Arc<Pod>],
        asked: &[&Constraints],
        scope: Scope<'a>,
    ) -> Result<Self, String> {
        let mut template = template(pool)?;
        if let Scope::Reserved(id) = scope {
            template.add(Requirement::one_of(labels::RESERVATION_ID, [id.to_owned()]));
        }
        let class = pool.class.as_ref().ok_or("nodeClassRef: missing")?;
        let daemon_constraints = daemons.iter().map(|daemon| &daemon.constraints);
        let asked = asked.iter().copied().chain(daemon_constraints);
        let ways = asked.flat_map(alternatives).flatten();
        let mut keys: BTreeSet<String> = ways
            .flat_map(|way| way.iter().map(|r| r.key().to_owned()).collect::<Vec<_>>())
            .collect();
        keys.extend(template.iter().map(|requirement| requirement.key().to_owned()));
        let known = |key: &String| {
            WELL_KNOWN.contains(&key.as_str())
                || pool.types.iter().any(|kind| kind.labels.contains_key(key))
        };
        let mut store = Self {
            pool,
            scope,
            class,
            template,
            well_known: keys.iter().filter(|key| known(key)).cloned().collect(),
            offers: Vec::new(),
            shapes: Vec::new(),
            weighed: pool.types.iter().map(|kind| kind.offerings.len()).sum(),
            index: BTreeMap::new(),
        };
        let is_impossible = |requirement: &&Requirement| {
            !store.judges(requirement.key())
                && !requirement.allows_absence()
                && requirement.any().is_none()
        };
        if let Some(impossible) = store.template.iter().find(is_impossible) {
            return Err(format!("requirements: nothing satisfies those of {}", impossible.key()));
        }
        let all = available(&pool.types, scope);
        store.offers = store.allowed(all);
        store.index_labels();
        store.add_shapes(dimensions, daemons);
        Ok(store)
    }

    /// The offers that the template allows.
    fn allowed(&self, all: Vec<Offer<'a>>) -> Vec<Offer<'a>> {
        let judged: Vec<&Requirement> =
            self.template.iter().filter(|requirement| self.judges(requirement.key())).collect();
        let by_offering = |key: &str| matches!(key, labels::ZONE | labels::CAPACITY_TYPE);
        let allows = |requirement: &&Requirement, value: Option<&str>| match value {
            Some(value) => requirement.has(value),
            None => requirement.allows_absence(),
        };
        let kinds: Vec<bool> = self
            .pool
            .types
            .iter()
            .map(|kind| {
                let mut rest = judged.iter().filter(|r| !by_offering(r.key()));
                rest.all(|r| allows(r, type_label(kind, r.key())))
            })
            .collect();
        let offering = |offer: &Offer<'_>| {
            self.template.allows(labels::ZONE, Some(offer.zone))
                && self.template.allows(labels::CAPACITY_TYPE, Some(offer.capacity_type))
        };
        all.into_iter().filter(|offer| kinds[offer.kind] && offering(offer)).collect()
    }

    /// Whether types and offerings decide about a label; otherwise the template alone does.
    fn judges(&self, key: &str) -> bool {
        key != labels::NODEPOOL && self.well_known.contains(key)
    }

    fn index_labels(&mut self) {
        let count = self.offers.len();
        let mut index = BTreeMap::new();
        for key in self.well_known.iter().filter(|key| self.judges(key)) {
            let mut by = ByValue { values: BTreeMap::new(), absent: Bits::empty(count) };
            let by_type = !matches!(key.as_str(), labels::ZONE | labels::CAPACITY_TYPE);
            // Offers of one type stand together.
            let mut last: Option<(usize, Option<&str>)> = None;
            for (at, offer) in self.offers.iter().enumerate() {
                let known = last.filter(|(kind, _)| by_type && *kind == offer.kind);
                let value = known.map_or_else(|| self.label(offer, key), |(_, value)| value);
                last = Some((offer.kind, value));
                match value {
                    None => by.absent.insert(at),
                    Some(value) => match by.values.get_mut(value) {
                        Some(bits) => bits.insert(at),
                        None => {
                            let mut bits = Bits::empty(count);
                            bits.insert(at);
                            by.values.insert(value.to_owned(), bits);
                        }
                    },
                }
            }
            index.insert(key.clone(), by);
        }
        self.index = index;
    }

    /// An offer's value of a label.
    pub(crate) fn label(&self, offer: &Offer<'a>, key: &str) -> Option<&'a str> {
        match key {
            labels::ZONE => Some(offer.zone),
            labels::CAPACITY_TYPE => Some(offer.capacity_type),
            _ => type_label(&self.pool.types[offer.kind], key),
        }
    }

    fn add_shapes(&mut self, dimensions: &Dimensions, daemons: &[Arc<Pod>]) {
        let runs: Vec<Bits> = daemons.iter().map(|daemon| self.runs(daemon)).collect();
        let mut ids: BTreeMap<(usize, Vec<usize>), usize> = BTreeMap::new();
        for at in 0..self.offers.len() {
            let kind = self.offers[at].kind;
            let here: Vec<usize> = (0..daemons.len()).filter(|d| runs[*d].contains(at)).collect();
            let shapes = &mut self.shapes;
            let types = &self.pool.types;
            let id = *ids.entry((kind, here)).or_insert_with_key(|(kind, here)| {
                shapes.push(shape(
                    &types[*kind],
                    *kind,
                    here.iter().map(|d| &daemons[*d]),
                    dimensions,
                ));
                shapes.len() - 1
            });
            self.offers[at].shape = id;
        }
    }

    /// The offers on which a daemon will run.
    fn runs(&self, daemon: &Pod) -> Bits {
        let mut runs = Bits::empty(self.offers.len());
        if predicates::untolerated(&daemon.constraints.tolerations, &self.pool.taints).is_some() {
            return runs;
        }
        // Daemons may select on labels that a node gets once it is up.
        let mut template = self.template.clone();
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            template.add(Requirement::one_of(key, ["true".to_owned()]));
        }
        for way in alternatives(&daemon.constraints).into_iter().flatten() {
            if template.compatible(&way, &self.well_known).is_ok() {
                runs.unite(&self.matching(&way));
            }
        }
        runs
    }

    /// How a pod's constraints can be met here; empty if they cannot.
    pub(crate) fn ways(&self, constraints: &Constraints) -> Vec<Way> {
        let mut ways: Vec<Way> = Vec::new();
        if predicates::untolerated(&constraints.tolerations, &self.pool.taints).is_some() {
            return ways;
        }
        for requirements in alternatives(constraints).into_iter().flatten() {
            if self.template.compatible(&requirements, &self.well_known).is_err() {
                continue;
            }
            let offers = self.matching(&requirements);
            if !offers.is_empty() {
                ways.push(Way { requirements, offers });
            }
        }
        ways
    }

    /// What a machine counts with towards limits.
    pub(crate) fn machine(&self, item: Item) -> Machine<'a> {
        let kind = self.shapes[item.shape].kind;
        Machine { capacity: &self.pool.types[kind].capacity, price: item.price }
    }

    /// The offers whose labels satisfy requirements.
    pub(crate) fn matching(&self, requirements: &Requirements) -> Bits {
        let count = self.offers.len();
        let mut matching = Bits::full(count);
        for requirement in requirements.iter() {
            let Some(by) = self.index.get(requirement.key()) else { continue };
            let mut allowed = Bits::empty(count);
            if requirement.allows_absence() {
                allowed.unite(&by.absent);
            }
            for (value, bits) in &by.values {
                if requirement.has(value) {
                    allowed.unite(bits);
                }
            }
            matching.intersect(&allowed);
        }
        matching
    }
}

/// The offerings in scope that are to be had and have a price, by type and then as the provider
/// lists them.
fn available<'a>(types: &'a [InstanceType], scope: Scope<'_>) -> Vec<Offer<'a>> {
    let is_in_scope = |offering: &&Offering| {
        let id = offering.reservation.as_ref().map(|reservation| reservation.id.as_str());
        match scope {
            Scope::Open | Scope::Relaxed => offering.available && id.is_none(),
            Scope::Reserved(wanted) => offering.available && id == Some(wanted),
        }
    };
    let mut offers = Vec::new();
    for (kind, instance) in types.iter().enumerate() {
        for offering in instance.offerings.iter().filter(is_in_scope) {
            let Some(price) = Price::from_usd(offering.price) else { continue };
            let (zone, capacity_type) = (&*offering.zone, &*offering.capacity_type);
            offers.push(Offer { kind, zone, capacity_type, price, shape: 0 });
        }
    }
    offers
}

fn shape<'d>(
    kind: &InstanceType,
    index: usize,
    daemons: impl Iterator<Item = &'d Arc<Pod>>,
    dimensions: &Dimensions,
) -> Shape {
    let (mut overhead, mut ports) = (Resources::default(), Vec::new());
    for daemon in daemons {
        overhead.add(&daemon.requests);
        ports.extend_from_slice(&daemon.constraints.host_ports);
    }
    let mut room = kind.allocatable.clone();
    room.subtract(&overhead);
    Shape { kind: index, room: dimensions.vector(&room), overhead, ports }
}
