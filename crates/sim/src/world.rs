//! Everything put together: cluster, simulated cloud, controllers.
//!
//! `aerostat up` and the scenarios build the same world; only the clock differs, and whether a
//! socket listens.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use aerostat_api::{builtin, crds};
use aerostat_clock::{Clock, Seeds};
use aerostat_cluster::registry::WriteOptions;
use aerostat_cluster::{Cluster, Options, Status, bootstrap, http, kubelet, scheduler, workloads};
use aerostat_controllers::{Context, Decision, journal, standing};
use aerostat_engine::snapshot::Settings;
use aerostat_provider::CloudProvider;
use aerostat_provider::catalog::{Flavor, Region};
use aerostat_provider::sim::SimCloud;
use kube::Client;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::{leader, process};

/// What a world is made of.
pub struct WorldOptions {
    /// Its time.
    pub clock: Clock,
    /// Its chance.
    pub seed: u64,
    /// What may be bought.
    pub region: Arc<Region>,
    /// How it behaves.
    pub config: Config,
    /// The certificate that every pod is told to trust, in PEM.
    pub ca: String,
    /// How the planner decides.
    pub settings: Settings,
}

/// A cluster with Auto Mode, in this process.
pub struct World {
    /// The cluster.
    pub cluster: Cluster,
    /// Its API, for a socket.
    pub service: http::Service,
    /// A client of it, without a socket.
    pub client: Client,
    /// Where its machines come from.
    pub cloud: Arc<SimCloud>,
    tasks: JoinSet<()>,
    controllers: JoinSet<()>,
    /// What the running controllers work with. Weak, since it has a client of the service, which
    /// serves documents from it.
    context: Arc<Mutex<Weak<Context>>>,
    settings: Settings,
    flavor: Flavor,
    sender: UnboundedSender<Decision>,
    decisions: Option<UnboundedReceiver<Decision>>,
}

impl World {
    /// Builds a world and sets it going on the current tokio runtime; dropping it stops it.
    ///
    /// # Errors
    ///
    /// If the config names what the region does not have, or if one of the objects that are there
    /// from the start is refused: a fault of this program.
    pub fn start(options: WorldOptions) -> Result<Self, Status> {
        let mut world = Self::without_controllers(options)?;
        world.restart_controllers(world.client.clone());
        Ok(world)
    }

    /// Tells clients of Karpenter where the controllers are, if the provider is Karpenter's own.
    ///
    /// # Errors
    ///
    /// If the cluster refuses lease or pod: a fault of this program.
    pub fn announce_controllers(&self) -> Result<(), Status> {
        if self.flavor == Flavor::Kwok {
            leader::announce(&self.cluster)?;
        }
        Ok(())
    }

    /// The same without controllers: a cluster for another autoscaler.
    ///
    /// # Errors
    ///
    /// As [`World::start`].
    pub fn without_controllers(options: WorldOptions) -> Result<Self, Status> {
        let WorldOptions { clock, seed, region, config, ca, mut settings } = options;
        let flavor = region.flavor;
        if flavor == Flavor::Kwok {
            // Nobody asks a fee for machines that do not exist.
            settings.fee = 0.0;
        }
        let seeds = Seeds::new(seed);
        let cluster = Cluster::new(&Options { clock, seeds });
        bootstrap::run(&cluster, &ca)?;
        match region.flavor {
            Flavor::AutoMode => install_auto_mode(&cluster)?,
            Flavor::Kwok => install(&cluster, crds::kwok())?,
        }
        let service = http::Service::new(cluster.clone());
        let client = Client::new(service.clone(), "default");
        let Config { cloud, stock, kubelet: nodes } = config;
        cloud.check().map_err(|problem| {
            Status::new(400, "BadRequest", format!("the config file's cloud.{problem}"))
        })?;
        stock.check(&region).map_err(|problem| {
            Status::new(400, "BadRequest", format!("the config file's stock.{problem}"))
        })?;
        let cloud = SimCloud::new(region, clock, seeds, cloud, stock, client.clone());
        let cloud = Arc::new(cloud);
        let (sender, decisions) = unbounded_channel();
        let context: Arc<Mutex<Weak<Context>>> = Arc::default();
        let told = context.clone();
        service.serve_documents(Box::new(move |path| document(&told, path)));
        let mut tasks = JoinSet::new();
        tasks.spawn(workloads::run(cluster.clone()));
        tasks.spawn(scheduler::run(cluster.clone()));
        tasks.spawn(kubelet::run(cluster.clone(), Arc::new(nodes)));
        Ok(Self {
            cluster,
            service,
            client,
            cloud,
            tasks,
            controllers: JoinSet::new(),
            context,
            settings,
            flavor,
            sender,
            decisions: Some(decisions),
        })
    }

