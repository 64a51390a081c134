//! The pods and machines of a plan as the bound sees them.

use std::collections::BTreeMap;

use super::{Bound, Packer};
use crate::bound::{Asked, Machine, Problem, SIZES, Size};
use crate::provisioning::domain::Item;

/// How many domains a market may have.
const DOMAINS: usize = 64;

/// Machines and pods without what the bound does not see.
pub(super) struct Market {
    pub(super) problem: Problem,
    /// What each machine of the problem is: a domain and a shape.
    pub(super) offered: Vec<(usize, Item)>,
    /// The demand behind each class of the problem.
    pub(super) demands: Vec<usize>,
    /// Whether the machines are all that pods could ever share.
    pub(super) is_complete: bool,
    /// Constraints that the problem leaves out.
    pub(super) ignores: Vec<String>,
}

impl Market {
    /// A bound as worths by demand. Without all machines that pods could share it is none.
    pub(super) fn bound(&self, usd: f64, worth: &[f64], demands: usize) -> Bound {
        let mut ignores = self.ignores.clone();
        if !self.is_complete {
            ignores.push("more combinations of constraints than are looked at".to_owned());
            return Bound { usd: 0.0, worth: Vec::new(), ignores };
        }
        let mut by_demand = vec![0.0; demands];
        self.demands.iter().zip(worth).for_each(|(at, worth)| by_demand[*at] = *worth);
        Bound { usd, worth: by_demand, ignores }
    }
}

impl Packer<'_, '_, '_> {
    /// Gathers the demands that have pods in `counts` and the machines that they may have.
    pub(super) fn market(&mut self, counts: &[u32]) -> Market {
        let demands: Vec<usize> = (0..counts.len()).filter(|at| counts[*at] > 0).collect();
        let mut groups: Vec<usize> = demands.iter().map(|at| self.demands[*at].group).collect();
        groups.sort_unstable();
        groups.dedup();
        let (domains, is_complete) = self.reachable(&groups);
        let mut ignores = Vec::new();
        let caps = self.caps(&demands, &mut ignores);
        let mut asked: Vec<Asked> = demands
            .iter()
            .map(|at| Asked {
                size: self.size(&self.demands[*at].request),
                count: counts[*at],
                most: u32::MAX,
                group: groups.binary_search(&self.demands[*at].group).unwrap_or(0),
            })
            .collect();
        let mut dimension = self.demands.first().map_or(0, |d| d.request.len()).min(SIZES);
        let mut limits: Vec<(usize, u32)> = Vec::new();
        for (members, cap) in caps {
            if let [only] = members[..] {
                asked[only].most = asked[only].most.min(cap);
            } else if dimension < SIZES {
                members.iter().for_each(|member| asked[*member].size[dimension] = 1);
                limits.push((dimension, cap));
                dimension += 1;
            } else {
                members.iter().for_each(|m| asked[*m].most = asked[*m].most.min(cap));
                ignores.push("sets of pods on one machine".to_owned());
            }
        }
        let mut offered: Vec<(usize, Item)> = Vec::new();
        let mut machines: Vec<Machine> = Vec::new();
        let mut all: Vec<(usize, Item, Vec<bool>)> = Vec::new();
        for domain in domains {
            let open: Vec<bool> =
                groups.iter().map(|group| self.domains.admits(domain, *group)).collect();
            let items = self.domains.menu(domain).iter();
            all.extend(items.map(|item| (domain, *item, open.clone())));
        }
        // Those that serve more come first among equals, so that the others are seen as beaten.
        all.sort_by_key(|(domain, item, open)| {
            (item.price, open.iter().filter(|open| !**open).count(), *domain)
        });
        for (domain, item, open) in all {
            let mut room = self.size(&self.domains.store(domain).shapes[item.shape].room);
            limits.iter().for_each(|(dimension, cap)| room[*dimension] = i64::from(*cap));
            let beaten = machines.iter().any(|better| {
                better.room.iter().zip(&room).all(|(theirs, mine)| theirs >= mine)
                    && better.open.iter().zip(&open).all(|(theirs, mine)| *theirs || !mine)
            });
            if !beaten && open.contains(&true) {
                machines.push(Machine { room, price: item.price.usd(), open });
                offered.push((domain, item));
            }
        }
        ignores.sort();
        ignores.dedup();
        Market { problem: Problem { asked, machines }, offered, demands, is_complete, ignores }
    }

    /// All that a machine may be once pods of some of the groups are on it.
    fn reachable(&mut self, groups: &[usize]) -> (Vec<usize>, bool) {
        let mut domains: Vec<usize> = Vec::new();
        for group in groups {
            domains.extend(self.first_domains(*group));
        }
        domains.sort_unstable();
        domains.dedup();
        let mut at = 0;
        while at < domains.len() {
            for group in groups {
                if self.domains.admits(domains[at], *group) {
                    continue;
                }
                for joined in self.domains.join(domains[at], *group).iter() {
                    if !domains.contains(joined) {
                        domains.push(*joined);
                    }
                }
                if domains.len() > DOMAINS {
                    return (domains, false);
                }
            }
            at += 1;
        }
        (domains, true)
    }

    /// Classes of which a machine may carry only so many together.
    fn caps(&self, demands: &[usize], ignores: &mut Vec<String>) -> Vec<(Vec<usize>, u32)> {
        let mut sets: BTreeMap<usize, (Vec<usize>, Vec<Option<u32>>)> = BTreeMap::new();
        let mut ports: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (class, at) in demands.iter().enumerate() {
            let demand = &self.demands[*at];
            for set in &demand.rule.counts {
                let cap = demand.rule.caps.iter().find(|(capped, _)| capped == set);
                let entry = sets.entry(*set).or_default();
                entry.0.push(class);
                entry.1.push(cap.map(|(_, cap)| *cap));
            }
            if self.domains.group(demand.group).is_exclusive() {
                ports.entry(demand.group).or_default().push(class);
            }
            if demand.rule.caps.iter().any(|(set, _)| !demand.rule.counts.contains(set)) {
                ignores.push("anti-affinity between different pods".to_owned());
            }
            if !demand.rule.needs.is_empty() {
                ignores.push("affinity to pods on the same machine".to_owned());
            }
        }
        let mut caps: Vec<(Vec<usize>, u32)> = ports.into_values().map(|m| (m, 1)).collect();
        for (members, of) in sets.into_values() {
            // Whoever bears most decides, if everybody minds.
            match of.iter().copied().collect::<Option<Vec<u32>>>().map(|of| of.into_iter().max()) {
                Some(Some(cap)) => caps.push((members, cap)),
                _ if of.iter().any(Option::is_some) => {
                    ignores.push("anti-affinity between different pods".to_owned());
                }
                _ => {}
            }
        }
        caps
    }

    fn size(&self, amounts: &[i64]) -> Size {
        std::array::from_fn(|at| amounts.get(at).copied().unwrap_or(0).max(0))
    }
}
