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
mod node;
#[cfg(test)]
mod tests;
mod timings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aerostat_api::{NodeClaim, NodePool, labels};
use aerostat_clock::{Clock, Seeds, Stream};
use aerostat_engine::instance::InstanceType;
use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rand::Rng;
use serde_json::json;
use tokio::task::JoinSet;

use crate::catalog::Region;
use crate::{CloudProvider, Instance, ProviderError};
use addresses::Addresses;
pub use timings::Timings;

/// One way to get an instance type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    /// The instance type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
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
    /// The region's types, less what is out of stock.
    types: Arc<Vec<InstanceType>>,
    draws: Stream,
}

/// A machine that has been ordered.
struct Machine {
    instance: Instance,
    claim: NodeClaim,
    address: Ipv4Addr,
    /// Random bits that its host's IDs are made of.
    entropy: [u64; 4],
    terminating: bool,
}

impl SimCloud {
    /// A cloud that sells what `region` does. Nodes join through `client`; IDs are drawn from the
    /// stream `sim-cloud` of `seeds`.
    #[must_use]
    pub fn new(
        region: Arc<Region>,
        clock: Clock,
        seeds: Seeds,
        timings: Timings,
        client: kube::Client,
    ) -> Self {
        let state = State {
            machines: BTreeMap::new(),
            claims: BTreeMap::new(),
            addresses: Addresses::new(&region.zones()),
            types: Arc::new(region.types.clone()),
            draws: seeds.stream("sim-cloud"),
        };
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { region, clock, timings, client, state });
        Self { shared, tasks: Mutex::default() }
    }

    /// Makes these offerings, and no others, be out of stock from now on. Names that the region
    /// does not have do no harm.
    pub fn set_unavailable(&self, offerings: &BTreeSet<OfferingKey>) {
        let mut types = self.shared.region.types.clone();
        for kind in &mut types {
            for offering in &mut kind.offerings {
                let key = OfferingKey {
                    instance_type: kind.name.clone(),
                    zone: offering.zone.clone(),
                    capacity_type: offering.capacity_type.clone(),
                };
                offering.available &= !offerings.contains(&key);
            }
        }
        self.shared.state().types = Arc::new(types);
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

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Orders a machine for a claim, or finds the one that was ordered before. `true`: it is new.
    fn order(&self, claim: &NodeClaim, uid: &str) -> Result<(Instance, bool), ProviderError> {
        let mut state = self.state();
        if let Some(known) = state.claims.get(uid).and_then(|id| state.machines.get(id)) {
            return Ok((known.instance.clone(), false));
        }
        let types = Arc::clone(&state.types);
        let (kind, offering) = choose::cheapest(&types, claim)?;
        let address = state.addresses.take(&offering.zone).ok_or_else(|| {
            ProviderError::InsufficientCapacity(format!(
                "no address is left in zone {}",
                offering.zone
            ))
        })?;
        let entropy: [u64; 4] = std::array::from_fn(|_| state.draws.next_u64());
        // EC2's form: 17 hexadecimal digits, the first of them 0.
        let provider_id = format!("aws:///{}/i-0{:016x}", offering.zone, state.draws.next_u64());
        let mut labels = kind.labels.clone();
        labels.insert(labels::ZONE.to_owned(), offering.zone.clone());
        labels.insert(labels::CAPACITY_TYPE.to_owned(), offering.capacity_type.clone());
        let instance = Instance {
            provider_id: provider_id.clone(),
            labels,
            image_id: Some(node::image_id(kind)),
            capacity: kind.capacity.quantities(),
            allocatable: kind.allocatable.quantities(),
        };
        let machine = Machine {
            instance: instance.clone(),
            claim: claim.clone(),
            address,
            entropy,
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
    async fn boot(self: Arc<Self>, provider_id: String) {
        self.clock.sleep(self.timings.launch.0 + self.timings.boot.0).await;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut step = Duration::from_millis(100);
        loop {
            let node = match self.state().machines.get(&provider_id) {
                Some(machine) if !machine.terminating => node::of(machine, self.clock.now()),
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
        self.clock.sleep(self.timings.terminate.0).await;
        let mut state = self.state();
        if let Some(machine) = state.machines.remove(&provider_id) {
            state.addresses.release(machine.address);
            let uid = machine.claim.metadata.uid.unwrap_or_default();
            state.claims.remove(&uid);
        }
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

fn not_found(provider_id: &str) -> ProviderError {
    ProviderError::NotFound(format!("instance {provider_id} is not there (any more)"))
}

impl CloudProvider for SimCloud {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn instance_types(&self, pool: &NodePool) -> Result<Arc<Vec<InstanceType>>, ProviderError> {
        let class = &pool.spec.template.spec.node_class_ref;
        if (class.group.as_str(), class.kind.as_str()) != ("eks.amazonaws.com", "NodeClass") {
            return Err(ProviderError::Other(format!(
                "nodeClassRef is {} in group {}; the simulated provider knows NodeClass in group \
                 eks.amazonaws.com",
                class.kind, class.group
            )));
        }
        Ok(Arc::clone(&self.shared.state().types))
    }

    fn create<'a>(
        &'a self,
        claim: &'a NodeClaim,
    ) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            let uid = claim.metadata.uid.as_deref().ok_or_else(|| {
                ProviderError::Other("the claim has no UID: create it first".to_owned())
            })?;
            let ordered = self.shared.order(claim, uid);
            // The machine boots even if nobody waits for the answer.
            if let Ok((instance, true)) = &ordered {
                let provider_id = instance.provider_id.clone();
                self.spawn(Arc::clone(&self.shared).boot(provider_id));
            }
            if !matches!(ordered, Ok((_, false))) {
                self.shared.clock.sleep(self.shared.timings.launch.0).await;
            }
            ordered.map(|(instance, _)| instance)
        }
        .boxed()
    }

    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
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
