//! What may be launched: what the provider sells with the classes of the pools, as NodeOverlays
//! change it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::{NodeClaim, NodePool, labels};
use aerostat_engine::instance::InstanceType;
use aerostat_engine::overlay::{self, Overlay, Target};
use aerostat_provider::{CloudProvider, ProviderError};
use kube::ResourceExt;

use crate::index::Index;

/// What each pool may launch.
pub(crate) type Types = Result<Arc<Vec<InstanceType>>, ProviderError>;

/// What may be launched.
#[derive(Debug, Default)]
pub(crate) struct Market {
    /// By pool.
    types: BTreeMap<String, Types>,
    /// What it was made of.
    overlays: Vec<(String, Option<i64>)>,
    targets: Vec<(String, Target)>,
    /// Overlays that cannot be read, with the reason.
    unreadable: BTreeMap<String, String>,
    conflicts: BTreeSet<String>,
}

impl Market {
    /// Looks again at what the provider sells; overlays are applied anew only if something changed.
    pub(crate) fn refresh(&self, provider: &dyn CloudProvider, index: &Index) -> Option<Self> {
        let mut types = BTreeMap::new();
        let mut targets = Vec::new();
        for pool in index.pools.values() {
            let name = pool.name_any();
            let sold = sold(provider, index, pool);
            if let Ok(sold) = &sold {
                let target = Target { labels: labels_of(pool), types: Arc::clone(sold) };
                targets.push((name.clone(), target));
            }
            types.insert(name, sold);
        }
        let overlays: Vec<(String, Option<i64>)> =
            index.overlays.values().map(|o| (o.name_any(), o.metadata.generation)).collect();
        let failed = |types: &BTreeMap<String, Types>| -> Vec<(String, ProviderError)> {
            let failed = types
                .iter()
                .filter_map(|(name, types)| Some((name.clone(), types.as_ref().err()?.clone())));
            failed.collect()
        };
        let same = overlays == self.overlays
            && targets.len() == self.targets.len()
            && targets.iter().zip(&self.targets).all(|(new, old)| is_same(new, old))
            && failed(&types) == failed(&self.types);
        if same {
            return None;
        }
        let mut market = Self { types, overlays, targets, ..Self::default() };
        market.apply(index);
        Some(market)
    }

    fn apply(&mut self, index: &Index) {
        let mut overlays = Vec::new();
        for object in index.overlays.values() {
            match Overlay::from_k8s(object) {
                _ if object.metadata.deletion_timestamp.is_some() => {}
                Ok(overlay) => overlays.push(overlay),
                Err(error) => {
                    self.unreadable.insert(object.name_any(), error);
                }
            }
        }
        if overlays.is_empty() {
            return;
        }
        let (names, targets): (Vec<String>, Vec<Target>) = self.targets.iter().cloned().unzip();
        let (types, conflicts) = overlay::apply(&overlays, &targets);
        self.types.extend(names.into_iter().zip(types.into_iter().map(Ok)));
        self.conflicts = conflicts;
    }

    /// What a pool may launch.
    pub(crate) fn of_pool(&self, pool: &str) -> Option<&Types> {
        self.types.get(pool)
    }

    /// Whether an overlay holds; otherwise a reason in one word, and in a sentence.
    pub(crate) fn verdict(&self, overlay: &str) -> Result<(), (&'static str, String)> {
        if let Some(error) = self.unreadable.get(overlay) {
            return Err(("RuntimeValidation", error.clone()));
        }
        if self.conflicts.contains(overlay) {
            return Err(("Conflict", "conflict with another overlay".to_owned()));
        }
        Ok(())
    }
}

/// What a claim may become.
pub(crate) fn of_claim(
    market: &Market,
    provider: &dyn CloudProvider,
    index: &Index,
    claim: &NodeClaim,
) -> Types {
    let pool = claim.labels().get(labels::NODEPOOL);
    if let Some(types) = pool.and_then(|pool| market.of_pool(pool)) {
        return types.clone();
    }
    let reference = &claim.spec.node_class_ref;
    let class = index.class_of(provider.class_kind(), reference);
    provider.instance_types(reference, class.as_deref())
}

/// What the provider sells with a pool's class.
fn sold(provider: &dyn CloudProvider, index: &Index, pool: &NodePool) -> Types {
    let reference = &pool.spec.template.spec.node_class_ref;
    let class = index.class_of(provider.class_kind(), reference);
    provider.instance_types(reference, class.as_deref())
}

fn labels_of(pool: &NodePool) -> BTreeMap<String, String> {
    let metadata = pool.spec.template.metadata.as_ref();
    let mut labels = metadata.and_then(|m| m.labels.clone()).unwrap_or_default();
    labels.insert(labels::NODEPOOL.to_owned(), pool.name_any());
    labels
}

fn is_same((name, new): &(String, Target), (before, old): &(String, Target)) -> bool {
    name == before && new.labels == old.labels && Arc::ptr_eq(&new.types, &old.types)
}
