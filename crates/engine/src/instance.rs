//! Instance types and offerings, as a provider describes them.

use std::collections::BTreeMap;

use crate::resources::Resources;

/// A kind of machine that may be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceType {
    /// Its name, `c5a.large` for example.
    pub name: String,
    /// Labels that its nodes carry, whatever the offering (`kubernetes.io/arch`, …).
    /// A well-known label that is missing here does not exist on the nodes.
    pub labels: BTreeMap<String, String>,
    /// Where and how it is to be had.
    pub offerings: Vec<Offering>,
    /// What the machine has.
    pub capacity: Resources,
    /// What pods may use of it.
    pub allocatable: Resources,
}

/// One way to get an instance type.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    /// Zone, `ap-northeast-1a` for example.
    pub zone: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    /// USD per hour, without any fee.
    pub price: f64,
    /// Whether it is to be had now.
    pub available: bool,
    /// The capacity that was bought in advance, of an offering of capacity type `reserved`.
    pub reservation: Option<Reservation>,
}

/// Capacity that was bought in advance: a number of machines that cost next to nothing more. An id
/// may stand behind several offerings; their machines count together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its id, `cr-0123456789abcdef0` for example; machines in it carry it as a label.
    pub id: String,
    /// How many machines may still be launched in it.
    pub available: u32,
}
