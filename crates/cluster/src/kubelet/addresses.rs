//! Addresses of pods: each node takes prefixes of sixteen from its network, as Amazon's VPC CNI
//! does with prefix delegation. The first quarter of each /24 is left to machines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Addresses in a prefix.
const PREFIX: u32 = 16;
const NETWORK: u32 = 256;
/// Addresses at the start of a network that machines have.
const MACHINES: u32 = 64;

#[derive(Debug, Default)]
pub(super) struct Addresses {
    nodes: BTreeMap<String, Node>,
    /// First addresses of the prefixes that nodes hold.
    taken: BTreeSet<u32>,
}

#[derive(Debug)]
struct Node {
    ip: u32,
    prefixes: Vec<u32>,
    used: BTreeSet<u32>,
}

impl Addresses {
    pub(super) fn add_node(&mut self, name: &str, ip: Ipv4Addr) {
        let node = Node { ip: u32::from(ip), prefixes: Vec::new(), used: BTreeSet::new() };
        self.nodes.insert(name.to_owned(), node);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        let Some(node) = self.nodes.remove(name) else { return };
        for prefix in node.prefixes {
            self.taken.remove(&prefix);
        }
    }

    /// The next free address for a pod on the node.
    pub(super) fn take(&mut self, name: &str) -> Ipv4Addr {
        let Some(node) = self.nodes.get_mut(name) else { return Ipv4Addr::UNSPECIFIED };
        let mut free = node.prefixes.iter().flat_map(|prefix| *prefix..*prefix + PREFIX);
        let address = free.find(|address| !node.used.contains(address)).unwrap_or_else(|| {
            let mut prefix = node.ip - node.ip % NETWORK;
            while prefix % NETWORK < MACHINES || self.taken.contains(&prefix) {
                // At the very end of the space it begins anew.
                prefix = prefix.wrapping_add(PREFIX);
            }
            self.taken.insert(prefix);
            node.prefixes.push(prefix);
            prefix
        });
        node.used.insert(address);
        Ipv4Addr::from(address)
    }

    pub(super) fn give_back(&mut self, name: &str, address: Option<Ipv4Addr>) {
        if let (Some(node), Some(address)) = (self.nodes.get_mut(name), address) {
            node.used.remove(&u32::from(address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_the_nodes_network_and_never_clash() {
        let mut addresses = Addresses::default();
        addresses.add_node("a", "10.0.101.4".parse().unwrap());
        addresses.add_node("b", "10.0.101.5".parse().unwrap());
        assert_eq!(addresses.take("a").to_string(), "10.0.101.64");
        assert_eq!(addresses.take("b").to_string(), "10.0.101.80");
        let second = addresses.take("a");
        assert_eq!(second.to_string(), "10.0.101.65");
        addresses.give_back("a", Some(second));
        assert_eq!(addresses.take("a"), second);
        for _ in 2..16 {
            addresses.take("a");
        }
        assert_eq!(addresses.take("a").to_string(), "10.0.101.96");
        addresses.remove_node("a");
        addresses.add_node("c", "10.0.101.6".parse().unwrap());
        assert_eq!(addresses.take("c").to_string(), "10.0.101.64");
        for _ in 1..176 {
            addresses.take("b");
        }
        assert_eq!(addresses.take("b").to_string(), "10.0.102.64", "the network is full");
    }
}