    /// Ends the controllers wherever they are, and starts new ones that know nothing of the old
    /// ones and reach the API through `client`.
    pub fn restart_controllers(&mut self, client: Client) {
        self.restart_controllers_on(client, self.cloud.clone());
    }

    /// As [`World::restart_controllers`], with what the controllers are to take for the cloud.
    pub fn restart_controllers_on(&mut self, client: Client, cloud: Arc<dyn CloudProvider>) {
        let (clock, settings) = (self.cluster.clock(), self.settings.clone());
        let sender = Some(self.sender.clone());
        let context = Context::new(client, clock, cloud, settings, sender);
        let context = Arc::new(context);
        *self.context.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&context);
        self.controllers = JoinSet::new();
        self.controllers.spawn(aerostat_controllers::run(context));
    }

    /// The planner's decisions, to be told; they can be taken once.
    pub fn decisions(&mut self) -> Option<UnboundedReceiver<Decision>> {
        self.decisions.take()
    }

    /// Waits for a part of the world to end, which none should: the reason, if it panicked.
    pub async fn failed(&mut self) -> String {
        let ended = tokio::select! {
            biased;
            ended = self.tasks.join_next() => ended,
            ended = self.controllers.join_next(), if !self.controllers.is_empty() => ended,
        };
        match ended {
            Some(Err(error)) => format!("a part of the cluster has failed: {error}"),
            _ => "a part of the cluster has ended".to_owned(),
        }
    }
}

/// What the controllers say of `namespaces/NAMESPACE/pods/NAME` or `nodes/NAME`, and their
/// `metrics`; those also as the port of their pod.
fn document(context: &Mutex<Weak<Context>>, path: &str) -> Result<Value, Status> {
    let context = context.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["metrics"] | ["proxy", leader::NAMESPACE, leader::POD, leader::METRICS, "metrics"] => {
            let render = |context: Arc<Context>| {
                let text = context.metrics().render(&context.index());
                Value::String(text + &process::metrics())
            };
            let gone = || Status::new(503, "ServiceUnavailable", "no controllers run".to_owned());
            context.upgrade().map(render).ok_or_else(gone)
        }
        ["nodes", name] => context
            .upgrade()
            .and_then(|context| standing::document(&context, name))
            .ok_or_else(|| Status::not_found("", "nodes", name)),
        ["namespaces", namespace, "pods", name] => {
            let pod = ((*namespace).to_owned(), (*name).to_owned());
            context
                .upgrade()
                .and_then(|context| journal::document(&context, &pod))
                .ok_or_else(|| Status::not_found("", "pods", name))
        }
        _ => Err(Status::new(404, "PathNotFound", format!("there is no document {path}"))),
    }
}

/// Definitions of NodePool, NodeClaim and NodeClass.
///
/// # Errors
///
/// If one is refused: a fault of this program.
pub fn install_definitions(cluster: &Cluster) -> Result<(), Status> {
    install(cluster, crds::all())
}

fn install(cluster: &Cluster, definitions: Vec<Value>) -> Result<(), Status> {
    for definition in definitions {
        create(cluster, "apiextensions.k8s.io", "customresourcedefinitions", definition)?;
    }
    Ok(())
}

/// Auto Mode's own objects, and their definitions.
fn install_auto_mode(cluster: &Cluster) -> Result<(), Status> {
    install_definitions(cluster)?;
    put(cluster, "eks.amazonaws.com", "nodeclasses", &builtin::node_class())?;
    put(cluster, "karpenter.sh", "nodepools", &builtin::general_purpose())?;
    put(cluster, "karpenter.sh", "nodepools", &builtin::system())
}

fn put(
    cluster: &Cluster,
    group: &str,
    plural: &str,
    object: &impl Serialize,
) -> Result<(), Status> {
    let value = serde_json::to_value(object)
        .map_err(|error| Status::new(500, "InternalError", error.to_string()))?;
    create(cluster, group, plural, value)
}

fn create(cluster: &Cluster, group: &str, plural: &str, value: Value) -> Result<(), Status> {
    let kind = cluster
        .kind(group, plural)
        .ok_or_else(|| Status::new(500, "InternalError", format!("{plural} are not served")))?;
    cluster.create_object(&kind, "", value, WriteOptions::default())?;
    Ok(())
}
