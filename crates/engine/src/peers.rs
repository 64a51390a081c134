//! What others would decide, to compare with. Emulations: their rules with our planner's parts.

pub(crate) mod cluster_autoscaler;
