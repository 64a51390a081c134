//! The news that the scheduler follows.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::informer::{Change, Informer};
use crate::registry::Cluster;

/// One informer for each kind.
#[derive(Debug)]
pub(super) struct Feeds {
    namespaces: Informer<Namespace>,
    services: Informer<Service>,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    budgets: Informer<PodDisruptionBudget>,
}

/// What happened.
#[derive(Debug)]
pub(super) enum News {
    Namespace(Change<Namespace>),
    Service(Change<Service>),
    Node(Change<Node>),
    Pod(Change<Pod>),
    Budget(Change<PodDisruptionBudget>),
}

impl Feeds {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            namespaces: cluster.informer(),
            services: cluster.informer(),
            nodes: cluster.informer(),
            pods: cluster.informer(),
            budgets: cluster.informer(),
        }
    }

    /// What has happened already, what others depend on first.
    pub(super) fn try_next(&mut self) -> Option<News> {
        let namespace = self.namespaces.try_next().map(News::Namespace);
        let service = || self.services.try_next().map(News::Service);
        let node = || self.nodes.try_next().map(News::Node);
        let pod = || self.pods.try_next().map(News::Pod);
        let budget = || self.budgets.try_next().map(News::Budget);
        namespace.or_else(service).or_else(node).or_else(pod).or_else(budget)
    }

    /// What happens next; `None` when the cluster is gone. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<News> {
        tokio::select! {
            biased;
            change = self.namespaces.next() => change.map(News::Namespace),
            change = self.services.next() => change.map(News::Service),
            change = self.nodes.next() => change.map(News::Node),
            change = self.pods.next() => change.map(News::Pod),
            change = self.budgets.next() => change.map(News::Budget),
        }
    }
}
