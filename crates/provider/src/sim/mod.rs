//! A cloud that exists in memory: machines that cost nothing and run nothing, and whose Nodes join
//! the cluster as real ones would.
//!
//! ```text
//! create ──choose──> machine ──launch──> answered ──boot──> Node created (node)
//!                       └──────────────── delete ──terminate──> gone
//! ```
//!
//! A Node says by an annotation that a simulated kubelet is to play it; making it ready, and
//! removing it once its machine is gone, is others' work.

mod addresses;
mod choose;
mod faults;
mod kwok;
pub mod lengths;
mod node;
mod shortages;
mod stock;
#[cfg(test)]
mod tests;
mod timings;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aerostat_api::nodepool::NodeClassRef;
use aerostat_api::{Class, ClassKind, NodeClaim, hash, labels};
use aerostat_clock::{Clock, Seeds, Stream};
use aerostat_engine::instance::{InstanceType, Offering};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rand::Rng;
use serde_json::json;
use tokio::task::JoinSet;

use crate::catalog::{self, Flavor, Region};
use crate::{CloudProvider, Instance, Notice, ProviderError, RepairPolicy};
use addresses::Addresses;
use faults::Faults;
pub use shortages::Shortage;
use shortages::Shortages;
use stock::Learned;
pub use stock::{Reserved, Stock, Unavailable};
pub use timings::Timings;

/// One way to get an instance type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OfferingKey {
    instance_type: String,
    zone: String,
    capacity_type: String,
}

/// The simulated provider: one region of a catalog. Dropping it stops its machines where they are.
pub struct SimCloud {
    shared: Arc<Shared>,
    /// Machines that boot or shut down.
    tasks: Mutex<JoinSet<()>>,
}

struct Shared {
    region: Arc<Region>,
    clock: Clock,
    timings: Timings,
    client: kube::Client,
    state: Mutex<State>,
}

struct State {
    /// By provider ID.
    machines: BTreeMap<String, Machine>,
    /// Provider IDs by the claim's UID.
    claims: BTreeMap<String, String>,
    addresses: Addresses,
    /// What there is.
    stock: Stock,
    /// What is known of it.
    learned: Learned,
    /// The region's types as far as is known, by the size of the data volume in bytes.
    types: BTreeMap<i64, Arc<Vec<InstanceType>>>,
    /// What has run out by chance.
    shortages: Shortages,
    draws: Stream,
    /// How long things take, and when machines are taken back.
    delays: Stream,
    faults: Faults,
}

/// A machine that has been ordered.
struct Machine {
    instance: Instance,
    /// How long it boots.
    boot: Duration,
    claim: NodeClaim,
    address: Ipv4Addr,
    /// Random bits that its host's IDs are made of.
    entropy: [u64; 4],
    /// USD per hour.
    price: f64,
    /// What its class adds to the time until its Node is there.
    delay: Duration,
    terminating: bool,
}

