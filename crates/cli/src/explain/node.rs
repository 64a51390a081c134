//! How a node stands, in sentences.

use serde_json::Value;

/// Why a node stays or goes, for people.
pub fn render(document: &Value) -> String {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let (node, reason) = (text("node"), text("reason"));
    let mut lines = vec![match text("outcome") {
        "unmanaged" => format!("node {node} has no NodeClaim: Aerostat leaves it alone"),
        "leaving" if document["isDraining"] == true => format!("node {node} is being drained"),
        "leaving" => format!("node {node} goes ({reason}) as soon as its replacement is ready"),
        "kept" => format!("node {node} stays: {reason}"),
        _ => format!(
            "node {node} stays: it is new, pods came or went lately, or other decisions come first"
        ),
    }];
    if let Some(price) = document["pricePerHour"].as_f64().filter(|price| *price > 0.0) {
        lines.push(format!("  without it, ${price:.4}/h less what its pods cost elsewhere"));
    }
    let claim = text("nodeClaim");
    if !claim.is_empty() {
        lines.push(format!("its NodeClaim is {claim}"));
    }
    if let Some(at) = document["at"].as_str() {
        lines.push(format!("looked at {at}"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::render;

    #[test]
    fn every_standing_has_its_sentence() {
        let kept = json!({"outcome": "kept", "node": "n", "nodeClaim": "c", "pricePerHour": 0.1,
            "reason": "Can't replace with a cheaper node"});
        assert_eq!(
            render(&kept),
            "node n stays: Can't replace with a cheaper node\n  without it, $0.1000/h less what \
             its pods cost elsewhere\nits NodeClaim is c\n"
        );
        let leaving = json!({"outcome": "leaving", "node": "n", "reason": "Drifted"});
        assert!(render(&leaving).contains("goes (Drifted) as soon as"));
        let draining = json!({"outcome": "leaving", "node": "n", "isDraining": true});
        assert!(render(&draining).contains("is being drained"));
        assert!(render(&json!({"outcome": "unmanaged", "node": "n"})).contains("no NodeClaim"));
    }
}
