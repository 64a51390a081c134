//! Addresses of machines: 10.0.0.0/16, each zone in networks of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Of 256 addresses of a network, AWS keeps the first four; from the 64th on they are of pods.
const FIRST: usize = 4;
const PER_NETWORK: usize = 60;
/// The first zone's first network is 10.0.100.0/24, the second's 10.0.101.0/24, and so on.
const FIRST_NETWORK: usize = 100;

/// Which addresses are free.
#[derive(Debug)]
pub(super) struct Addresses {
    /// By zone: its number, and where to look next.
    zones: BTreeMap<String, (usize, usize)>,
    used: BTreeSet<Ipv4Addr>,
}

impl Addresses {
    /// All free. Zones are numbered in their order.
    pub(super) fn new(zones: &BTreeSet<&str>) -> Self {
        let numbered = zones.iter().enumerate();
        let zones = numbered.map(|(number, zone)| ((*zone).to_owned(), (number, 0))).collect();
        Self { zones, used: BTreeSet::new() }
    }

    /// Takes the next free address of a zone; an address that was released comes round last.
    pub(super) fn take(&mut self, zone: &str) -> Option<Ipv4Addr> {
        let count = self.zones.len();
        let slots = PER_NETWORK * (256 / count.max(1));
        let (number, next) = self.zones.get_mut(zone)?;
        for step in 0..slots {
            let slot = (*next + step) % slots;
            let network = (FIRST_NETWORK + *number + count * (slot / PER_NETWORK)) % 256;
            let host = FIRST + slot % PER_NETWORK;
            let byte = |value: usize| u8::try_from(value).unwrap_or(u8::MAX);
            let address = Ipv4Addr::new(10, 0, byte(network), byte(host));
            if self.used.insert(address) {
                *next = slot + 1;
                return Some(address);
            }
        }
        None
    }

    /// Gives an address back.
    pub(super) fn release(&mut self, address: Ipv4Addr) {
        self.used.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_networks_of_their_own() {
        let mut addresses = Addresses::new(&BTreeSet::from(["a", "b"]));
        let mut take = |zone| addresses.take(zone).unwrap().to_string();
        assert_eq!([take("a"), take("b"), take("a")], ["10.0.100.4", "10.0.101.4", "10.0.100.5"]);
    }

    #[test]
    fn none_is_given_twice_and_all_come_round() {
        let mut addresses = Addresses::new(&BTreeSet::from(["a", "b", "c"]));
        let all: Vec<Ipv4Addr> = std::iter::from_fn(|| addresses.take("b")).collect();
        assert_eq!(all.len(), PER_NETWORK * 85);
        assert_eq!(BTreeSet::from_iter(&all).len(), all.len());
        assert!(addresses.take("a").is_some_and(|address| !all.contains(&address)));
        addresses.release(all[7]);
        assert_eq!(addresses.take("b"), Some(all[7]));
    }
}