impl SimCloud {
    /// A cloud that sells what `region` does and has in `stock`. Nodes join through `client`; IDs
    /// are drawn from the stream `sim-cloud` of `seeds`, delays from `sim-cloud/delays`, and what
    /// runs out from streams that begin with `shortages`.
    #[must_use]
    pub fn new(
        region: Arc<Region>,
        clock: Clock,
        seeds: Seeds,
        timings: Timings,
        stock: Stock,
        client: kube::Client,
    ) -> Self {
        let state = State {
            machines: BTreeMap::new(),
            claims: BTreeMap::new(),
            addresses: Addresses::new(&region.zones()),
            stock,
            learned: Learned::default(),
            types: BTreeMap::new(),
            shortages: Shortages::new(clock.now(), seeds),
            draws: seeds.stream("sim-cloud"),
            delays: seeds.stream("sim-cloud/delays"),
            faults: Faults::default(),
        };
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { region, clock, timings, client, state });
        Self { shared, tasks: Mutex::default() }
    }

    /// Makes these offerings, and no others, be out of stock from now on.
    pub fn set_unavailable(&self, unavailable: Vec<Unavailable>) {
        self.shared.state().stock.unavailable = unavailable;
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// A panic while it was held left nothing half done: every change is one insertion or removal.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OfferingKey {
    fn of(instance_type: &str, offering: &Offering) -> Self {
        Self {
            instance_type: instance_type.to_owned(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type.clone(),
        }
    }
}

impl State {
    /// Forgets what ran out too long ago.
    fn forget(&mut self, now: Timestamp) {
        if self.learned.forget(now) {
            self.types.clear();
        }
    }

    /// How many machines each reservation carries.
    fn used(&self) -> BTreeMap<String, u32> {
        let mut used = BTreeMap::new();
        for machine in self.machines.values() {
            if let Some(id) = machine.instance.labels.get(labels::RESERVATION_ID) {
                *used.entry(id.clone()).or_default() += 1;
            }
        }
        used
    }

    /// Whether an offering's reservation carries as many machines as it says.
    fn is_full(&self, offering: &Offering) -> bool {
        offering.reservation.as_ref().is_some_and(|reservation| {
            let reserved = self.stock.reservations.iter().find(|r| r.id == reservation.id);
            let used = self.used().get(&reservation.id).copied().unwrap_or(0);
            reserved.is_none_or(|reserved| reserved.count <= used)
        })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The region's types as far as is known, with data volumes of `volume` bytes.
    fn types(&self, volume: i64) -> Arc<Vec<InstanceType>> {
        let mut state = self.state();
        state.forget(self.clock.now());
        if let Some(types) = state.types.get(&volume) {
            return Arc::clone(types);
        }
        let used = state.used();
        let mut types = self.region.types.clone();
        for kind in &mut types {
            catalog::resize(kind, volume);
            state.stock.offer(kind, &used);
            let name = kind.name.clone();
            for offering in &mut kind.offerings {
                offering.available &= !state.learned.knows(&OfferingKey::of(&name, offering));
            }
        }
        let types = Arc::new(types);
        state.types.insert(volume, Arc::clone(&types));
        types
    }

    /// Remembers what has run out.
    fn learn(&self, missing: Vec<OfferingKey>) {
        let now = self.clock.now();
        let mut state = self.state();
        for key in missing {
            state.learned.learn(key, now);
            state.types.clear();
        }
    }

    /// Orders a machine for a claim, or finds the one that was ordered before. `true`: it is new.
    /// What has run out goes to `missing`.
    fn order(
        &self,
        claim: &NodeClaim,
        class: Option<&Class>,
        uid: &str,
        types: &[InstanceType],
        missing: &mut Vec<OfferingKey>,
    ) -> Result<(Instance, bool), ProviderError> {
        let now = self.clock.now();
        let mut state = self.state();
        state.forget(now);
        if let Some(known) = state.claims.get(uid).and_then(|id| state.machines.get(id)) {
            return Ok((known.instance.clone(), false));
        }
        let feasible = choose::feasible(types, claim, self.region.flavor)?;
        let delay = match self.region.flavor {
            Flavor::AutoMode => Duration::ZERO,
            Flavor::Kwok => kwok::delay(class).map_err(ProviderError::Other)?,
        };
        let got = feasible.into_iter().find(|(kind, offering)| {
            let key = OfferingKey::of(&kind.name, offering);
            if state.learned.knows(&key) || state.is_full(offering) {
                return false;
            }
            let State { stock, shortages, .. } = &mut *state;
            let is_out = stock.is_out_of(&key) | shortages.is_out(&stock.shortages, &key, now);
            if is_out {
                missing.push(key);
            }
            !is_out
        });
        // Karpenter's words.
        let (kind, offering) = got.ok_or_else(|| {
            ProviderError::InsufficientCapacity(
                "all requested instance types were unavailable during launch".to_owned(),
            )
        })?;
        let address = state.addresses.take(&offering.zone).ok_or_else(|| {
            ProviderError::InsufficientCapacity(format!(
                "no address is left in zone {}",
                offering.zone
            ))
        })?;
        let entropy: [u64; 4] = std::array::from_fn(|_| state.draws.next_u64());
        let draw = state.draws.next_u64();
        let provider_id = match self.region.flavor {
            // EC2's form: 17 hexadecimal digits, the first of them 0.
            Flavor::AutoMode => format!("aws:///{}/i-0{draw:016x}", offering.zone),
            Flavor::Kwok => kwok::provider_id(claim, draw),
        };
        let mut labels = kind.labels.clone();
        labels.insert(labels::ZONE.to_owned(), offering.zone.clone());
        labels.insert(labels::CAPACITY_TYPE.to_owned(), offering.capacity_type.clone());
        if let Some(reservation) = &offering.reservation {
            labels.insert(labels::RESERVATION_ID.to_owned(), reservation.id.clone());
            state.types.clear();
        }
        let instance = Instance {
            provider_id: provider_id.clone(),
            claim: uid.to_owned(),
            launched: now,
            labels,
            annotations: match self.region.flavor {
                Flavor::AutoMode => class.map(stamps).unwrap_or_default(),
                Flavor::Kwok => BTreeMap::new(),
            },
            image_id: (self.region.flavor == Flavor::AutoMode).then(|| node::image_id(kind)),
            capacity: kind.capacity.quantities(),
            allocatable: kind.allocatable.quantities(),
        };
        let boot = self.timings.boot.draw(&mut state.delays);
        let machine = Machine {
            instance: instance.clone(),
            boot,
            claim: claim.clone(),
            address,
            entropy,
            price: offering.price,
            delay,
            terminating: false,
        };
        state.claims.insert(uid.to_owned(), provider_id.clone());
        state.machines.insert(provider_id, machine);
        Ok((instance, true))
    }

    /// Boots a machine: after a while its Node is there. As a kubelet does, it tries to register
    /// until it succeeds, or until the machine is terminated.
    ///
    /// Source of the back-off: kubernetes `pkg/kubelet/kubelet_node_status.go`.
    async fn boot(self: Arc<Self>, provider_id: String, launch: Duration) {
        let machine = |machine: &Machine| machine.boot + machine.delay;
        let boot = self.state().machines.get(&provider_id).map(machine);
        self.clock.sleep(launch + boot.unwrap_or_default()).await;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut step = Duration::from_millis(100);
        loop {
            let node = match self.state().machines.get(&provider_id) {
                Some(machine) if !machine.terminating => {
                    node::of(machine, self.region.flavor, self.clock.now())
                }
                _ => return,
            };
            match register(&nodes, &node).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%provider_id, %error, "a simulated node could not register");
                }
            }
            self.clock.sleep(step).await;
            step = (step * 2).min(Duration::from_secs(7));
        }
    }

    async fn shut_down(self: Arc<Self>, provider_id: String) {
        let takes = self.timings.terminate.draw(&mut self.state().delays);
        self.clock.sleep(takes).await;
        self.remove(&provider_id);
    }

    /// Forgets a machine; whether there was one.
    fn remove(&self, provider_id: &str) -> bool {
        let mut state = self.state();
        let Some(machine) = state.machines.remove(provider_id) else { return false };
        state.addresses.release(machine.address);
        state.claims.remove(&machine.instance.claim);
        if machine.instance.labels.contains_key(labels::RESERVATION_ID) {
            state.types.clear();
        }
        true
    }
}

