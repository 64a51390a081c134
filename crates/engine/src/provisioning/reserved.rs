//! Reserved capacity: how many machines each reservation still takes.
//!
//! Karpenter holds every reservation that a claim might use until the claim is complete, and has
//! modes for pods that find all of them held (`pkg/controllers/provisioning/scheduling/
//! reservationmanager.go`). Here machines are counted as they are planned: nothing is held in
//! vain, and what a reservation cannot take goes on other offerings in the same plan.

use std::collections::BTreeMap;

use aerostat_api::labels;

use super::market::Store;
use crate::instance::{InstanceType, Reservation};
use crate::snapshot::{Pool, Snapshot, Stage};

/// How many machines may still be launched in each reservation.
pub(crate) struct Reservations(BTreeMap<String, u32>);

impl Reservations {
    /// What providers say, less the claims that they have not answered yet.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut left: BTreeMap<String, u32> = BTreeMap::new();
        let types = snapshot.pools.iter().flat_map(|pool| pool.types.iter());
        for reservation in types.flat_map(reservations) {
            let count = left.entry(reservation.id.clone()).or_insert(reservation.available);
            *count = reservation.available.min(*count);
        }
        for state in snapshot.nodes.iter().filter(|state| state.stage == Stage::Ordered) {
            let id = state.node.labels.get(labels::RESERVATION_ID);
            if let Some(count) = id.and_then(|id| left.get_mut(id)) {
                *count = count.saturating_sub(1);
            }
        }
        Self(left)
    }

    /// The reservations that a pool's types name and that have room, those of small machines
    /// first: large ones stay for pods that need them.
    pub(crate) fn open<'a>(&self, pool: &'a Pool) -> Vec<&'a str> {
        let mut open: Vec<((i64, i64), &str)> = Vec::new();
        for kind in pool.types.iter() {
            let size = (kind.capacity.cpu, kind.capacity.memory);
            open.extend(reservations(kind).map(|reservation| (size, reservation.id.as_str())));
        }
        open.sort_unstable();
        let mut ids: Vec<&str> = Vec::new();
        for (_, id) in open {
            if self.left(id) > 0 && !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    pub(crate) fn left(&self, id: &str) -> u32 {
        self.0.get(id).copied().unwrap_or(0)
    }

    pub(crate) fn take(&mut self, id: &str, count: u32) {
        if let Some(left) = self.0.get_mut(id) {
            *left = left.saturating_sub(count);
        }
    }
}

/// Whether a pool may use some reservation.
pub(crate) fn is_for(store: &Store<'_>) -> bool {
    store.template.allows(labels::CAPACITY_TYPE, Some("reserved"))
        && store.pool.types.iter().flat_map(reservations).next().is_some()
}

fn reservations(kind: &InstanceType) -> impl Iterator<Item = &Reservation> {
    let available = kind.offerings.iter().filter(|offering| offering.available);
    available.filter_map(|offering| offering.reservation.as_ref())
}
