//! The news that the scheduler follows.

use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

use crate::informer::{Change, Informer};
use crate::registry::Cluster;

/// One informer for each kind.
#[derive(Debug)]
pub(super) struct Feeds {
    namespaces: Informer<Namespace>,
    services: Informer<Service>,
    classes: Informer<StorageClass>,
    volumes: Informer<PersistentVolume>,
    claims: Informer<PersistentVolumeClaim>,
    csi_nodes: Informer<CSINode>,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    budgets: Informer<PodDisruptionBudget>,
}

/// What happened.
#[derive(Debug)]
pub(super) enum News {
    Namespace(Change<Namespace>),
    Service(Change<Service>),
    StorageClass(Change<StorageClass>),
    Volume(Change<PersistentVolume>),
    Claim(Change<PersistentVolumeClaim>),
    CsiNode(Change<CSINode>),
    Node(Change<Node>),
    Pod(Change<Pod>),
    Budget(Change<PodDisruptionBudget>),
}

impl Feeds {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            namespaces: cluster.informer(),
            services: cluster.informer(),
            classes: cluster.informer(),
            volumes: cluster.informer(),
            claims: cluster.informer(),
            csi_nodes: cluster.informer(),
            nodes: cluster.informer(),
            pods: cluster.informer(),
            budgets: cluster.informer(),
        }
    }

    /// What has happened already, what others depend on first.
    pub(super) fn try_next(&mut self) -> Option<News> {
        let namespace = self.namespaces.try_next().map(News::Namespace);
        let service = || self.services.try_next().map(News::Service);
        let mut class = || self.classes.try_next().map(News::StorageClass);
        let volume = || self.volumes.try_next().map(News::Volume);
        let claim = || self.claims.try_next().map(News::Claim);
        let csi_node = || self.csi_nodes.try_next().map(News::CsiNode);
        let storage = || class().or_else(volume).or_else(claim).or_else(csi_node);
        let node = || self.nodes.try_next().map(News::Node);
        let pod = || self.pods.try_next().map(News::Pod);
        let budget = || self.budgets.try_next().map(News::Budget);
        namespace.or_else(service).or_else(storage).or_else(node).or_else(pod).or_else(budget)
    }

    /// What happens next; `None` when the cluster is gone. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<News> {
        tokio::select! {
            biased;
            change = self.namespaces.next() => change.map(News::Namespace),
            change = self.services.next() => change.map(News::Service),
            change = self.classes.next() => change.map(News::StorageClass),
            change = self.volumes.next() => change.map(News::Volume),
            change = self.claims.next() => change.map(News::Claim),
            change = self.csi_nodes.next() => change.map(News::CsiNode),
            change = self.nodes.next() => change.map(News::Node),
            change = self.pods.next() => change.map(News::Pod),
            change = self.budgets.next() => change.map(News::Budget),
        }
    }
}
