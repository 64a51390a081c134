//! What the pods on machines cost at least: a lower bound on any bill for them.
//!
//! At each moment the pods that are on machines ask for so much cpu and memory. Whatever machines
//! of those that the NodePools allow carry them, they cost at least the least fractional mix of
//! offers with that much of both. This linear program has two rows; the best of its dual's few
//! vertices is its value, and vertices change only when a NodePool does. Everything else that pods
//! ask for is left out, and so are daemons: the bound stays below the bill.

use std::sync::Arc;

use aerostat_api::requirements::Requirements;
use aerostat_api::{NodePool, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_provider::catalog::Region;
use aerostat_provider::sim::Reserved;

/// The lower bound for what NodePools allow.
#[derive(Debug)]
pub(crate) struct Floor {
    region: Arc<Region>,
    /// Milli-cores and bytes that one USD per hour buys, of every offer that a pool has allowed.
    offers: Vec<(f64, f64)>,
    /// USD per hour of a milli-core and of a byte: the dual's vertices.
    vertices: Vec<(f64, f64)>,
    /// Milli-cores and bytes that are paid already.
    reserved: (f64, f64),
}

impl Floor {
    /// The bound in a region where so much is reserved.
    pub(crate) fn new(region: Arc<Region>, reservations: &[Reserved]) -> Self {
        let mut reserved = (0.0, 0.0);
        for reservation in reservations {
            let Some(kind) = region.instance_type(&reservation.instance_type) else { continue };
            let count = f64::from(reservation.count);
            let (cpu, memory) = size(kind);
            reserved.0 += count * cpu;
            reserved.1 += count * memory;
        }
        Self { region, offers: Vec::new(), vertices: Vec::new(), reserved }
    }

    /// A NodePool allows something; what it allowed before stays counted.
    pub(crate) fn allow(&mut self, pool: &NodePool) {
        let spec = &pool.spec.template.spec;
        // What cannot be read allows nothing: no machine is bought for it.
        let Ok(mut requirements) = Requirements::from_pool(&spec.requirements) else { return };
        if let Some(labels) = pool.spec.template.metadata.as_ref().and_then(|m| m.labels.as_ref()) {
            requirements.merge(&Requirements::from_labels(labels));
        }
        for kind in &self.region.types {
            if !allows(&requirements, kind) {
                continue;
            }
            for offering in kind.offerings.iter().filter(|o| is_allowed(&requirements, o)) {
                let (cpu, memory) = size(kind);
                self.offers.push((cpu / offering.price, memory / offering.price));
            }
        }
        self.vertices = vertices(&mut self.offers);
    }

    /// USD per hour for so many milli-cores and bytes.
    pub(crate) fn rate(&self, cpu: f64, memory: f64) -> f64 {
        let (cpu, memory) = (cpu - self.reserved.0, memory - self.reserved.1);
        let of = |(of_cpu, of_memory): &(f64, f64)| of_cpu * cpu + of_memory * memory;
        self.vertices.iter().map(of).fold(0.0, f64::max)
    }
}

/// Milli-cores and bytes that pods may use.
fn size(kind: &InstanceType) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "sizes of machines fit 53 bits")]
    (kind.allocatable.cpu as f64, kind.allocatable.memory as f64)
}

fn is_allowed(requirements: &Requirements, offering: &Offering) -> bool {
    requirements.allows(labels::ZONE, Some(&offering.zone))
        && requirements.allows(labels::CAPACITY_TYPE, Some(&offering.capacity_type))
}

/// Whether the type's own labels are allowed. Labels that the pool's nodes get some other way do
/// not count against it.
fn allows(requirements: &Requirements, kind: &InstanceType) -> bool {
    requirements.iter().all(|requirement| {
        let key = requirement.key();
        kind.labels.get(key).is_none_or(|value| requirements.allows(key, Some(value)))
    })
}

/// The corners of `x·cpu + y·memory ≤ 1` for all offers: they belong to the edges of the offers'
/// hull away from the origin. Keeps only the offers on that hull.
fn vertices(offers: &mut Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    offers.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &offer in offers.iter() {
        // From the most cpu on, only more memory adds anything.
        if hull.last().is_some_and(|last| offer.1 <= last.1) {
            continue;
        }
        while let [.., a, b] = hull.as_slice() {
            let turn = (b.0 - a.0) * (offer.1 - a.1) - (b.1 - a.1) * (offer.0 - a.0);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(offer);
    }
    let mut corners = Vec::new();
    if let (Some(first), Some(last)) = (hull.first(), hull.last()) {
        corners.push((1.0 / first.0, 0.0));
        corners.push((0.0, 1.0 / last.1));
    }
    for pair in hull.windows(2) {
        let [(a, b), (c, d)] = pair else { continue };
        let area = a * d - b * c;
        if area != 0.0 {
            corners.push(((d - b) / area, (a - c) / area));
        }
    }
    *offers = hull;
    corners.retain(|(x, y)| x.is_finite() && y.is_finite() && *x >= 0.0 && *y >= 0.0);
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of the linear program, by trying every pair of offers.
    fn by_pairs(offers: &[(f64, f64)], cpu: f64, memory: f64) -> f64 {
        let mut best = f64::INFINITY;
        for a in offers {
            best = best.min((cpu / a.0).max(memory / a.1));
            for b in offers {
                // How much of a and b gives both exactly.
                let area = a.0 * b.1 - a.1 * b.0;
                let (x, y) = ((cpu * b.1 - memory * b.0) / area, (memory * a.0 - cpu * a.1) / area);
                if area != 0.0 && x >= 0.0 && y >= 0.0 {
                    best = best.min(x + y);
                }
            }
        }
        best
    }

    #[test]
    fn the_best_vertex_is_the_value_of_the_program() {
        let all = [(10.0, 1.0), (8.0, 5.0), (7.0, 5.5), (5.0, 8.0), (1.0, 9.0), (4.0, 4.0)];
        let mut offers = all.to_vec();
        let vertices = vertices(&mut offers);
        for (cpu, memory) in [(1.0, 0.0), (0.0, 1.0), (3.0, 1.0), (1.0, 1.0), (2.0, 9.0)] {
            let dual = vertices.iter().map(|(x, y)| x * cpu + y * memory).fold(0.0, f64::max);
            let primal = by_pairs(&all, cpu, memory);
            assert!((dual - primal).abs() < 1e-9, "{cpu} {memory}: {dual} and {primal}");
        }
    }
}
