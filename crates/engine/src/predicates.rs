//! Does this pod fit on that node? Kubernetes' scheduling predicates, used by the planner and by
//! the embedded scheduler alike, so that the two cannot disagree.
