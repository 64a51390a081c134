//! Why a pool has nothing for a pod: what took its types away, one after the other.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;

use crate::resources::Resources;

/// Why one pool has nothing for a pod.
///
/// Its text is `general-purpose: 212 of 640 types left after kubernetes.io/arch; none has 200 vCPU
/// free of daemonsets; closest: c7a.48xlarge lacks 8 vCPU`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolReason {
    /// The pool.
    pub pool: String,
    /// How many types its provider has.
    pub types: usize,
    /// Labels that took some of the types away, and left some: first by the pool's requirements,
    /// then by the pod's.
    pub steps: Vec<Step>,
    /// What took away those that were left.
    pub end: End,
}

/// A label whose requirement took types away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The label.
    pub key: String,
    /// How many types were left.
    pub left: usize,
}

/// What stands against a pod in the end. Later ones are closer to a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum End {
    /// The pool launches nothing for anybody.
    Unusable {
        /// Why.
        why: String,
    },
    /// The pod does not tolerate taints of the pool.
    Taints {
        /// `gpu=yes:NoSchedule`.
        taints: Vec<String>,
    },
    /// The pod's constraints cannot be read, or contradict what the pool says of its nodes.
    Constraints {
        /// One text for each label.
        why: String,
    },
    /// No type that is left has the label as it must be.
    Label {
        /// The requirement: `kubernetes.io/arch In [s390x]`.
        requirement: String,
    },
    /// No offering of the types that are left is to be had where it must be.
    Offerings {
        /// Requirements on zone and capacity type.
        requirements: Vec<String>,
    },
    /// No type that is left has enough.
    Resources {
        /// What no type has: of each resource that none has enough of alone, or of all that the
        /// pod asks for if it is only together that they are too much.
        wanted: Resources,
        /// Whether it is only together that they are too much.
        together: bool,
        /// Whether daemons take something of the machines.
        daemons: bool,
        /// The type that comes closest.
        closest: String,
        /// What it lacks.
        lacks: Resources,
        /// The largest part of what is asked for that it lacks, in millionths.
        shortfall: u64,
    },
    /// The types that hold the pod have too few values of a label.
    MinValues {
        /// The label.
        key: String,
        /// How many values the pool asks for.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// The types that hold the pod exceed the pool's limits.
    Limits {
        /// How many types hold the pod.
        holding: usize,
        /// What is limited.
        limits: Vec<String>,
    },
    /// A machine would hold the pod, but not beside other pods, or not where they are.
    Pods {
        /// The pod's constraints on other pods.
        constraints: Vec<String>,
    },
    /// A machine would hold the pod; the planner's own words for why it does not.
    Other {
        /// Why.
        why: String,
    },
}

impl PoolReason {
    /// Sorts reasons by closeness: the pool that is nearest to having a place comes first.
    pub fn sort(reasons: &mut Vec<Self>) {
        reasons.sort_by(|a, b| a.order().cmp(&b.order()));
        reasons.dedup();
    }

    fn order(&self) -> (Reverse<u8>, u64, &str) {
        let (stage, shortfall) = match &self.end {
            End::Unusable { .. } => (0, 0),
            End::Taints { .. } => (1, 0),
            End::Constraints { .. } => (2, 0),
            End::Label { .. } => (3, 0),
            End::Offerings { .. } => (4, 0),
            End::Resources { shortfall, .. } => (5, *shortfall),
            End::MinValues { .. } => (6, 0),
            End::Limits { .. } => (7, 0),
            End::Pods { .. } => (8, 0),
            End::Other { .. } => (9, 0),
        };
        (Reverse(stage), shortfall, &self.pool)
    }

    /// Whether the pod is nearer to a place here than by `other`.
    pub(crate) fn is_closer_than(&self, other: &Self) -> bool {
        self.order() < other.order()
    }
}

