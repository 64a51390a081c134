//! The cluster as it is once, without following it.

use std::fmt::Debug;

use aerostat_api::{ClassKind, NodeClaim};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::{Change, Index, wakers};

impl Index {
    /// Takes in everything that a cluster holds now, with classes of `kind`; what is there already
    /// stays, unless an object has the same name. Kinds that the cluster does not serve count as
    /// empty.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or does not allow to list a kind.
    pub async fn read(
        &mut self,
        client: &Client,
        kind: &ClassKind,
        now: Timestamp,
    ) -> kube::Result<()> {
        let mut changes = every(client, Change::Namespace).await?;
        changes.extend(every(client, Change::Pool).await?);
        changes.extend(every_of(client, kind, Change::Class).await?);
        changes.extend(every(client, Change::Overlay).await?);
        changes.extend(every(client, Change::Node).await?);
        changes.extend(every(client, Change::Claim).await?);
        changes.extend(every(client, Change::ReplicaSet).await?);
        changes.extend(every(client, Change::Job).await?);
        changes.extend(every(client, Change::DaemonSet).await?);
        changes.extend(every(client, Change::LimitRange).await?);
        changes.extend(every(client, Change::StorageClass).await?);
        changes.extend(every(client, Change::Volume).await?);
        changes.extend(every(client, Change::VolumeClaim).await?);
        changes.extend(every(client, Change::CsiNode).await?);
        changes.extend(every(client, Change::Pdb).await?);
        changes.extend(every(client, Change::Pod).await?);
        self.take_in(changes, now);
        Ok(())
    }

    /// Takes in machines and pods that stand in no cluster that answers: their claims, Nodes and
    /// pods, as the API has them.
    pub fn add(
        &mut self,
        claims: Vec<NodeClaim>,
        nodes: Vec<core::Node>,
        pods: Vec<core::Pod>,
        now: Timestamp,
    ) {
        let claims = claims.into_iter().map(|claim| Change::Claim(Event::Apply(claim)));
        let nodes = nodes.into_iter().map(|node| Change::Node(Event::Apply(node)));
        let pods = pods.into_iter().map(|pod| Change::Pod(Event::Apply(pod)));
        self.take_in(claims.chain(nodes).chain(pods), now);
    }

    fn take_in(&mut self, changes: impl IntoIterator<Item = Change>, now: Timestamp) {
        // Nobody is to be woken.
        let (wakers, _) = wakers();
        for change in changes {
            self.apply(change, now, &wakers);
        }
    }
}

async fn every<K>(client: &Client, wrap: fn(Event<K>) -> Change) -> kube::Result<Vec<Change>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    K::DynamicType: Default,
{
    every_of(client, &K::DynamicType::default(), wrap).await
}

async fn every_of<K>(
    client: &Client,
    kind: &K::DynamicType,
    wrap: fn(Event<K>) -> Change,
) -> kube::Result<Vec<Change>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    match Api::<K>::all_with(client.clone(), kind).list(&ListParams::default()).await {
        Ok(list) => Ok(list.items.into_iter().map(|object| wrap(Event::Apply(object))).collect()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
