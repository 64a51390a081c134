//! In which order pods are tried on a machine.

use super::{Demand, Packer};

/// Demands that have pods left, in the order in which they are tried.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) demands: Vec<usize>,
    /// For each position, the least that a demand from there on asks for, by dimension.
    least: Vec<Vec<i64>>,
}

impl Order {
    fn new(demands: Vec<usize>, all: &[Demand]) -> Self {
        let dimensions = all.first().map_or(0, |demand| demand.request.len());
        let mut least = vec![i64::MAX; dimensions];
        let mut suffixes: Vec<Vec<i64>> = demands
            .iter()
            .rev()
            .map(|at| {
                let request = &all[*at].request;
                least
                    .iter_mut()
                    .zip(request)
                    .for_each(|(least, asked)| *least = (*least).min(*asked));
                least.clone()
            })
            .collect();
        suffixes.reverse();
        Self { demands, least: suffixes }
    }

    /// Whether none of the demands from `position` on fits beside `load`, as far as the scarcest
    /// resource tells.
    pub(super) fn is_over(&self, position: usize, room: &[i64], load: &[i64]) -> bool {
        let Some(least) = self.least.get(position) else { return true };
        let asked = least.iter().zip(room.iter().zip(load));
        asked
            .into_iter()
            .any(|(least, (room, load))| *least > 0 && room.saturating_sub(*load) < *least)
    }
}

impl Packer<'_, '_, '_> {
    /// Each order, without demands that have no pods left.
    pub(super) fn live(&self, left: &[u32]) -> Vec<Order> {
        let live = |order: &Vec<usize>| order.iter().copied().filter(|at| left[*at] > 0).collect();
        self.orders.iter().map(|order| Order::new(live(order), self.demands)).collect()
    }
}