impl fmt::Display for PoolReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.pool)?;
        let after = matches!(
            self.end,
            End::Label { .. }
                | End::Offerings { .. }
                | End::Resources { .. }
                | End::MinValues { .. }
                | End::Limits { .. }
                | End::Pods { .. }
        );
        if let (true, Some(last)) = (after, self.steps.last()) {
            let keys: Vec<&str> = self.steps.iter().map(|step| step.key.as_str()).collect();
            let left = last.left;
            write!(f, "{left} of {} types left after {}; ", self.types, keys.join(", "))?;
        } else if after {
            write!(f, "{} types; ", self.types)?;
        }
        write!(f, "{}", self.end)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { why } | Self::Other { why } => f.write_str(why),
            Self::Taints { taints } => {
                write!(f, "taints that the pod does not tolerate: {}", taints.join(", "))
            }
            Self::Constraints { why } => write!(f, "incompatible requirements: {why}"),
            Self::Label { requirement } => write!(f, "none has {requirement}"),
            Self::Offerings { requirements } if requirements.is_empty() => {
                f.write_str("none is to be had now")
            }
            Self::Offerings { requirements } => {
                write!(f, "none is to be had now with {}", requirements.join(", "))
            }
            Self::Resources { wanted, together, daemons, closest, lacks, .. } => {
                let at_once = if *together { " at once" } else { "" };
                let free = if *daemons { " free of daemonsets" } else { "" };
                let (wanted, lacks) = (Amounts(wanted), Amounts(lacks));
                write!(f, "none has {wanted}{at_once}{free}; closest: {closest} lacks {lacks}")
            }
            Self::MinValues { key, wanted, found } => write!(
                f,
                "those that hold the pod have {found} values of {key}, minValues asks for {wanted}"
            ),
            Self::Limits { holding, limits } => write!(
                f,
                "the {holding} that hold the pod exceed what the pool's limits leave ({})",
                limits.join(", ")
            ),
            Self::Pods { constraints } => {
                write!(f, "other pods leave no place: {}", constraints.join(", "))
            }
        }
    }
}

/// Amounts as people say them: `8 vCPU, 3Gi memory`.
struct Amounts<'a>(&'a Resources);

impl fmt::Display for Amounts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, quantity) in self.0.quantities() {
            if !std::mem::take(&mut first) {
                f.write_str(", ")?;
            }
            if name == "cpu" {
                let (whole, milli) = (self.0.cpu / 1000, self.0.cpu % 1000);
                let part = format!(".{milli:03}");
                let part = if milli == 0 { "" } else { part.trim_end_matches('0') };
                write!(f, "{whole}{part} vCPU")?;
            } else {
                write!(f, "{quantity} {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(pool: &str, end: End) -> PoolReason {
        let steps = vec![Step { key: "kubernetes.io/arch".into(), left: 212 }];
        PoolReason { pool: pool.into(), types: 640, steps, end }
    }

    fn lacking(milli: i64, shortfall: u64) -> End {
        End::Resources {
            wanted: Resources { cpu: 200_000, ..Resources::default() },
            together: false,
            daemons: true,
            closest: "c7a.48xlarge".into(),
            lacks: Resources { cpu: milli, ..Resources::default() },
            shortfall,
        }
    }

    #[test]
    fn the_text_tells_the_chain() {
        assert_eq!(
            reason("general-purpose", lacking(8000, 40_000)).to_string(),
            "general-purpose: 212 of 640 types left after kubernetes.io/arch; none has 200 vCPU \
             free of daemonsets; closest: c7a.48xlarge lacks 8 vCPU"
        );
        assert!(reason("p", lacking(8250, 1)).to_string().ends_with("lacks 8.25 vCPU"));
        let taints = End::Taints { taints: vec!["gpu=yes:NoSchedule".into()] };
        assert_eq!(
            reason("p", taints).to_string(),
            "p: taints that the pod does not tolerate: gpu=yes:NoSchedule"
        );
    }

    #[test]
    fn the_closest_pool_comes_first_and_each_once() {
        let limits = End::Limits { holding: 3, limits: vec!["cpu".into()] };
        let label = End::Label { requirement: "a In [b]".into() };
        let mut reasons = vec![
            reason("label", label.clone()),
            reason("far", lacking(16_000, 80_000)),
            reason("near", lacking(8000, 40_000)),
            reason("limits", limits),
            reason("label", label),
        ];
        PoolReason::sort(&mut reasons);
        let order: Vec<&str> = reasons.iter().map(|reason| &*reason.pool).collect();
        assert_eq!(order, ["limits", "near", "far", "label"]);
    }
}