/// Creates the Node, with its status. A server that drops the status of a new Node gets it again.
async fn register(nodes: &Api<Node>, node: &Node) -> kube::Result<()> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let there = match nodes.create(&PostParams::default(), node).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => nodes.get(name).await?,
        created => created?,
    };
    if there.status.is_none_or(|status| status.allocatable.is_none_or(|list| list.is_empty())) {
        let patch = Patch::Merge(json!({"status": node.status}));
        nodes.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// What a claim remembers of the class that it was launched with.
fn stamps(class: &Class) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::NODECLASS_HASH.to_owned(), hash::nodeclass_hash(&class.spec)),
        (labels::NODECLASS_HASH_VERSION.to_owned(), hash::NODECLASS_VERSION.to_owned()),
    ])
}

fn not_found(provider_id: &str) -> ProviderError {
    ProviderError::NotFound(format!("instance {provider_id} is not there (any more)"))
}

impl CloudProvider for SimCloud {
    fn name(&self) -> &'static str {
        match self.shared.region.flavor {
            Flavor::AutoMode => "sim",
            Flavor::Kwok => "kwok",
        }
    }

    fn class_kind(&self) -> &'static ClassKind {
        self.shared.region.flavor.class_kind()
    }

    fn class_conditions(&self) -> Option<&'static [&'static str]> {
        match self.shared.region.flavor {
            Flavor::AutoMode => {
                Some(&["SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady"])
            }
            Flavor::Kwok => None,
        }
    }

    fn instance_types(
        &self,
        reference: &NodeClassRef,
        class: Option<&Class>,
    ) -> Result<Arc<Vec<InstanceType>>, ProviderError> {
        let known = self.class_kind();
        if !known.is_meant_by(reference) {
            return Err(ProviderError::Other(format!(
                "nodeClassRef is {} in group {}; the simulated provider knows {} in group {}",
                reference.kind, reference.group, known.kind, known.group
            )));
        }
        let volume = match self.shared.region.flavor {
            Flavor::AutoMode => class.map_or(Ok(catalog::DATA_VOLUME), catalog::data_volume),
            // Its machines have the disks that their type says.
            Flavor::Kwok => Ok(catalog::DATA_VOLUME),
        };
        let volume = volume.map_err(|problem| {
            ProviderError::Other(format!("{} {}: {problem}", known.kind, reference.name))
        })?;
        Ok(self.shared.types(volume))
    }

    fn next_change(&self) -> Option<Timestamp> {
        self.shared.state().learned.next()
    }

    fn create<'a>(
        &'a self,
        claim: &'a NodeClaim,
        class: Option<&'a Class>,
        types: &'a [InstanceType],
    ) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            let uid = claim.metadata.uid.as_deref().ok_or_else(|| {
                ProviderError::Other("the claim has no UID: create it first".to_owned())
            })?;
            let mut missing = Vec::new();
            let launch = self.shared.timings.launch.draw(&mut self.shared.state().delays);
            let ordered = self.shared.order(claim, class, uid, types, &mut missing);
            // The machine boots even if nobody waits for the answer.
            if let Ok((instance, true)) = &ordered
                && !self.shared.state().faults.keeps_from_booting()
            {
                let provider_id = instance.provider_id.clone();
                self.spawn(Arc::clone(&self.shared).boot(provider_id.clone(), launch));
                self.take_back(&instance.labels, provider_id, launch);
            }
            if !matches!(ordered, Ok((_, false))) {
                self.shared.clock.sleep(launch).await;
            }
            self.shared.learn(missing);
            ordered.map(|(instance, _)| instance)
        }
        .boxed()
    }

    fn is_drifted<'a>(
        &'a self,
        claim: &'a NodeClaim,
        class: Option<&'a Class>,
    ) -> BoxFuture<'a, Result<Option<&'static str>, ProviderError>> {
        let drifted = class.is_some_and(|class| {
            let annotation = |key: &str| claim.metadata.annotations.as_ref()?.get(key);
            let version = annotation(labels::NODECLASS_HASH_VERSION);
            let hash = annotation(labels::NODECLASS_HASH);
            version.is_some_and(|version| version == hash::NODECLASS_VERSION)
                && hash.is_some_and(|hash| *hash != hash::nodeclass_hash(&class.spec))
        });
        async move { Ok(drifted.then_some("NodeClassDrift")) }.boxed()
    }

    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
            if self.shared.timings.terminate.is_none() {
                self.shared.remove(provider_id);
                return Err(not_found(provider_id));
            }
            let mut state = self.shared.state();
            let machine =
                state.machines.get_mut(provider_id).ok_or_else(|| not_found(provider_id))?;
            if !std::mem::replace(&mut machine.terminating, true) {
                self.spawn(Arc::clone(&self.shared).shut_down(provider_id.to_owned()));
            }
            Ok(())
        }
        .boxed()
    }

    fn repair_policies(&self) -> &'static [RepairPolicy] {
        match self.shared.region.flavor {
            Flavor::AutoMode => faults::REPAIR_POLICIES,
            Flavor::Kwok => kwok::REPAIR_POLICIES,
        }
    }

    fn next_notice(&self) -> BoxFuture<'_, Notice> {
        self.shared.next_notice().boxed()
    }

    fn acknowledge(&self, notice: &Notice) {
        self.shared.state().faults.acknowledge(notice.id);
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            let state = self.shared.state();
            let machine = state.machines.get(provider_id).ok_or_else(|| not_found(provider_id))?;
            Ok(machine.instance.clone())
        }
        .boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        async move {
            let state = self.shared.state();
            Ok(state.machines.values().map(|machine| machine.instance.clone()).collect())
        }
        .boxed()
    }
}
