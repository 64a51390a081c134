//! Karpenter's rule, to compare with: pods in order of size, each on the claim with the fewest
//! pods that still has a type that holds everything, else on a new claim.
//!
//! Source: kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling/scheduler.go`. A
//! claim keeps all types that hold its pods, so it grows until the largest of them is full; the
//! launch takes the cheapest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fill::add;
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
        for (at, left) in left.iter_mut().enumerate() {
            // A claim that takes no pod of a demand takes none later.
            let mut open: BinaryHeap<Reverse<(u32, usize)>> =
                claims.iter().enumerate().map(|(i, claim)| Reverse((claim.pods, i))).collect();
            while *left > 0 {
                let Some(Reverse((_, index))) = open.pop() else {
                    let Some(claim) = self.open_claim(at) else { break };
                    open.push(Reverse((claim.pods, claims.len())));
                    claims.push(claim);
                    *left -= 1;
                    continue;
                };
                if self.joins(&mut claims[index], at) {
                    open.push(Reverse((claims[index].pods, index)));
                    *left -= 1;
                }
            }
        }
        let bins = merged(claims.into_iter().map(|claim| claim.bin).collect());
        Packing { bins, left, bound: Bound::default() }
    }

    fn open_claim(&mut self, at: usize) -> Option<Claim> {
        (0..self.domains.stores.len()).find_map(|store| {
            let dimensions = self.demands[at].request.len();
            let item = *self.domains.menu(store).first()?;
            let (load, counts) = (vec![0; dimensions], vec![0; self.demands.len()]);
            let bin = Bin { domain: store, item, load, counts, copies: 1 };
            let mut claim = Claim { bin, tally: Tally::default(), pods: 0 };
            self.joins(&mut claim, at).then_some(claim)
        })
    }

    /// Adds a pod to a claim, if it can hold it.
    fn joins(&mut self, claim: &mut Claim, at: usize) -> bool {
        let demand = &self.demands[at];
        if claim.tally.room(&demand.rule, 1) == 0 {
            return false;
        }
        let mut load = claim.bin.load.clone();
        add(&mut load, &demand.request, 1);
        let joined = self.domains.join(claim.bin.domain, demand.group);
        let mut found = joined.iter().map(|id| (*id, self.domains.cheapest(*id, &load, &[])));
        let Some((domain, item)) = found.find_map(|(id, item)| Some((id, item?))) else {
            return false;
        };
        claim.tally.join(&demand.rule, 1);
        claim.pods += 1;
        claim.bin.counts[at] += 1;
        (claim.bin.domain, claim.bin.item, claim.bin.load) = (domain, item, load);
        true
    }
}
