//! What the scheduler says, word for word as kube-scheduler v1.36.
//!
//! Source: kubernetes `pkg/scheduler/framework/types.go` (FitError), `framework/preemption`,
//! `framework/plugins/dynamicresources` and `framework/plugins/nodeaffinity`.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// There is nothing to schedule on.
pub(super) const NO_NODES: &str = "no nodes available to schedule pods";
/// A node whose failure no preemption can cure.
pub(super) const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
/// A node with nobody to preempt.
pub(super) const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
/// The pod must not preempt.
pub(super) const POLICY_NEVER: &str = "not eligible due to preemptionPolicy=Never.";
/// The pod has preempted already, and its victims are not gone yet.
pub(super) const VICTIMS_LEAVE: &str =
    "not eligible due to a terminating pod on the nominated node.";
/// A node that the pod's affinity to node names leaves out.
pub(super) const NOT_NAMED: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
/// No node name can meet all terms.
pub(super) const NAMES_CONFLICT: &str = "pod affinity terms conflict";

/// Events carry at most this many bytes of a message.
const NOTE_LIMIT: usize = 1024;

/// What keeps a pod off, and from how many nodes.
pub(super) type Counts = BTreeMap<String, usize>;

/// The message of a pod that fits nowhere: `whole` is what keeps it off all nodes before any is
/// looked at, `counts` what keeps it off each, `after` what was tried then.
pub(super) fn fit_error(nodes: usize, whole: Option<&str>, counts: &Counts, after: &str) -> String {
    let mut message = format!("0/{nodes} nodes are available:");
    if let Some(whole) = whole {
        message.push_str(&format!(" {whole}."));
    } else if !counts.is_empty() {
        let mut reasons: Vec<_> =
            counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        // As texts: "10 x" comes before "2 y".
        reasons.sort();
        message.push_str(&format!(" {}.", reasons.join(", ")));
    }
    if !after.is_empty() {
        message.push(' ');
        message.push_str(after);
    }
    message
}

/// What follows when preemption was tried in vain: dynamic resources speak first since v1.34.
pub(super) fn preemption(outcome: &str) -> String {
    format!("no new claims to deallocate, preemption: {outcome}")
}

/// The message of a pod with constraints that nothing here judges.
pub(super) fn unsupported(constraints: &[String]) -> String {
    format!("{} not supported by this embedded scheduler", constraints.join(", "))
}

/// `message` as an event may carry it.
pub(super) fn note(message: &str) -> Cow<'_, str> {
    if message.len() <= NOTE_LIMIT {
        return message.into();
    }
    let suffix = " ...";
    let mut end = NOTE_LIMIT - suffix.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &message[..end]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_sorted_as_texts() {
        let counts = Counts::from([("b".to_owned(), 2), ("a".to_owned(), 3), ("c".to_owned(), 10)]);
        let message = fit_error(15, None, &counts, &preemption("why."));
        let expected = "0/15 nodes are available: 10 c, 2 b, 3 a. \
                        no new claims to deallocate, preemption: why.";
        assert_eq!(message, expected);
        assert_eq!(fit_error(1, Some("no"), &counts, ""), "0/1 nodes are available: no.");
    }

    #[test]
    fn notes_are_cut_at_1024_bytes() {
        assert_eq!(note("short"), "short");
        let message = "é".repeat(1000);
        let long = note(&message);
        assert!(long.len() <= 1024 && long.ends_with("é ..."));
    }
}
