//! What is wrong with a plan.

use std::fmt;

use crate::pod::PodKey;

/// One way in which a plan breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// A pod is placed that does not wait for a place, or is not there.
    NotWaiting {
        /// The pod.
        pod: PodKey,
    },
    /// A pod is placed more than once.
    PlacedTwice {
        /// The pod.
        pod: PodKey,
    },
    /// More promised pods are placed than owners have promised.
    TooManyPromised {
        /// How many were promised.
        promised: u64,
        /// How many the plan has room for.
        placed: u64,
    },
    /// A pod is sent to a machine that does not exist.
    NoSuchMachine {
        /// The pod.
        pod: PodKey,
        /// The node or claim.
        machine: String,
    },
    /// A pod may not be on its machine.
    Misplaced {
        /// One of the pods.
        pod: PodKey,
        /// The machine.
        machine: String,
        /// What stands against it.
        misfit: Misfit,
    },
    /// The pods of a machine ask for more than it has.
    Overfull {
        /// The machine.
        machine: String,
        /// The resource.
        resource: String,
        /// What pods and daemons ask for: milli-cores, bytes or units.
        asked: i128,
        /// What there is for them.
        room: i64,
    },
    /// A claim breaks a rule of its pool.
    BadClaim {
        /// The claim.
        machine: String,
        /// Which rule.
        fault: Fault,
    },
    /// A pool would hold, or cost, more than its limit.
    OverLimit {
        /// The pool.
        pool: String,
        /// The resource; `nodes` for machines; for money, its unit.
        resource: String,
        /// The limit: milli-cores, bytes or units.
        limit: i64,
        /// What the pool would hold.
        held: i128,
    },
    /// A machine is given up that must stay.
    MustStay {
        /// Its claim.
        claim: String,
        /// Why.
        why: String,
    },
    /// More machines of a pool are given up than its budgets allow.
    OverBudget {
        /// The pool.
        pool: String,
        /// How many may go now.
        allowed: u64,
        /// How many the plan gives up.
        going: u64,
    },
}

/// Why a pod may not be on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    /// The machine is cordoned, being deleted, or given up by the same plan.
    Leaving,
    /// `spec.nodeSelector` or required node affinity exclude it.
    NodeAffinity,
    /// A taint that the pod does not tolerate.
    Taint(String),
    /// A host port that another pod of the machine has.
    HostPort(i32),
    /// The volume of a claim cannot be used or made there.
    Volume(String),
    /// The machine lacks the label that a term or spread constraint counts by.
    NoTopology(String),
    /// No pod that a required affinity term asks for is in the domain.
    Affinity {
        /// The topology key.
        key: String,
    },
    /// A required anti-affinity term of one of two pods of one domain excludes the other.
    AntiAffinity {
        /// The topology key.
        key: String,
        /// The other pod.
        other: PodKey,
    },
    /// A domain has too many more pods than the emptiest.
    Spread {
        /// The topology key.
        key: String,
        /// Pods of the domain.
        count: u64,
        /// Pods of the emptiest domain.
        least: u64,
        /// By how many they may differ.
        max_skew: u32,
    },
}

/// Which rule a claim breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Its pool does not exist, or may not launch.
    Pool,
    /// Nothing that is to be had satisfies its requirements.
    NothingToBuy,
    /// Labels, taints or class are not those of the pool's template.
    Template(&'static str),
    /// It may become a machine that the pool's requirements exclude, by this label.
    Requirement(String),
    /// Too few values of a label with `minValues` are left.
    MinValues {
        /// The label.
        key: String,
        /// How many are left.
        left: usize,
        /// How many there must be.
        least: i64,
    },
    /// More claims count on a reservation than it takes.
    Reservation {
        /// The reservation.
        id: String,
        /// How many claims, those under way included.
        claims: u32,
        /// How many machines it takes.
        available: u32,
    },
    /// Its pods ask for more of a resource than the claim says, daemons aside.
    Requests(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWaiting { pod } => {
                write!(f, "pod {} is placed and does not wait for a place", name(pod))
            }
            Self::PlacedTwice { pod } => write!(f, "pod {} is placed twice", name(pod)),
            Self::TooManyPromised { promised, placed } => {
                write!(f, "{placed} promised pods are placed, only {promised} are promised")
            }
            Self::NoSuchMachine { pod, machine } => {
                write!(f, "pod {} is sent to {machine:?}, which does not exist", name(pod))
            }
            Self::Misplaced { pod, machine, misfit } => {
                write!(f, "pod {} may not be on {machine}: {misfit}", name(pod))
            }
            Self::Overfull { machine, resource, asked, room } => {
                write!(f, "{machine} has {room} of {resource}, {asked} are asked for")
            }
            Self::BadClaim { machine, fault } => write!(f, "{machine}: {fault}"),
            Self::OverLimit { pool, resource, limit, held } => {
                write!(f, "pool {pool} would hold {held} of {resource}, its limit is {limit}")
            }
            Self::MustStay { claim, why } => write!(f, "claim {claim} must stay: {why}"),
            Self::OverBudget { pool, allowed, going } => {
                write!(f, "{going} machines of pool {pool} are given up, {allowed} may go")
            }
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving => f.write_str("it takes no pods any more"),
            Self::NodeAffinity => f.write_str("its node selector or node affinity excludes it"),
            Self::Taint(key) => write!(f, "it does not tolerate the taint {key}"),
            Self::HostPort(port) => write!(f, "host port {port} is taken"),
            Self::Volume(claim) => write!(f, "the volume of claim {claim} cannot be there"),
            Self::NoTopology(key) => write!(f, "the machine has no label {key}"),
            Self::Affinity { key } => write!(f, "no pod that its affinity asks for, by {key}"),
            Self::AntiAffinity { key, other } => {
                write!(f, "anti-affinity with pod {}, by {key}", name(other))
            }
            Self::Spread { key, count, least, max_skew } => write!(
                f,
                "{count} pods in a domain of {key}, {least} in the emptiest, maxSkew {max_skew}"
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool => f.write_str("its pool may not launch"),
            Self::NothingToBuy => f.write_str("nothing that is to be had satisfies it"),
            Self::Template(what) => write!(f, "its {what} are not those of its pool"),
            Self::Requirement(key) => write!(f, "its pool excludes what it may become, by {key}"),
            Self::MinValues { key, left, least } => {
                write!(f, "{left} values of {key} are left, minValues is {least}")
            }
            Self::Reservation { id, claims, available } => {
                write!(f, "{claims} claims count on reservation {id}, which takes {available}")
            }
            Self::Requests(resource) => {
                write!(f, "its pods ask for more {resource} than it requests")
            }
        }
    }
}

fn name(pod: &PodKey) -> String {
    format!("{}/{}", pod.0, pod.1)
}
