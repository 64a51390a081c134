//! Why a machine stays.

use std::fmt;

use serde::Serialize;

use crate::pod::PodKey;

/// Why a machine stays. [`fmt::Display`] is Karpenter's text where it has one.
/// Source: kubernetes-sigs/karpenter `pkg/controllers/disruption/{types,consolidation}.go`,
/// `pkg/controllers/state/statenode.go`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Blocker {
    /// Node or claim is annotated not to be disrupted.
    Node,
    /// A pod is annotated not to be disrupted.
    Pod {
        /// The pod.
        pod: PodKey,
    },
    /// A PodDisruptionBudget allows no disruption.
    Pdb {
        /// The pod.
        pod: PodKey,
        /// The budget, `namespace/name`.
        pdb: String,
    },
    /// More than one PodDisruptionBudget is about a pod: the API evicts no such pod.
    ManyPdbs {
        /// The pod.
        pod: PodKey,
        /// The budgets, `namespace/name`.
        pdbs: Vec<String>,
    },
    /// Pods are on their way to it.
    Nominated,
    /// The pool's budgets allow no more disruption.
    Budget {
        /// Of which reason.
        reason: String,
    },
    /// The pool never gives up machines to save money.
    Never {
        /// The pool.
        pool: String,
    },
    /// The pool only gives up empty machines.
    WhenEmpty {
        /// The pool.
        pool: String,
    },
    /// A pod of a Job would have to begin anew, and nothing says what that costs.
    Work {
        /// The pod.
        pod: PodKey,
    },
    /// What it costs is not known.
    NoPrice,
    /// A pod would find no place.
    NoPlace {
        /// The pod.
        pod: PodKey,
        /// Why.
        message: String,
    },
    /// A pod would go on a machine that is not up yet.
    NotUp {
        /// The machine.
        machine: String,
    },
    /// Nothing cheaper would do.
    NotCheaper,
    /// Money would be saved, but moving the pods costs more.
    NotWorth {
        /// USD per hour that would be saved.
        saves: f64,
        /// USD that the moves cost.
        moves: f64,
    },
    /// Pods would move for little of what the pool costs: the policy is `Balanced`.
    Unbalanced {
        /// The pool.
        pool: String,
        /// The share of the pool's cost that is saved, as a part of the share of its pods that
        /// move.
        score: f64,
    },
    /// Its pods would not all have had a place on what was ordered for them, or that did not come.
    RolledBack,
}

impl Blocker {
    /// What kind it is, as JSON has it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pod { .. } => "pod",
            Self::Pdb { .. } => "pdb",
            Self::ManyPdbs { .. } => "manyPdbs",
            Self::Nominated => "nominated",
            Self::Budget { .. } => "budget",
            Self::Never { .. } => "never",
            Self::WhenEmpty { .. } => "whenEmpty",
            Self::Work { .. } => "work",
            Self::NoPrice => "noPrice",
            Self::NoPlace { .. } => "noPlace",
            Self::NotUp { .. } => "notUp",
            Self::NotCheaper => "notCheaper",
            Self::NotWorth { .. } => "notWorth",
            Self::Unbalanced { .. } => "unbalanced",
            Self::RolledBack => "rolledBack",
        }
    }

    /// Whether it only stands against saving money, not against disruption as such: the reason of
    /// Karpenter's event is then `Unconsolidatable`, else `DisruptionBlocked`.
    #[must_use]
    pub fn is_about_price(&self) -> bool {
        matches!(
            self,
            Self::Never { .. }
                | Self::WhenEmpty { .. }
                | Self::Work { .. }
                | Self::NoPrice
                | Self::NoPlace { .. }
                | Self::NotUp { .. }
                | Self::NotCheaper
                | Self::NotWorth { .. }
                | Self::Unbalanced { .. }
                | Self::RolledBack
        )
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let annotation = aerostat_api::labels::DO_NOT_DISRUPT;
        let name = |pod: &PodKey| format!("{}/{}", pod.0, pod.1);
        match self {
            Self::Node => {
                write!(f, "disruption is blocked through the \"{annotation}\" annotation")
            }
            Self::Pod { pod } => {
                write!(f, "pod has \"{annotation}\" annotation (Pod={})", name(pod))
            }
            Self::Pdb { pdb, .. } => {
                write!(f, "pdb prevents pod evictions (PodDisruptionBudget=[{pdb}])")
            }
            Self::ManyPdbs { pdbs, .. } => write!(
                f,
                "eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{}])",
                pdbs.join(" ")
            ),
            Self::Nominated => f.write_str("node is nominated for a pending pod"),
            Self::Budget { reason } => write!(
                f,
                "No allowed disruptions for disruption reason {reason} due to blocking budget"
            ),
            Self::Never { pool } => {
                write!(f, "NodePool {pool:?} has consolidation disabled")
            }
            Self::WhenEmpty { pool } => write!(
                f,
                "NodePool {pool:?} has consolidation policy WhenEmpty, but node is not empty"
            ),
            Self::Work { pod } => write!(
                f,
                "Pod of a Job would lose its work, and no {} says what that costs (Pod={})",
                aerostat_api::labels::POD_MOVE_USD,
                name(pod)
            ),
            Self::NoPrice => f.write_str("the price of the node is not known"),
            Self::NoPlace { pod, message } => {
                write!(f, "Not all pods would schedule, {} => {message}", name(pod))
            }
            Self::NotUp { machine } => {
                write!(f, "would schedule against uninitialized {machine}")
            }
            Self::NotCheaper => f.write_str("Can't replace with a cheaper node"),
            Self::NotWorth { saves, moves } => write!(
                f,
                "Moving its pods costs ${moves:.4}, which saving ${saves:.4}/h does not pay for within an hour"
            ),
            Self::Unbalanced { pool, score } => {
                write!(f, "NodePool {pool:?} is Balanced: score {score:.2} < threshold 0.50")
            }
            Self::RolledBack => f.write_str(
                "What was ordered in its place did not come or does not suffice; it is weighed again after a while",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_called_as_in_json() {
        let pod = || ("default".to_owned(), "a".to_owned());
        let pool = || "general".to_owned();
        for blocker in [
            Blocker::Node,
            Blocker::Pod { pod: pod() },
            Blocker::Pdb { pod: pod(), pdb: String::new() },
            Blocker::ManyPdbs { pod: pod(), pdbs: Vec::new() },
            Blocker::Nominated,
            Blocker::Budget { reason: String::new() },
            Blocker::Never { pool: pool() },
            Blocker::WhenEmpty { pool: pool() },
            Blocker::Work { pod: pod() },
            Blocker::NoPrice,
            Blocker::NoPlace { pod: pod(), message: String::new() },
            Blocker::NotUp { machine: String::new() },
            Blocker::NotCheaper,
            Blocker::NotWorth { saves: 0.0, moves: 0.0 },
            Blocker::Unbalanced { pool: pool(), score: 0.0 },
            Blocker::RolledBack,
        ] {
            assert_eq!(serde_json::to_value(&blocker).unwrap()["kind"], blocker.kind());
        }
    }
}
