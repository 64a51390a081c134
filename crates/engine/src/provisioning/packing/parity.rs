//! Karpenter's rule, to compare with: pods in order of size, each on the claim with the fewest
//! pods that still has a type that holds everything, else on a new claim.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling/scheduler.go`. A
//! claim keeps all types that hold its pods, so it grows until the largest of them is full; the
//! launch takes the cheapest.

use super::fill::{add, fits};
use super::refine::merged;
use super::{Bin, Bound, Packer, Packing};
use crate::provisioning::tally::Tally;

/// A claim that is being filled.
struct Claim {
    bin: Bin,
    tally: Tally,
    pods: u32,
}

impl Packer<'_, '_, '_> {
    /// Packs as Karpenter does. Demands come in its order, those of higher priority first.
    pub(super) fn parity(&mut self, counts: &[u32]) -> Packing {
        let mut claims: Vec<Claim> = Vec::new();
        let mut left = counts.to_vec();
        for (at, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
            // Pod by pod, each goes to the claim with the fewest that takes it. A claim that takes
            // no pod of a demand takes none later, so all rise to one level.
            let mut open: Vec<Open> = Vec::new();
            for (index, claim) in claims.iter().enumerate() {
                if let Some((domain, fit)) = self.room_for(claim, at) {
                    open.push(Open { index, domain, pods: claim.pods, fit });
                }
            }
            for (open, count) in shared(&open, *left) {
                self.join_claim(&mut claims[open.index], at, open.domain, count);
                *left -= count;
            }
            while *left > 0 {
                let Some((mut claim, domain, fit)) = self.open_claim(at) else { break };
                let count = fit.min(*left);
                self.join_claim(&mut claim, at, domain, count);
                claims.push(claim);
                *left -= count;
            }
        }
        let bins = claims.into_iter().filter_map(|claim| {
            let item = self.domains.cheapest(claim.bin.domain, &claim.bin.load, &[])?;
            Some(Bin { item, ..claim.bin })
        });
        Packing { bins: merged(bins.collect()), left, bound: Bound::default() }
    }

    fn open_claim(&mut self, at: usize) -> Option<(Claim, usize, u32)> {
        (0..self.domains.stores.len()).find_map(|store| {
            let dimensions = self.demands[at].request.len();
            let item = *self.domains.menu(store).first()?;
            let (load, counts) = (vec![0; dimensions], vec![0; self.demands.len()]);
            let bin = Bin { domain: store, item, load, counts, copies: 1 };
            let claim = Claim { bin, tally: Tally::default(), pods: 0 };
            let (domain, fit) = self.room_for(&claim, at)?;
            Some((claim, domain, fit))
        })
    }

    /// How many pods of a demand a claim can take, and what it is then; none is not enough.
    fn room_for(&mut self, claim: &Claim, at: usize) -> Option<(usize, u32)> {
        let demand = &self.demands[at];
        let fit = claim.tally.room(&demand.rule, demand.count);
        if fit == 0 {
            return None;
        }
        let domains = &self.domains;
        let rooms = |id: usize| {
            let shapes = &domains.store(id).shapes;
            domains.menu(id).iter().map(|item| &shapes[item.shape].room)
        };
        let load = &claim.bin.load;
        if rooms(claim.bin.domain).all(|room| fits(room, load, &demand.request) == 0) {
            return None;
        }
        let joined = self.domains.join(claim.bin.domain, demand.group);
        joined.iter().find_map(|id| {
            let shapes = &self.domains.store(*id).shapes;
            let rooms = self.domains.menu(*id).iter().map(|item| &shapes[item.shape].room);
            let most = rooms.map(|room| fits(room, load, &demand.request)).max()?;
            let fit = fit.min(most);
            let fit =
                if self.domains.group(demand.group).is_exclusive() { fit.min(1) } else { fit };
            let fit = self.flexible(*id, load, &demand.request, fit);
            (fit > 0).then_some((*id, fit))
        })
    }

    fn join_claim(&self, claim: &mut Claim, at: usize, domain: usize, count: u32) {
        let demand = &self.demands[at];
        claim.tally.join(&demand.rule, count);
        claim.pods += count;
        claim.bin.counts[at] += count;
        claim.bin.domain = domain;
        add(&mut claim.bin.load, &demand.request, count);
    }
}

/// A claim that takes pods of a demand.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: usize,
    /// What the claim is with them.
    domain: usize,
    pods: u32,
    fit: u32,
}

/// How many of `count` pods go to each claim if each goes to the one with the fewest, then to the
/// first.
fn shared(open: &[Open], count: u32) -> Vec<(Open, u32)> {
    let at_level = |level: u32| {
        let each = |open: &Open| u64::from(level.saturating_sub(open.pods).min(open.fit));
        open.iter().map(each).sum::<u64>()
    };
    // The highest level that the pods suffice for.
    let (mut level, mut beyond) = (0, u32::MAX);
    while level + 1 < beyond {
        let middle = level + (beyond - level) / 2;
        if at_level(middle) <= u64::from(count) { level = middle } else { beyond = middle }
    }
    let mut rest = u64::from(count) - at_level(level);
    let mut shared = Vec::new();
    for open in open {
        let mut given = level.saturating_sub(open.pods).min(open.fit);
        if rest > 0 && open.pods <= level && given < open.fit {
            given += 1;
            rest -= 1;
        }
        if given > 0 {
            shared.push((*open, given));
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_rise_to_one_level() {
        let open = |index, pods, fit| Open { index, domain: 0, pods, fit };
        let given = |open: &[Open], count| -> Vec<(usize, u32)> {
            shared(open, count).into_iter().map(|(open, count)| (open.index, count)).collect()
        };
        let all = [open(0, 5, 9), open(1, 0, 3), open(2, 2, 9)];
        assert_eq!(given(&all, 1), [(1, 1)]);
        assert_eq!(given(&all, 4), [(1, 3), (2, 1)]);
        assert_eq!(given(&all, 7), [(0, 1), (1, 3), (2, 3)]);
        assert_eq!(given(&all, 100), [(0, 9), (1, 3), (2, 9)]);
        assert_eq!(given(&[], 3), []);
    }
}
