//! How far the controllers have come with a node that is to go.

use std::collections::BTreeSet;

use aerostat_api::{NodeClaim, labels};
use kube::ResourceExt;

/// What there is to see.
#[derive(Debug, Default)]
pub struct Sight {
    /// The claim, as long as it is there.
    pub claim: Option<NodeClaim>,
    /// Claims that take its place.
    pub replacements: Vec<NodeClaim>,
    /// Why it stays.
    pub stays: Option<String>,
}

impl Sight {
    /// What `claims` have to do with `claim`.
    pub fn of(claim: &NodeClaim, claims: Vec<NodeClaim>, stays: Option<String>) -> Self {
        let name = claim.name_any();
        let replaces = |other: &NodeClaim| {
            let list = other.annotations().get(labels::REPLACES);
            list.is_some_and(|list| list.split(',').any(|old| old == name))
        };
        let (mut own, replacements) = (None, Vec::new());
        let mut sight = Self { claim: None, replacements, stays };
        for other in claims {
            if other.uid() == claim.uid() {
                own = Some(other);
            } else if replaces(&other) {
                sight.replacements.push(other);
            }
        }
        sight.claim = own;
        sight
    }
}

/// What has been told already.
#[derive(Debug, Default)]
pub struct Progress(BTreeSet<String>);

impl Progress {
    /// What is news.
    pub fn see(&mut self, sight: &Sight) -> Vec<String> {
        let mut lines = Vec::new();
        for claim in &sight.replacements {
            let name = claim.name_any();
            lines.push(format!("ordered {name} in its place"));
            if let Some(node) = up(claim) {
                lines.push(format!("{name} is up: node {node}"));
            }
        }
        match &sight.claim {
            None => lines.push("it has gone".to_owned()),
            Some(claim) if claim.metadata.deletion_timestamp.is_some() => {
                lines.push("it is being drained".to_owned());
            }
            Some(_) => {
                lines.extend(sight.stays.iter().map(|why| format!("it stays so far: {why}")))
            }
        }
        lines.retain(|line| self.0.insert(line.clone()));
        lines
    }
}

/// The node of a claim that is ready for pods.
fn up(claim: &NodeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    let is_up = conditions.any(|c| c.type_ == "Initialized" && c.status == "True");
    status.node_name.as_deref().filter(|_| is_up)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(name: &str, more: &Value) -> NodeClaim {
        let mut value = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": name},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
        });
        for (part, fields) in more.as_object().unwrap() {
            for (field, of) in fields.as_object().unwrap() {
                value[part][field] = of.clone();
            }
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_step_is_told_once_and_in_order() {
        let old = claim("old", &json!({}));
        let other = claim(
            "other",
            &json!({"metadata": {"annotations": {
                "aerostat.dev/replaces": "older",
            }}}),
        );
        let by = json!({"aerostat.dev/replaces": "a,old"});
        let new = claim("new", &json!({"metadata": {"annotations": by}}));
        let up = claim(
            "new",
            &json!({
                "metadata": {"annotations": by},
                "status": {"nodeName": "n2", "conditions": [{
                    "type": "Initialized", "status": "True", "reason": "Initialized", "message": "",
                    "lastTransitionTime": "2025-01-06T08:00:00Z",
                }]},
            }),
        );
        let going = claim(
            "old",
            &json!({
                "metadata": {"deletionTimestamp": "2025-01-06T08:00:00Z"},
            }),
        );
        let mut progress = Progress::default();
        let mut see = |claims: &[&NodeClaim], stays: Option<&str>| {
            let claims = claims.iter().map(|&claim| claim.clone()).collect();
            progress.see(&Sight::of(&old, claims, stays.map(str::to_owned)))
        };
        assert_eq!(see(&[&old, &other], Some("a pod")), ["it stays so far: a pod"]);
        assert!(see(&[&old, &other], Some("a pod")).is_empty(), "it was told");
        assert_eq!(see(&[&old, &other, &new], None), ["ordered new in its place"]);
        assert_eq!(see(&[&old, &up], None), ["new is up: node n2"]);
        assert_eq!(see(&[&going, &up], None), ["it is being drained"]);
        assert_eq!(see(&[&up], None), ["it has gone"]);
    }
}
